// The contract's messages, made of the public values and read into them.
#ifndef FAIRGATE_CLIENT_CPP_SRC_WIRE_H_
#define FAIRGATE_CLIENT_CPP_SRC_WIRE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fairgate/admission.h"
#include "fairgate/options.h"
#include "fairgate/v1/admission.pb.h"
#include "fairgate/values.h"

namespace fairgate::client {

void SetProto(absl::Duration duration, google::protobuf::Duration* proto);

// The question, but for its deadline. Makes a request id where there is none.
v1::AdmitRequest ToAdmitRequest(const AdmitOptions& options);
// kInternal: an answer without an outcome.
absl::StatusOr<Answer> ToAnswer(const v1::AdmitResponse& response, const std::string& target);
// What the client says itself where the caller's deadline leaves no time for the gate.
Answer LateRejection(const v1::AdmitRequest& request, const char* message, bool degraded);

v1::ReleaseRequest SettleRequest(const Answer& answer, const Settlement& settlement);
v1::ReleaseRequest ExtendRequest(const Answer& answer, absl::Duration lease_ttl,
                                 const Amounts& used_so_far);
v1::ReleaseRequest WithdrawRequest(const std::string& target, const std::string& request_id,
                                   uint32_t attempt);
ReleaseReport ToReport(const v1::ReleaseResponse& response);
// What a release says, as metrics name it.
std::string SaidBy(const v1::ReleaseRequest& request);

// Whether the gate could not be asked, as against refused.
bool IsNoAnswer(const grpc::Status& status);
// The gate's refusal, with its details as payloads.
absl::Status ToRefusal(const grpc::Status& status);
absl::Status Unreachable();
absl::Status Cancelled();

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_WIRE_H_
