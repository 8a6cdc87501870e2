// What a status of the client tells beyond its code and message.
//
//   kInvalidArgument     the gate refuses the question; FieldViolations() says what is wrong
//   kNotFound            unknown target
//   kUnavailable         IsUnreachable(): the gate could not be asked. Else the gate says that the
//                        target's policy stays closed while its store is away
//   kCancelled           the caller's stop_token was stopped
//   kFailedPrecondition  there is no open lease (any more)
//   others               as the gate says, for example kInternal
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ERRORS_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace fairgate::client {

// One bad field of a question.
struct FieldViolation {
  std::string field;  // as in fairgate.v1.AdmitRequest, for example cost["tokens"]
  std::string description;
};

// The bad fields that the gate names; empty where it names none.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);

// The gate could not be asked: no answer in time, no connection, or the breaker is open.
bool IsUnreachable(const absl::Status& status);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ERRORS_H_
