#include "server/service/proto_convert.h"

#include <algorithm>
#include <cstdint>
#include <variant>

namespace fairgate {
namespace {

// The limit that google.protobuf.Duration documents: about 10000 years.
constexpr int64_t kSecondsMax = 315576000000;

v1::Layer ToEnum(Layer layer) {
  switch (layer) {
    case Layer::kTarget:
      return v1::LAYER_TARGET;
    case Layer::kClass:
      return v1::LAYER_CLASS;
    case Layer::kTenant:
      return v1::LAYER_TENANT;
  }
  return v1::LAYER_UNSPECIFIED;
}

v1::RejectReason ToEnum(RejectReason reason) {
  switch (reason) {
    case RejectReason::kCostExceedsCap:
      return v1::REJECT_REASON_COST_EXCEEDS_CAP;
    case RejectReason::kTargetDisabled:
      return v1::REJECT_REASON_TARGET_DISABLED;
    case RejectReason::kDeadlineUnreachable:
      return v1::REJECT_REASON_DEADLINE_UNREACHABLE;
    case RejectReason::kAlreadySettled:
      return v1::REJECT_REASON_ALREADY_SETTLED;
    case RejectReason::kSuperseded:
      return v1::REJECT_REASON_SUPERSEDED;
    case RejectReason::kTenantNotListed:
      return v1::REJECT_REASON_TENANT_NOT_LISTED;
  }
  return v1::REJECT_REASON_UNSPECIFIED;
}

v1::ReleaseResult ToEnum(ReleaseResult result) {
  switch (result) {
    case ReleaseResult::kSettled:
      return v1::RELEASE_RESULT_SETTLED;
    case ReleaseResult::kWithdrawn:
      return v1::RELEASE_RESULT_WITHDRAWN;
    case ReleaseResult::kExtended:
      return v1::RELEASE_RESULT_EXTENDED;
    case ReleaseResult::kAlreadySettled:
      return v1::RELEASE_RESULT_ALREADY_SETTLED;
    case ReleaseResult::kExpired:
      return v1::RELEASE_RESULT_EXPIRED;
    case ReleaseResult::kUnknown:
      return v1::RELEASE_RESULT_UNKNOWN;
    case ReleaseResult::kQueued:
      return v1::RELEASE_RESULT_QUEUED;
  }
  return v1::RELEASE_RESULT_UNSPECIFIED;
}

class OutcomeWriter {
 public:
  explicit OutcomeWriter(v1::AdmitResponse* response) : response_(response) {}

  void operator()(const Grant& grant) const {
    v1::Grant* const out = response_->mutable_grant();
    for (const auto& [dimension, amount] : grant.debited) {
      (*out->mutable_debited())[dimension] = amount;
    }
    *out->mutable_lease_expires_in() = ToProto(grant.lease_expires_in);
    out->set_repeated(grant.repeated);
  }

  void operator()(const Defer& defer) const {
    v1::Defer* const out = response_->mutable_defer();
    // The contract's floor and grain hold whoever decided.
    const absl::Duration delay =
        std::max(absl::Ceil(defer.retry_delay, absl::Milliseconds(1)), absl::Milliseconds(1));
    *out->mutable_retry_delay() = ToProto(delay);
    *out->mutable_projected_wait() = ToProto(std::max(defer.projected_wait, absl::ZeroDuration()));
    for (const Limit& limit : defer.limited_by) {
      v1::Limit* const added = out->add_limited_by();
      added->set_layer(ToEnum(limit.layer));
      added->set_dimension(limit.dimension);
    }
    out->set_place(defer.place);
  }

  void operator()(const Reject& reject) const {
    v1::Reject* const out = response_->mutable_reject();
    out->set_reason(ToEnum(reject.reason));
    out->set_message(reject.message);
    out->set_dimension(reject.dimension);
    if (reject.earliest) {
      *out->mutable_earliest() = ToProto(*reject.earliest);
    }
  }

 private:
  v1::AdmitResponse* const response_;
};

}  // namespace

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration message;
  const absl::Duration most = absl::Seconds(kSecondsMax);
  duration = std::clamp(duration, -most, most);
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  message.set_seconds(seconds);
  message.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return message;
}

v1::AdmitResponse ToProto(const Decision& decision) {
  v1::AdmitResponse response;
  response.set_request_id(decision.request_id);
  response.set_attempt(decision.attempt);
  response.set_degraded(decision.degraded);
  response.set_config_version(decision.config_version);
  std::visit(OutcomeWriter(&response), decision.outcome);
  return response;
}

v1::ReleaseResponse ToProto(const ReleaseReport& report) {
  v1::ReleaseResponse response;
  response.set_result(ToEnum(report.result));
  for (const auto& [dimension, amount] : report.refunded) {
    (*response.mutable_refunded())[dimension] = amount;
  }
  response.set_degraded(report.degraded);
  if (report.result == ReleaseResult::kExtended) {
    *response.mutable_lease_expires_in() = ToProto(report.lease_expires_in);
  }
  return response;
}

}  // namespace fairgate
