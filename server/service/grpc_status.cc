#include "server/service/grpc_status.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fairgate {
namespace {

struct Mapping {
  grpc::StatusCode code;
  const char* reason;  // of ErrorInfo; empty: none
};

Mapping Map(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return {grpc::StatusCode::INVALID_ARGUMENT, ""};
    case absl::StatusCode::kNotFound:
      return {grpc::StatusCode::NOT_FOUND, "TARGET_UNKNOWN"};
    case absl::StatusCode::kAborted:
      return {grpc::StatusCode::ABORTED, "VERSION_CONFLICT"};
    case absl::StatusCode::kFailedPrecondition:
      return {grpc::StatusCode::FAILED_PRECONDITION, "POLICY_NOT_APPLICABLE"};
    case absl::StatusCode::kUnavailable:
      return {grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE"};
    case absl::StatusCode::kCancelled:
      return {grpc::StatusCode::CANCELLED, ""};
    case absl::StatusCode::kDeadlineExceeded:
      return {grpc::StatusCode::DEADLINE_EXCEEDED, ""};
    case absl::StatusCode::kResourceExhausted:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, ""};
    case absl::StatusCode::kAlreadyExists:
      return {grpc::StatusCode::ALREADY_EXISTS, ""};
    default:
      return {grpc::StatusCode::INTERNAL, "SERVER_FAULT"};
  }
}

// Field paths hold no blanks outside [brackets]: a sentence with a colon in it names no field.
bool LooksLikeField(absl::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ' ' && depth == 0) {
      return false;
    }
  }
  return !text.empty();
}

google::rpc::BadRequest ToBadRequest(absl::string_view message) {
  google::rpc::BadRequest bad_request;
  for (const absl::string_view line : absl::StrSplit(message, '\n', absl::SkipEmpty())) {
    google::rpc::BadRequest::FieldViolation* const violation = bad_request.add_field_violations();
    // Names inside brackets may hold ": ", so look for the first one that ends a path.
    size_t colon = line.find(": ");
    while (colon != absl::string_view::npos &&
           line.substr(0, colon).find('[') != absl::string_view::npos &&
           line.substr(0, colon).find(']') == absl::string_view::npos) {
      colon = line.find(": ", colon + 1);
    }
    // A quoted name may hold anything, what ends a path included; descriptions hold no quoted one.
    const size_t quoted_end = line.rfind("\"]: ");
    const bool quoted = line.find("[\"") < colon && quoted_end != absl::string_view::npos;
    if (quoted) colon = quoted_end + 2;
    if (quoted || (colon != absl::string_view::npos && LooksLikeField(line.substr(0, colon)))) {
      violation->set_field(std::string(line.substr(0, colon)));
      violation->set_description(std::string(line.substr(colon + 2)));
    } else {
      violation->set_description(std::string(line));
    }
  }
  return bad_request;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  const Mapping mapping = Map(status.code());
  // What went wrong inside is for the log, not for strangers.
  const std::string message = mapping.code == grpc::StatusCode::INTERNAL
                                  ? "the gate failed; see its log"
                                  : std::string(status.message());
  google::rpc::Status details;
  details.set_code(static_cast<int>(mapping.code));
  details.set_message(message);
  if (mapping.code == grpc::StatusCode::INVALID_ARGUMENT) {
    details.add_details()->PackFrom(ToBadRequest(status.message()));
  } else if (mapping.reason[0] != '\0') {
    google::rpc::ErrorInfo info;
    info.set_reason(mapping.reason);
    info.set_domain(kErrorDomain);
    details.add_details()->PackFrom(info);
  }
  return grpc::Status(mapping.code, message, details.SerializeAsString());
}

}  // namespace fairgate
