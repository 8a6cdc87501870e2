#include "fairgate/admission.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/src/core.h"
#include "client/cpp/src/wire.h"

namespace fairgate::client {
namespace {

// What ends the lease, once.
std::optional<Settlement> Take(Lease* lease) {
  if (lease == nullptr || !std::exchange(lease->is_open, false)) return std::nullopt;
  if (lease->settlement) return *std::move(lease->settlement);
  return Settlement{.outcome = lease->sent ? CallOutcome::kUnknown : CallOutcome::kNotSent};
}

}  // namespace

Admission::Admission(Answer answer, std::unique_ptr<Lease> lease)
    : answer_(std::move(answer)), lease_(std::move(lease)) {}

Admission::Admission(Admission&& other) noexcept = default;

Admission& Admission::operator=(Admission&& other) noexcept {
  if (this == &other) return *this;
  Close();
  answer_ = std::move(other.answer_);
  lease_ = std::move(other.lease_);
  report_ = std::move(other.report_);
  return *this;
}

Admission::~Admission() { Close(); }

void Admission::Settle(Amounts actual) {
  SettleAs({.outcome = CallOutcome::kOk, .actual = std::move(actual)});
}

void Admission::SettleAs(Settlement settlement) {
  if (lease_) lease_->settlement = std::move(settlement);
}

Settlement Admission::SettleResponse(const Response& response) {
  const auto dimensions =
      lease_ ? lease_->core->UsageDimensions(lease_->cost, answer_.debited) : DefaultUsage();
  Settlement settlement = SettlementOf(response, dimensions, absl::Now());
  SettleAs(settlement);
  return settlement;
}

void Admission::NotSent() { SettleAs({.outcome = CallOutcome::kNotSent}); }

void Admission::Sent() {
  if (lease_) lease_->sent = true;
}

void Admission::Close() noexcept {
  if (lease_ && lease_->maybe_leased) {
    const std::optional<Settlement> settlement = Take(lease_.get());
    if (settlement) lease_->core->ReleaseLater(SettleRequest(answer_, *settlement));
    return;
  }
  Release().IgnoreError();
}

absl::StatusOr<ReleaseReport> Admission::Release(const CallContext& context) {
  const std::optional<Settlement> settlement = Take(lease_.get());
  if (!settlement) return ReleaseReport();
  absl::StatusOr<ReleaseReport> report =
      lease_->core->Release(SettleRequest(answer_, *settlement), ToInstant(context.deadline),
                            context.stop, lease_->maybe_leased);
  if (report.ok()) report_ = *report;
  return report;
}

absl::StatusOr<absl::Duration> Admission::Extend(absl::Duration lease_ttl,
                                                 const Amounts& used_so_far,
                                                 const CallContext& context) {
  if (!lease_ || !lease_->is_open || failed_open()) {
    return absl::FailedPreconditionError("no open lease");
  }
  const absl::StatusOr<ReleaseReport> report =
      lease_->core->Release(ExtendRequest(answer_, lease_ttl, used_so_far),
                            ToInstant(context.deadline), context.stop, /*maybe_leased=*/false);
  if (!report.ok()) return report.status();
  if (report->result != ReleaseResult::kExtended && report->result != ReleaseResult::kQueued) {
    lease_->is_open = false;
    return absl::FailedPreconditionError(
        absl::StrCat("the lease has ended: ", Name(report->result)));
  }
  return report->lease_expires_in;
}

}  // namespace fairgate::client
