#include "fairgate/client.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/clock.h"
#include "client/cpp/src/core.h"

namespace fairgate::client {
namespace {

v1::CallOutcome ToProto(CallOutcome outcome) {
  switch (outcome) {
    case CallOutcome::kUnknown:
      return v1::CALL_OUTCOME_UNSPECIFIED;
    case CallOutcome::kOk:
      return v1::CALL_OUTCOME_OK;
    case CallOutcome::kRateLimited:
      return v1::CALL_OUTCOME_RATE_LIMITED;
    case CallOutcome::kServerError:
      return v1::CALL_OUTCOME_SERVER_ERROR;
    case CallOutcome::kTimeout:
      return v1::CALL_OUTCOME_TIMEOUT;
    case CallOutcome::kNotSent:
      return v1::CALL_OUTCOME_NOT_SENT;
  }
  return v1::CALL_OUTCOME_UNSPECIFIED;
}

void SetProto(absl::Duration duration, google::protobuf::Duration* proto) {
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto->set_seconds(seconds);
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

}  // namespace

Admission::Admission(Admission&& other) noexcept { *this = std::move(other); }

Admission& Admission::operator=(Admission&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  core_ = std::move(other.core_);
  target_ = std::move(other.target_);
  request_id_ = std::move(other.request_id_);
  attempt_ = other.attempt_;
  outcome_ = other.outcome_;
  degraded_ = other.degraded_;
  lease_open_ = std::exchange(other.lease_open_, false);
  maybe_leased_ = std::exchange(other.maybe_leased_, false);
  debited_ = std::move(other.debited_);
  lease_expires_in_ = other.lease_expires_in_;
  retry_delay_ = other.retry_delay_;
  projected_wait_ = other.projected_wait_;
  place_ = other.place_;
  reject_ = std::move(other.reject_);
  return *this;
}

Admission::~Admission() { Abandon(); }

void Admission::Abandon() noexcept {
  if (lease_open_) Settle({}, CallOutcome::kUnknown).IgnoreError();
}

absl::StatusOr<Settlement> Admission::Settle(const Amounts& actual, CallOutcome outcome,
                                             absl::Duration retry_after) {
  Settlement settlement;
  settlement.degraded = degraded_;
  const bool maybe = std::exchange(maybe_leased_, false);
  if (!std::exchange(lease_open_, false) && !maybe) return settlement;

  v1::ReleaseRequest request;
  request.set_target(target_);
  request.set_request_id(request_id_);
  request.set_attempt(attempt_);
  v1::Settle* settle = request.mutable_settle();
  settle->set_outcome(ToProto(outcome));
  for (const auto& [dimension, amount] : actual) (*settle->mutable_actual())[dimension] = amount;
  if (retry_after > absl::ZeroDuration()) SetProto(retry_after, settle->mutable_retry_after());

  const absl::StatusOr<v1::ReleaseResponse> response = core_->Release(request);
  if (!response.ok()) {
    // A lease that was only a possibility is no reason for an error.
    if (maybe) return settlement;
    return response.status();
  }
  settlement.result = v1::ReleaseResult_Name(response->result());
  settlement.refunded.insert(response->refunded().begin(), response->refunded().end());
  settlement.degraded = response->degraded();
  return settlement;
}

absl::Status Admission::Extend(absl::Duration lease_ttl, const Amounts& used_so_far) {
  if (!lease_open_) return absl::FailedPreconditionError("no open lease");
  v1::ReleaseRequest request;
  request.set_target(target_);
  request.set_request_id(request_id_);
  request.set_attempt(attempt_);
  v1::Extend* extend = request.mutable_extend();
  if (lease_ttl > absl::ZeroDuration()) SetProto(lease_ttl, extend->mutable_lease_ttl());
  for (const auto& [dimension, amount] : used_so_far) {
    (*extend->mutable_used_so_far())[dimension] = amount;
  }
  const absl::StatusOr<v1::ReleaseResponse> response = core_->Release(request);
  if (!response.ok()) return response.status();
  if (response->result() == v1::RELEASE_RESULT_EXTENDED ||
      response->result() == v1::RELEASE_RESULT_QUEUED) {
    if (response->has_lease_expires_in()) {
      lease_expires_in_ = absl::Seconds(response->lease_expires_in().seconds()) +
                          absl::Nanoseconds(response->lease_expires_in().nanos());
    }
    return absl::OkStatus();
  }
  lease_open_ = false;
  return absl::FailedPreconditionError(v1::ReleaseResult_Name(response->result()));
}

absl::Status Admission::Withdraw() {
  if (outcome_ != Outcome::kDeferred) return absl::FailedPreconditionError("not waiting");
  v1::ReleaseRequest request;
  request.set_target(target_);
  request.set_request_id(request_id_);
  request.set_attempt(attempt_);
  request.mutable_withdraw();
  return core_->Release(request).status();
}

Client::Client(ClientOptions options) : core_(std::make_shared<Core>(std::move(options))) {}
Client::~Client() = default;

Counters Client::counters() const { return core_->counters(); }

absl::StatusOr<Admission> Client::Admit(const AdmitOptions& options) {
  return core_->Admit(options);
}

absl::StatusOr<Admission> Client::AdmitWait(const AdmitOptions& options, absl::Duration max_wait) {
  const absl::Time start = absl::Now();
  AdmitOptions asked = options;
  while (true) {
    absl::StatusOr<Admission> admission = Admit(asked);
    if (!admission.ok() || admission->outcome() != Outcome::kDeferred) return admission;
    asked.request_id = admission->request_id();  // keeps the place
    const absl::Duration elapsed = absl::Now() - start;
    if (options.check_only || elapsed + admission->retry_delay() > max_wait) {
      // Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
      if (!options.check_only) admission->Withdraw().IgnoreError();
      return admission;
    }
    absl::SleepFor(admission->retry_delay());
    if (options.deadline) asked.deadline = *options.deadline - (absl::Now() - start);
  }
}

}  // namespace fairgate::client
