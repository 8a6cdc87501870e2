// Values of the gate to messages of fairgate.v1. The other direction, with its checks, is
// server/core/validate.h.
#ifndef FAIRGATE_SERVER_SERVICE_PROTO_CONVERT_H_
#define FAIRGATE_SERVER_SERVICE_PROTO_CONVERT_H_

#include "absl/time/time.h"
#include "fairgate/v1/admission.pb.h"
#include "google/protobuf/duration.pb.h"
#include "server/core/decision.h"

namespace fairgate {

// Infinite durations become the longest that the message can hold.
google::protobuf::Duration ToProto(absl::Duration duration);

v1::AdmitResponse ToProto(const Decision& decision);

v1::ReleaseResponse ToProto(const ReleaseReport& report);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_PROTO_CONVERT_H_
