#include "client/cpp/src/core.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cpp/src/exchange.h"
#include "client/cpp/src/wire.h"

namespace fairgate::client {
namespace {

// The gate holds no longer, whatever is asked.
constexpr absl::Duration kMaxHoldMax = absl::Hours(1);

// gRPC's own limits are ints of milliseconds.
int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      absl::ToInt64Milliseconds(std::clamp(duration, absl::ZeroDuration(), absl::Hours(24))));
}

// "unix:/path" is both a target and a peer; written like that it is only a target. See IsPeer().
std::string ToTarget(absl::string_view address) {
  if (absl::StartsWith(address, "unix:/") && !absl::StartsWith(address, "unix://")) {
    return absl::StrCat("unix://", absl::StripPrefix(address, "unix:"));
  }
  return std::string(address);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  // The default backs off to two minutes, which would outlast the breaker by far.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Connecting anew would eat the next question's time.
  arguments.SetInt(GRPC_ARG_CLIENT_IDLE_TIMEOUT_MS, std::numeric_limits<int>::max());
  // One client's back-off is not another's.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // What is safe is tried again here, and by gRPC only what never left.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

Core::Core(ClientOptions options)
    : options_(std::move(options)),
      target_(ToTarget(options_.address)),
      channel_(MakeChannel(target_, options_)),
      stub_(v1::AdmissionService::NewStub(channel_)),
      breaker_(options_.breaker_failures, options_.breaker_cooldown),
      reconnect_(channel_),
      background_([this](const v1::ReleaseRequest& request, const std::stop_token& stop) {
        Release(request, kNever, stop, /*maybe_leased=*/true).IgnoreError();
      }) {}

absl::StatusOr<Admission> Core::Admit(const AdmitOptions& options, Instant due,
                                      const std::stop_token& stop) {
  if (stop.stop_requested()) return Cancelled();
  v1::AdmitRequest request = ToAdmitRequest(options);
  Exchange exchange(
      *this, options_.rpc_timeout + std::clamp(options.max_hold, absl::ZeroDuration(), kMaxHoldMax),
      due);
  if (due != kNever) SetProto(Between(exchange.began(), due), request.mutable_deadline());
  v1::AdmitResponse response;
  if (!exchange.is_pointless()) {
    exchange.Run(stop, [&](grpc::ClientContext* context) {
      return stub_->Admit(context, request, &response);
    });
  }

  const bool maybe_leased = exchange.maybe_decided() && !options.check_only;
  const auto withdraw = [&] {
    if (!maybe_leased) return;
    ReleaseLater(WithdrawRequest(request.target(), request.request_id(), request.attempt()));
  };
  if (exchange.cancelled()) {
    withdraw();
    return Cancelled();
  }
  absl::StatusOr<Answer> answer = Unreachable();
  if (exchange.answered()) {
    answer = ToAnswer(response, options.target);
  } else if (!exchange.refusal().ok()) {
    answer = exchange.refusal();
  } else if (exchange.is_pointless()) {
    answer = LateRejection(request, "the deadline had passed", /*degraded=*/false);
  } else if (exchange.was_too_late()) {
    // No sign that the gate is away, and no reason to call.
    answer = LateRejection(request, "the deadline passed before the gate answered",
                           /*degraded=*/true);
    withdraw();
  } else if (options_.fail_open) {
    answer = Answer{.outcome = Outcome::kFailedOpen,
                    .target = options.target,
                    .request_id = request.request_id(),
                    .attempt = request.attempt(),
                    .degraded = true};
  }
  Note(options, exchange.began(), answer);
  if (!answer.ok()) return answer.status();

  std::unique_ptr<Lease> lease;
  if (answer->outcome == Outcome::kGranted || answer->outcome == Outcome::kFailedOpen) {
    const bool failed_open = answer->outcome == Outcome::kFailedOpen;
    lease = std::make_unique<Lease>();
    lease->core = shared_from_this();
    lease->cost = options.cost;
    lease->maybe_leased = failed_open && maybe_leased;
    lease->is_open = failed_open ? maybe_leased : !options.check_only;
    lease->sent = !options.tells_sent;
  }
  return Admission(*std::move(answer), std::move(lease));
}

Admission Core::TooLateToWait(const Answer& deferred) {
  Answer answer;
  answer.outcome = Outcome::kRejected;
  answer.target = deferred.target;
  answer.request_id = deferred.request_id;
  answer.attempt = deferred.attempt;
  answer.degraded = true;
  answer.reject.reason = RejectReason::kDeadlineUnreachable;
  answer.reject.message = "the deadline passed while waiting";
  return Admission(std::move(answer), nullptr);
}

absl::StatusOr<ReleaseReport> Core::Release(const v1::ReleaseRequest& request, Instant due,
                                            const std::stop_token& stop, bool maybe_leased) {
  Exchange exchange(*this, options_.rpc_timeout, due);
  v1::ReleaseResponse response;
  exchange.Run(stop, [&](grpc::ClientContext* context) {
    return stub_->Release(context, request, &response);
  });

  absl::StatusOr<ReleaseReport> report = Unreachable();
  if (exchange.answered()) {
    report = ToReport(response);
  } else if (!exchange.refusal().ok()) {
    report = exchange.refusal();
  } else if (exchange.cancelled()) {
    report = Cancelled();
  }
  if (!report.ok()) {
    if (maybe_leased) return report;
    const std::lock_guard lock(mutex_);
    ++counters_.releases_lost;
  }
  if (options_.on_release) {
    const std::string result = report.ok()               ? std::string(Name(report->result))
                               : exchange.refusal().ok() ? "LOST"
                                                         : "ERROR";
    options_.on_release({.target = request.target(),
                         .outcome = SaidBy(request),
                         .result = result,
                         .duration = Between(exchange.began(), Now())});
  }
  return report;
}

void Core::Close() {
  background_.Close(options_.rpc_timeout);
  reconnect_.Close();
}

Counters Core::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::map<std::string, Usage> Core::UsageDimensions(const Amounts& cost,
                                                   const Amounts& debited) const {
  std::map<std::string, Usage> found;
  for (const Amounts* named : {&cost, &debited}) {
    for (const auto& [name, amount] : *named) {
      for (const auto* usages : {&options_.usage_dimensions, &DefaultUsage()}) {
        const auto usage = usages->find(name);
        if (usage != usages->end()) found.insert(*usage);  // keeps what is there
      }
    }
  }
  return found;
}

bool Core::BreakerAllows() {
  const std::lock_guard lock(mutex_);
  if (breaker_.Allows(Now())) return true;
  ++counters_.breaker_skips;
  return false;
}

void Core::GateAnswered() {
  {
    const std::lock_guard lock(mutex_);
    const bool was_open = breaker_.is_open();
    breaker_.Succeeded();
    if (!was_open) return;
  }
  if (options_.on_breaker) options_.on_breaker({.open = false});
}

void Core::GateFailed() {
  if (!IsConnected()) reconnect_.Start();
  {
    const std::lock_guard lock(mutex_);
    const bool was_open = breaker_.is_open();
    breaker_.Failed(Now());
    if (was_open || !breaker_.is_open()) return;
  }
  if (options_.on_breaker) options_.on_breaker({.open = true});
}

bool Core::IsConnected() const {
  return channel_->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
}

// Without a connection gRPC names the target as the peer. Where both look the same it may be one.
bool Core::IsPeer(const std::string& peer) const {
  return peer != target_ || absl::StartsWith(target_, "ipv4:") ||
         absl::StartsWith(target_, "ipv6:") || absl::StartsWith(target_, "unix-abstract:");
}

void Core::Note(const AdmitOptions& options, Instant began, const absl::StatusOr<Answer>& answer) {
  AdmitEvent event{.target = options.target,
                   .tenant = options.tenant,
                   .priority = options.priority,
                   .outcome = "error",
                   .duration = Between(began, Now())};
  uint64_t Counters::*counter = &Counters::errors;
  if (answer.ok()) {
    event.degraded = answer->degraded;
    event.delay = answer->retry_delay;
    switch (answer->outcome) {
      case Outcome::kGranted:
        event.outcome = "granted";
        counter = &Counters::granted;
        break;
      case Outcome::kFailedOpen:
        event.outcome = "failed_open";
        counter = &Counters::failed_open;
        break;
      case Outcome::kDeferred:
        event.outcome = "deferred";
        counter = &Counters::deferred;
        break;
      case Outcome::kRejected:
        event.outcome = "rejected";
        counter = &Counters::rejected;
        break;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ++(counters_.*counter);
  }
  if (options_.on_admit) options_.on_admit(event);
}

}  // namespace fairgate::client
