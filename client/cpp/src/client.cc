#include "fairgate/client.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "client/cpp/src/core.h"
#include "client/cpp/src/instant.h"
#include "client/cpp/src/wire.h"

namespace fairgate::client {
namespace {

Instant DueAt(const AdmitOptions& options, const CallContext& context) {
  return ToInstant(std::min(options.deadline, context.deadline));
}

// False: stopped before.
bool SleepUntil(Instant wake, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop, wake, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

absl::string_view Version() { return FAIRGATE_CLIENT_VERSION; }

Client::Client(ClientOptions options) : core_(std::make_shared<Core>(std::move(options))) {}

Client::~Client() { core_->Close(); }

Counters Client::counters() const { return core_->counters(); }

absl::StatusOr<Admission> Client::Admit(const AdmitOptions& options, const CallContext& context) {
  return core_->Admit(options, DueAt(options, context), context.stop);
}

absl::StatusOr<Admission> Client::AdmitWait(const AdmitOptions& options, absl::Duration max_wait,
                                            const CallContext& context) {
  const Instant patience_ends = After(Now(), max_wait);
  const Instant due = DueAt(options, context);
  AdmitOptions asked = options;
  while (true) {
    absl::StatusOr<Admission> admission = core_->Admit(asked, due, context.stop);
    if (!admission.ok() || admission->outcome() != Outcome::kDeferred ||
        max_wait <= absl::ZeroDuration() || options.check_only) {
      return admission;
    }
    asked.request_id = admission->request_id();  // keeps the place
    const auto withdraw = [&] {
      core_->ReleaseLater(
          WithdrawRequest(options.target, admission->request_id(), admission->attempt()));
    };
    const Instant turn = After(Now(), admission->retry_delay());
    if (turn > patience_ends) {
      // Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
      withdraw();
      return admission;
    }
    if (!SleepUntil(std::min(turn, due), context.stop)) {
      withdraw();
      return Cancelled();
    }
    if (turn >= due) {
      withdraw();
      return Core::TooLateToWait(admission->answer());
    }
  }
}

absl::StatusOr<ReleaseReport> Client::Withdraw(const std::string& target,
                                               const std::string& request_id, uint32_t attempt,
                                               const CallContext& context) {
  return core_->Release(WithdrawRequest(target, request_id, attempt), ToInstant(context.deadline),
                        context.stop, /*maybe_leased=*/false);
}

}  // namespace fairgate::client
