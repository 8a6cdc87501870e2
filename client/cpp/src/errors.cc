#include "fairgate/errors.h"

#include "absl/strings/cord.h"
#include "client/cpp/src/wire.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fairgate::client {
namespace {

constexpr char kErrorDomain[] = "fairgate.io";
constexpr char kUnreachablePayload[] = "fairgate.io/unreachable";
constexpr char kBadRequestPayload[] = "type.googleapis.com/google.rpc.BadRequest";

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return details;
}

// The gate marks what it says itself, for example UNAVAILABLE where a policy is to stay closed. A
// status without the mark comes from this side's channel, from a proxy, or from a gate that is
// going down; gRPC's own texts do not tell these from the gate.
bool IsMarked(const grpc::Status& status) {
  const google::rpc::Status details = DetailsOf(status);
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == kErrorDomain) return true;
  }
  return false;
}

}  // namespace

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> found;
  const auto payload = status.GetPayload(kBadRequestPayload);
  google::rpc::BadRequest bad;
  if (!payload || !bad.ParseFromString(std::string(*payload))) return found;
  for (const auto& violation : bad.field_violations()) {
    found.push_back({violation.field(), violation.description()});
  }
  return found;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

bool IsNoAnswer(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return true;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return !IsMarked(status);
    default:
      return false;
  }
}

absl::Status ToRefusal(const grpc::Status& status) {
  absl::Status refusal(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const google::rpc::Status details = DetailsOf(status);
  for (const google::protobuf::Any& detail : details.details()) {
    refusal.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return refusal;
}

absl::Status Unreachable() {
  absl::Status status = absl::UnavailableError("the gate does not answer");
  status.SetPayload(kUnreachablePayload, absl::Cord());
  return status;
}

absl::Status Cancelled() { return absl::CancelledError("cancelled by the caller"); }

}  // namespace fairgate::client
