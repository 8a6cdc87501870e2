#include "client/cpp/src/exchange.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>

#include "client/cpp/src/core.h"
#include "client/cpp/src/wire.h"

namespace fairgate::client {
namespace {

// A connection that broke is worth a second try on a fresh one; both carry the same ids, so that
// the gate decides once.
constexpr int kTriesMax = 2;
// The channel may notice a moment later than the call that its connection is gone: until then it
// sends the next one into the same grave. At random, so that not all who lost it come back at once.
constexpr std::chrono::microseconds kPauseMin = std::chrono::milliseconds(10);
constexpr std::chrono::microseconds kPauseMax = std::chrono::milliseconds(20);
constexpr absl::Duration kBudgetMax = absl::Hours(25);

// Before the second try, which keeps at least half of the time. Ends early when it is stopped.
void Pause(Instant until, const std::stop_token& stop) {
  thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<int64_t> between(kPauseMin.count(), kPauseMax.count());
  const std::chrono::microseconds pause(between(random));
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(
      lock, stop, std::min<std::chrono::nanoseconds>(pause, (until - Now()) / 2),
      [] { return false; });
}

}  // namespace

Exchange::Exchange(Core& core, absl::Duration budget, Instant due)
    : core_(core), began_(Now()), until_(After(began_, std::min(budget, kBudgetMax))) {
  if (due < until_) {
    until_ = due;
    hurried_ = true;
  }
}

void Exchange::Run(const std::stop_token& stop,
                   absl::FunctionRef<grpc::Status(grpc::ClientContext*)> try_once) {
  if (!core_.BreakerAllows()) return;
  while (true) {
    grpc::ClientContext context;
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(until_ - Now());
    context.set_deadline(std::chrono::system_clock::now() + left);
    grpc::Status status;
    bool is_connected = core_.IsConnected();
    {
      const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
      status = try_once(&context);
    }
    ++tries_;
    // A call that is given up has no peer, even if it was sent.
    is_connected = is_connected || core_.IsConnected();
    const bool has_left = is_connected || core_.IsPeer(context.peer());
    if (!Note(status, has_left, stop.stop_requested())) return;
    if (has_left) Pause(until_, stop);
  }
}

bool Exchange::Note(const grpc::Status& status, bool has_left, bool stopped) {
  if (status.ok() || !IsNoAnswer(status)) {
    answered_ = status.ok();
    if (!answered_) refusal_ = ToRefusal(status);
    core_.GateAnswered();
    return false;
  }
  maybe_decided_ = maybe_decided_ || has_left;
  cancelled_ = stopped;
  if (cancelled_) return false;
  timed_out_ = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!timed_out_ && tries_ < kTriesMax && Now() < until_) return true;
  if (!(timed_out_ && hurried_)) core_.GateFailed();
  return false;
}

bool Exchange::was_too_late() const { return hurried_ && (timed_out_ || Now() >= until_); }

}  // namespace fairgate::client
