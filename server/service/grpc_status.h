// The one mapping from our failures to what a gRPC client sees.
//
//   absl code            gRPC code            details
//   kInvalidArgument     INVALID_ARGUMENT     google.rpc.BadRequest, one violation per line of the
//                                             message ("field: what is wrong")
//   kNotFound            NOT_FOUND            google.rpc.ErrorInfo TARGET_UNKNOWN
//   kAborted             ABORTED              ErrorInfo VERSION_CONFLICT
//   kFailedPrecondition  FAILED_PRECONDITION  ErrorInfo POLICY_NOT_APPLICABLE
//   kUnavailable         UNAVAILABLE          ErrorInfo STORE_UNAVAILABLE
//   kCancelled, kDeadlineExceeded, kResourceExhausted, kAlreadyExists: same code
//   all others           INTERNAL             ErrorInfo SERVER_FAULT; the message stays in the log
#ifndef FAIRGATE_SERVER_SERVICE_GRPC_STATUS_H_
#define FAIRGATE_SERVER_SERVICE_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace fairgate {

// ErrorInfo's domain.
inline constexpr char kErrorDomain[] = "fairgate.io";

// OK maps to OK.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_GRPC_STATUS_H_
