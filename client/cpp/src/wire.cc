#include "client/cpp/src/wire.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_format.h"

namespace fairgate::client {
namespace {

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

template <typename Map>
Amounts ToAmounts(const Map& map) {
  return Amounts(map.begin(), map.end());
}

std::string NewRequestId() {
  thread_local std::mt19937_64 random{[] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  const uint64_t high = random();
  const uint64_t low = random();
  return absl::StrFormat("%016x%016x", high, low);
}

std::string LayerName(v1::Layer layer) {
  switch (layer) {
    case v1::LAYER_TARGET:
      return "target";
    case v1::LAYER_CLASS:
      return "class";
    case v1::LAYER_TENANT:
      return "tenant";
    default:
      return "";
  }
}

void ReadGrant(const v1::Grant& grant, Answer& answer) {
  answer.outcome = Outcome::kGranted;
  answer.debited = ToAmounts(grant.debited());
  answer.lease_expires_in = FromProto(grant.lease_expires_in());
  answer.repeated = grant.repeated();
}

void ReadDefer(const v1::Defer& defer, Answer& answer) {
  answer.outcome = Outcome::kDeferred;
  answer.retry_delay = FromProto(defer.retry_delay());
  answer.projected_wait = FromProto(defer.projected_wait());
  answer.place = defer.place();
  for (const v1::Limit& limit : defer.limited_by()) {
    answer.limited_by.push_back({LayerName(limit.layer()), limit.dimension()});
  }
}

void ReadReject(const v1::Reject& reject, Answer& answer) {
  answer.outcome = Outcome::kRejected;
  if (v1::RejectReason_IsValid(reject.reason())) {
    answer.reject.reason = static_cast<RejectReason>(reject.reason());
  }
  answer.reject.message = reject.message();
  answer.reject.dimension = reject.dimension();
  if (reject.has_earliest()) answer.reject.earliest = FromProto(reject.earliest());
}

}  // namespace

void SetProto(absl::Duration duration, google::protobuf::Duration* proto) {
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto->set_seconds(seconds);
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

v1::AdmitRequest ToAdmitRequest(const AdmitOptions& options) {
  v1::AdmitRequest request;
  request.set_target(options.target);
  request.set_tenant(options.tenant);
  request.set_priority(options.priority);
  request.mutable_cost()->insert(options.cost.begin(), options.cost.end());
  request.set_cost_kind(options.upper_bound ? v1::COST_KIND_UPPER_BOUND : v1::COST_KIND_ESTIMATE);
  request.set_request_id(options.request_id.empty() ? NewRequestId() : options.request_id);
  request.set_attempt(std::max<uint32_t>(options.attempt, 1));
  if (options.timer_floor != absl::ZeroDuration()) {
    SetProto(options.timer_floor, request.mutable_timer_floor());
  }
  if (options.max_hold != absl::ZeroDuration()) {
    SetProto(options.max_hold, request.mutable_max_hold());
  }
  request.set_mode(options.check_only ? v1::ADMIT_MODE_CHECK_ONLY : v1::ADMIT_MODE_NORMAL);
  return request;
}

absl::StatusOr<Answer> ToAnswer(const v1::AdmitResponse& response, const std::string& target) {
  Answer answer;
  answer.target = target;
  answer.request_id = response.request_id();
  answer.attempt = response.attempt();
  answer.degraded = response.degraded();
  answer.config_version = response.config_version();
  switch (response.outcome_case()) {
    case v1::AdmitResponse::kGrant:
      ReadGrant(response.grant(), answer);
      return answer;
    case v1::AdmitResponse::kDefer:
      ReadDefer(response.defer(), answer);
      return answer;
    case v1::AdmitResponse::kReject:
      ReadReject(response.reject(), answer);
      return answer;
    case v1::AdmitResponse::OUTCOME_NOT_SET:
      break;
  }
  return absl::InternalError("the gate answered without an outcome");
}

Answer LateRejection(const v1::AdmitRequest& request, const char* message, bool degraded) {
  Answer answer;
  answer.outcome = Outcome::kRejected;
  answer.target = request.target();
  answer.request_id = request.request_id();
  answer.attempt = request.attempt();
  answer.degraded = degraded;
  answer.reject.reason = RejectReason::kDeadlineUnreachable;
  answer.reject.message = message;
  return answer;
}

v1::ReleaseRequest SettleRequest(const Answer& answer, const Settlement& settlement) {
  v1::ReleaseRequest request;
  request.set_target(answer.target);
  request.set_request_id(answer.request_id);
  request.set_attempt(answer.attempt);
  v1::Settle* settle = request.mutable_settle();
  settle->set_outcome(static_cast<v1::CallOutcome>(settlement.outcome));
  settle->mutable_actual()->insert(settlement.actual.begin(), settlement.actual.end());
  if (settlement.outcome == CallOutcome::kRateLimited && settlement.retry_after) {
    SetProto(*settlement.retry_after, settle->mutable_retry_after());
  }
  for (const auto& [name, status] : settlement.rate_limits) {
    v1::RateLimitStatus& told = (*settle->mutable_rate_limits())[name];
    if (status.remaining) told.set_remaining(*status.remaining);
    if (status.reset) SetProto(*status.reset, told.mutable_reset());
  }
  return request;
}

v1::ReleaseRequest ExtendRequest(const Answer& answer, absl::Duration lease_ttl,
                                 const Amounts& used_so_far) {
  v1::ReleaseRequest request;
  request.set_target(answer.target);
  request.set_request_id(answer.request_id);
  request.set_attempt(answer.attempt);
  v1::Extend* extend = request.mutable_extend();
  if (lease_ttl > absl::ZeroDuration()) SetProto(lease_ttl, extend->mutable_lease_ttl());
  extend->mutable_used_so_far()->insert(used_so_far.begin(), used_so_far.end());
  return request;
}

v1::ReleaseRequest WithdrawRequest(const std::string& target, const std::string& request_id,
                                   uint32_t attempt) {
  v1::ReleaseRequest request;
  request.set_target(target);
  request.set_request_id(request_id);
  request.set_attempt(std::max<uint32_t>(attempt, 1));
  request.mutable_withdraw();
  return request;
}

ReleaseReport ToReport(const v1::ReleaseResponse& response) {
  ReleaseReport report;
  if (v1::ReleaseResult_IsValid(response.result())) {
    report.result = static_cast<ReleaseResult>(response.result());
  }
  report.refunded = ToAmounts(response.refunded());
  report.degraded = response.degraded();
  report.lease_expires_in = FromProto(response.lease_expires_in());
  return report;
}

std::string SaidBy(const v1::ReleaseRequest& request) {
  if (request.has_extend()) return "EXTEND";
  if (request.has_withdraw()) return "WITHDRAW";
  return std::string(Name(static_cast<CallOutcome>(request.settle().outcome())));
}

}  // namespace fairgate::client
