// The C++ client's driver: tests/conformance/README.md has the protocol. What the client does not
// have answers driver_error, so that its cases fail.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fairgate/client.h"

namespace {

using fairgate::client::Admission;
using fairgate::client::AdmitOptions;
using fairgate::client::Amounts;
using fairgate::client::CallOutcome;
using fairgate::client::Client;
using fairgate::client::ClientOptions;
using fairgate::client::Outcome;
using google::protobuf::Struct;
using google::protobuf::Value;

struct ApplicationError {};

void Set(Struct& to, const std::string& key, const std::string& value) {
  (*to.mutable_fields())[key].set_string_value(value);
}
void Set(Struct& to, const std::string& key, const char* value) {
  Set(to, key, std::string(value));
}
void Set(Struct& to, const std::string& key, double value) {
  (*to.mutable_fields())[key].set_number_value(value);
}
void Set(Struct& to, const std::string& key, bool value) {
  (*to.mutable_fields())[key].set_bool_value(value);
}
void Set(Struct& to, const std::string& key, const Amounts& amounts) {
  Struct* map = (*to.mutable_fields())[key].mutable_struct_value();
  for (const auto& [name, amount] : amounts) Set(*map, name, amount);
}

const Value* Find(const Struct& from, const std::string& key) {
  const auto found = from.fields().find(key);
  return found == from.fields().end() ? nullptr : &found->second;
}
std::string Text(const Struct& from, const std::string& key, const std::string& otherwise = "") {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->string_value();
}
double Number(const Struct& from, const std::string& key, double otherwise = 0) {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->number_value();
}
bool Flag(const Struct& from, const std::string& key, bool otherwise = false) {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->bool_value();
}
Struct Map(const Struct& from, const std::string& key) {
  const Value* value = Find(from, key);
  return value == nullptr ? Struct() : value->struct_value();
}
Amounts ToAmounts(const Struct& map) {
  Amounts amounts;
  for (const auto& [name, value] : map.fields()) amounts[name] = value.number_value();
  return amounts;
}
absl::Duration Milliseconds(double milliseconds) { return absl::Milliseconds(milliseconds); }

std::string Short(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return std::string(name);
}

ClientOptions ToClientOptions(const Struct& command) {
  const Struct options = Map(command, "options");
  ClientOptions to;
  to.address = Text(command, "address");
  if (Find(options, "rpc_timeout_ms"))
    to.rpc_timeout = Milliseconds(Number(options, "rpc_timeout_ms"));
  to.fail_open = Flag(options, "fail_open", true);
  to.breaker_failures = static_cast<int>(Number(options, "breaker_failures", to.breaker_failures));
  if (Find(options, "breaker_cooldown_ms")) {
    to.breaker_cooldown = Milliseconds(Number(options, "breaker_cooldown_ms"));
  }
  if (Find(options, "keepalive_ms")) to.keepalive = Milliseconds(Number(options, "keepalive_ms"));
  return to;
}

AdmitOptions ToQuestion(const Struct& command) {
  for (const char* missing : {"context_deadline_ms", "cancel_after_ms", "tells_sent"}) {
    if (Find(command, missing))
      throw std::runtime_error(std::string(missing) + " is not in the client");
  }
  AdmitOptions question;
  question.target = Text(command, "target");
  question.tenant = Text(command, "tenant");
  question.priority = Text(command, "priority");
  question.cost = ToAmounts(Map(command, "cost"));
  question.upper_bound = Flag(command, "upper_bound");
  question.request_id = Text(command, "request_id");
  question.attempt = static_cast<uint32_t>(Number(command, "attempt", 1));
  if (Find(command, "deadline_ms"))
    question.deadline = Milliseconds(Number(command, "deadline_ms"));
  question.timer_floor = Milliseconds(Number(command, "timer_floor_ms"));
  question.max_hold = Milliseconds(Number(command, "max_hold_ms"));
  question.check_only = Flag(command, "check_only");
  return question;
}

void Describe(const Admission& admission, Struct& answer) {
  Set(answer, "request_id", admission.request_id());
  Set(answer, "attempt", static_cast<double>(admission.attempt()));
  Set(answer, "degraded", admission.degraded());
  switch (admission.outcome()) {
    case Outcome::kGranted:
    case Outcome::kDegraded:
      Set(answer, "outcome", admission.outcome() == Outcome::kGranted ? "GRANTED" : "FAILED_OPEN");
      Set(answer, "debited", admission.debited());
      Set(answer, "lease_expires_in_ms", absl::ToDoubleMilliseconds(admission.lease_expires_in()));
      break;
    case Outcome::kDeferred:
      Set(answer, "outcome", "DEFERRED");
      Set(answer, "delay_ms", absl::ToDoubleMilliseconds(admission.retry_delay()));
      Set(answer, "projected_wait_ms", absl::ToDoubleMilliseconds(admission.projected_wait()));
      Set(answer, "place", static_cast<double>(admission.place()));
      break;
    case Outcome::kRejected:
      Set(answer, "outcome", "REJECTED");
      Set(answer, "reason", Short(admission.reject().reason, "REJECT_REASON_"));
      Set(answer, "message", admission.reject().message);
      Set(answer, "dimension", admission.reject().dimension);
      if (admission.reject().earliest) {
        Set(answer, "earliest_ms", absl::ToDoubleMilliseconds(*admission.reject().earliest));
      }
      break;
  }
}

CallOutcome ToCallOutcome(const std::string& name) {
  static const std::map<std::string, CallOutcome> kNames = {
      {"OK", CallOutcome::kOk},
      {"RATE_LIMITED", CallOutcome::kRateLimited},
      {"SERVER_ERROR", CallOutcome::kServerError},
      {"TIMEOUT", CallOutcome::kTimeout},
      {"NOT_SENT", CallOutcome::kNotSent},
      {"UNKNOWN", CallOutcome::kUnknown}};
  return kNames.at(name);
}

void Settled(const absl::StatusOr<fairgate::client::Settlement>& settled, Struct& answer) {
  if (!settled.ok() || settled->result.empty()) return;
  Set(answer, "released", Short(settled->result, "RELEASE_RESULT_"));
  Set(answer, "refunded", settled->refunded);
}

void Act(Admission& admission, const Struct& action, Struct& answer) {
  if (Find(action, "settle")) {
    const Struct settle = Map(action, "settle");
    Settled(admission.Settle(ToAmounts(Map(settle, "actual")),
                             ToCallOutcome(Text(settle, "outcome", "OK")),
                             Milliseconds(Number(settle, "retry_after_ms"))),
            answer);
  } else if (Find(action, "not_sent")) {
    Settled(admission.NotSent(), answer);
  } else if (Find(action, "extend")) {
    const Struct extend = Map(action, "extend");
    if (admission
            .Extend(Milliseconds(Number(extend, "lease_ttl_ms")),
                    ToAmounts(Map(extend, "used_so_far")))
            .ok()) {
      Set(answer, "extended_ms", absl::ToDoubleMilliseconds(admission.lease_expires_in()));
    }
  } else if (Find(action, "sleep_ms")) {
    absl::SleepFor(Milliseconds(Number(action, "sleep_ms")));
  } else if (Find(action, "raise")) {
    throw ApplicationError();
  } else {
    throw std::runtime_error("an action that is not in the client: " + action.ShortDebugString());
  }
}

Struct Admit(Client& client, const Struct& command) {
  const absl::Time began = absl::Now();
  Struct answer;
  const auto ask = [&] {
    const Value* const wait = Find(command, "max_wait_ms");
    if (wait == nullptr) return client.Admit(ToQuestion(command));
    return client.AdmitWait(ToQuestion(command), wait->has_string_value()
                                                     ? absl::InfiniteDuration()
                                                     : Milliseconds(wait->number_value()));
  };
  try {
    absl::StatusOr<Admission> admission = ask();
    Set(answer, "elapsed_ms", absl::ToDoubleMilliseconds(absl::Now() - began));
    if (!admission.ok()) {
      Set(answer, "outcome", "ERROR");
      Set(answer, "code", absl::StatusCodeToString(admission.status().code()));
      Set(answer, "message", std::string(admission.status().message()));
      return answer;
    }
    Describe(*admission, answer);
    if (const Value* body = Find(command, "body"); body != nullptr && admission->may_call()) {
      for (const Value& action : body->list_value().values())
        Act(*admission, action.struct_value(), answer);
    }
  } catch (const ApplicationError&) {
    Set(answer, "ended_by", "application");
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
  const fairgate::client::Counters counters = client.counters();
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

Struct Do(std::unique_ptr<Client>& client, const Struct& command) {
  const std::string op = Text(command, "op");
  Struct answer;
  if (op == "hello") {
    Set(answer, "client", "cpp");
  } else if (op == "open") {
    client = std::make_unique<Client>(ToClientOptions(command));
  } else if (op == "admit") {
    answer = Admit(*client, command);
  } else if (op == "burst") {
    answer = Burst(*client, command);
  } else if (op == "counters") {
    answer = Counters(*client);
  } else if (op == "close") {
    client.reset();
  } else {
    throw std::runtime_error(op + " is not in the client");
  }
  return answer;
}

}  // namespace

int main() {
  std::unique_ptr<Client> client;
  std::string line;
  while (std::getline(std::cin, line)) {
    Struct answer;
    try {
      Struct command;
      if (!google::protobuf::util::JsonStringToMessage(line, &command).ok())
        throw std::runtime_error("not JSON");
      answer = Do(client, command);
    } catch (const std::exception& error) {
      Set(answer, "driver_error", error.what());
    }
    std::string text;
    (void)google::protobuf::util::MessageToJsonString(answer, &text);
    std::cout << text << std::endl;
  }
  return 0;
}
