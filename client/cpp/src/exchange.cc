#include "client/cpp/src/exchange.h"

#include <algorithm>
#include <chrono>

#include "client/cpp/src/core.h"
#include "client/cpp/src/wire.h"

namespace fairgate::client {
namespace {

// A connection that broke is worth a second try on a fresh one; both carry the same ids, so that
// the gate decides once.
constexpr int kTriesMax = 2;
constexpr absl::Duration kBudgetMax = absl::Hours(25);

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
