// The C++ client's driver: tests/conformance/README.md has the protocol. Cancellation is that of
// the CallContext's stop_token.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fairgate/client.h"
#include "tests/conformance/drivers/cpp/block.h"
#include "tests/conformance/drivers/cpp/json.h"

namespace fairgate::conformance {
namespace {

using client::Admission;
using client::AdmitOptions;
using client::CallContext;
using client::CallOutcome;
using client::Client;
using client::ClientOptions;
using client::Settlement;

// What the hooks saw.
class Events {
 public:
  void Add(Struct event) {
    const std::lock_guard lock(mutex_);
    *events_.add_values()->mutable_struct_value() = std::move(event);
  }
  ListValue Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, ListValue());
  }

 private:
  std::mutex mutex_;
  ListValue events_;
};

void SetHooks(ClientOptions& to, Events& events) {
  to.on_admit = [&events](const client::AdmitEvent& seen) {
    Struct event;
    Set(event, "event", "admit");
    Set(event, "outcome", absl::AsciiStrToUpper(seen.outcome));
    Set(event, "degraded", seen.degraded);
    Set(event, "target", seen.target);
    Set(event, "tenant", seen.tenant);
    Set(event, "priority", seen.priority);
    Set(event, "duration_ms", seen.duration);
    events.Add(std::move(event));
  };
  to.on_release = [&events](const client::ReleaseEvent& seen) {
    Struct event;
    Set(event, "event", "release");
    Set(event, "outcome", seen.outcome);
    Set(event, "result", seen.result);
    Set(event, "target", seen.target);
    events.Add(std::move(event));
  };
  to.on_breaker = [&events](const client::BreakerEvent& seen) {
    Struct event;
    Set(event, "event", "breaker");
    Set(event, "open", seen.open);
    events.Add(std::move(event));
  };
}

ClientOptions ToClientOptions(const Struct& command, Events& events) {
  const Struct options = Map(command, "options");
  ClientOptions to;
  to.address = Text(command, "address");
  if (Has(options, "rpc_timeout_ms")) {
    to.rpc_timeout = Milliseconds(Number(options, "rpc_timeout_ms"));
  }
  to.fail_open = Flag(options, "fail_open", true);
  to.breaker_failures = static_cast<int>(Number(options, "breaker_failures", to.breaker_failures));
  if (Has(options, "breaker_cooldown_ms")) {
    to.breaker_cooldown = Milliseconds(Number(options, "breaker_cooldown_ms"));
  }
  if (Has(options, "keepalive_ms")) to.keepalive = Milliseconds(Number(options, "keepalive_ms"));
  SetHooks(to, events);
  return to;
}

AdmitOptions ToQuestion(const Struct& command) {
  AdmitOptions question;
  question.target = Text(command, "target");
  question.tenant = Text(command, "tenant");
  question.priority = Text(command, "priority");
  question.cost = ToAmounts(Map(command, "cost"));
  question.upper_bound = Flag(command, "upper_bound");
  question.request_id = Text(command, "request_id");
  question.attempt = static_cast<uint32_t>(Number(command, "attempt", 1));
  if (Has(command, "deadline_ms")) {
    question.deadline = absl::Now() + Milliseconds(Number(command, "deadline_ms"));
  }
  question.timer_floor = Milliseconds(Number(command, "timer_floor_ms"));
  question.max_hold = Milliseconds(Number(command, "max_hold_ms"));
  question.check_only = Flag(command, "check_only");
  question.tells_sent = Flag(command, "tells_sent");
  return question;
}

Struct Admit(Client& client, const Struct& command) {
  std::stop_source caller;
  CallContext context{.stop = caller.get_token()};
  if (Has(command, "context_deadline_ms")) {
    context.deadline = absl::Now() + Milliseconds(Number(command, "context_deadline_ms"));
  }
  std::jthread canceller;
  if (Has(command, "cancel_after_ms")) {
    const absl::Duration after = Milliseconds(Number(command, "cancel_after_ms"));
    canceller = std::jthread([caller, after](const std::stop_token& answered) mutable {
      try {
        Sleep(after, answered);
        caller.request_stop();
      } catch (const CancelledError&) {  // answered before
      }
    });
  }

  Struct answer;
  const absl::Time began = absl::Now();
  absl::StatusOr<Admission> admission = [&] {
    const AdmitOptions question = ToQuestion(command);
    if (!Has(command, "max_wait_ms")) return client.Admit(question, context);
    const Value& wait = *Find(command, "max_wait_ms");
    return client.AdmitWait(
        question,
        wait.has_string_value() ? absl::InfiniteDuration() : Milliseconds(wait.number_value()),
        context);
  }();
  Set(answer, "elapsed_ms", absl::Now() - began);
  if (!admission.ok()) {
    DescribeError(admission.status(), answer);
    return answer;
  }
  Describe(admission->answer(), answer);
  if (!admission->may_call()) return answer;
  InBlock(*admission, command, caller, answer);
  admission->Close();  // as its destructor would; what the gate made of it is told here
  if (admission->report()) {
    Set(answer, "released", Name(admission->report()->result));
    Set(answer, "refunded", admission->report()->refunded);
  }
  return answer;
}

Struct Burst(Client& client, const Struct& command) {
  std::vector<Struct> answers(static_cast<size_t>(Number(command, "count")));
  std::vector<std::thread> threads;
  const Struct question = Map(command, "admit");
  threads.reserve(answers.size());
  for (Struct& answer : answers) {
    threads.emplace_back([&client, &question, &answer] { answer = Admit(client, question); });
  }
  for (std::thread& thread : threads) thread.join();
  Amounts outcomes;
  double elapsed_ms_max = 0;
  for (const Struct& answer : answers) {
    ++outcomes[Text(answer, "outcome")];
    elapsed_ms_max = std::max(elapsed_ms_max, Number(answer, "elapsed_ms"));
  }
  Struct to;
  Set(to, "outcomes", outcomes);
  Set(to, "elapsed_ms_max", elapsed_ms_max);
  return to;
}

Struct Counters(const Client& client) {
  const client::Counters counters = client.counters();
  Struct to;
  Set(to, "granted", static_cast<double>(counters.granted));
  Set(to, "deferred", static_cast<double>(counters.deferred));
  Set(to, "rejected", static_cast<double>(counters.rejected));
  Set(to, "failed_open", static_cast<double>(counters.failed_open));
  Set(to, "errors", static_cast<double>(counters.errors));
  Set(to, "breaker_skips", static_cast<double>(counters.breaker_skips));
  Set(to, "releases_lost", static_cast<double>(counters.releases_lost));
  return to;
}

Struct Withdraw(Client& client, const Struct& command) {
  Struct answer;
  const auto report = client.Withdraw(Text(command, "target"), Text(command, "request_id"),
                                      static_cast<uint32_t>(Number(command, "attempt", 1)));
  if (report.ok()) {
    Set(answer, "released", Name(report->result));
  } else {
    Set(answer, "code", absl::StatusCodeToString(report.status().code()));
  }
  return answer;
}

Struct Settle(const Struct& command) {
  std::map<std::string, client::Usage> dimensions;
  const auto use = [&dimensions](const std::string& name) {
    dimensions.emplace(name, client::DefaultUsage().at(name));
  };
  if (Has(command, "dimensions")) {
    for (const Value& name : Find(command, "dimensions")->list_value().values()) {
      use(name.string_value());
    }
  } else {
    use("tokens");
  }
  const absl::Time now =
      Has(command, "now_s")
          ? absl::UnixEpoch() + absl::Milliseconds(Number(command, "now_s") * 1000)
          : absl::Now();
  const Settlement settlement = client::SettlementOf(ToResponse(command), dimensions, now);
  Struct answer;
  Set(answer, "outcome",
      settlement.outcome == CallOutcome::kUnknown ? "UNKNOWN" : Name(settlement.outcome));
  Set(answer, "actual", settlement.actual);
  if (settlement.retry_after) Set(answer, "retry_after_ms", *settlement.retry_after);
  Struct* limits = (*answer.mutable_fields())["rate_limits"].mutable_struct_value();
  for (const auto& [name, status] : settlement.rate_limits) {
    Struct* told = (*limits->mutable_fields())[name].mutable_struct_value();
    if (status.remaining) Set(*told, "remaining", *status.remaining);
    if (status.reset) Set(*told, "reset_ms", *status.reset);
  }
  return answer;
}

Struct Estimate(const Struct& command) {
  client::Estimator estimator;
  estimator.output = static_cast<int64_t>(Number(command, "output"));
  Struct answer;
  Set(answer, "tokens", static_cast<double>(estimator.Tokens(ToJson(*Find(command, "body")))));
  return answer;
}

class Program {
 public:
  Struct Do(const Struct& command) {
    const std::string op = Text(command, "op");
    Struct answer;
    if (op == "hello") {
      Set(answer, "client", "cpp");
      Set(answer, "version", client::Version());
    } else if (op == "open") {
      client_.reset();  // of a case that did not close
      (void)events_.Take();
      client_ = std::make_unique<Client>(ToClientOptions(command, events_));
    } else if (op == "admit") {
      answer = Admit(*client_, command);
    } else if (op == "burst") {
      answer = Burst(*client_, command);
    } else if (op == "withdraw") {
      answer = Withdraw(*client_, command);
    } else if (op == "counters") {
      answer = Counters(*client_);
    } else if (op == "events") {
      *(*answer.mutable_fields())["events"].mutable_list_value() = events_.Take();
    } else if (op == "settlement") {
      answer = Settle(command);
    } else if (op == "estimate") {
      answer = Estimate(command);
    } else if (op == "close") {
      client_.reset();
    } else {
      throw std::runtime_error(op + " is not in the client");
    }
    return answer;
  }

 private:
  Events events_;
  std::unique_ptr<Client> client_;  // last: its hooks use the events
};

}  // namespace
}  // namespace fairgate::conformance

int main() {
  using fairgate::conformance::Set;
  using fairgate::conformance::Struct;
  fairgate::conformance::Program program;
  std::string line;
  while (std::getline(std::cin, line)) {
    Struct answer;
    try {
      Struct command;
      if (!google::protobuf::util::JsonStringToMessage(line, &command).ok()) {
        throw std::runtime_error("not JSON");
      }
      answer = program.Do(command);
    } catch (const std::exception& error) {
      Set(answer, "driver_error", error.what());
    }
    std::cout << fairgate::conformance::ToJson(answer) << std::endl;
  }
  return 0;
}
