// From messages to values: everything behind this is known to be good.
#ifndef FAIRGATE_SERVER_CORE_VALIDATE_H_
#define FAIRGATE_SERVER_CORE_VALIDATE_H_

#include <string>
#include <variant>
#include <vector>

#include "fairgate/v1/admission.pb.h"
#include "server/core/request.h"

namespace fairgate {

struct FieldViolation {
  std::string field;        // as in the proto, for example cost["tokens"]
  std::string description;  // what is allowed, and what came
};

// All faults of a request, or its value. An empty request_id is made here: 128 random bits.
std::variant<AdmitQuery, std::vector<FieldViolation>> ValidateAdmit(
    const v1::AdmitRequest& request);
std::variant<ReleaseQuery, std::vector<FieldViolation>> ValidateRelease(
    const v1::ReleaseRequest& request);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_VALIDATE_H_
