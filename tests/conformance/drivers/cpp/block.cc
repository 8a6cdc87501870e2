#include "tests/conformance/drivers/cpp/block.h"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>

namespace fairgate::conformance {
namespace {

using client::Admission;
using client::CallOutcome;
using client::Outcome;
using client::Response;
using client::Settlement;

// The application's own.
struct ApplicationError {};

void DescribeDefer(const client::Answer& defer, Struct& answer) {
  Set(answer, "outcome", "DEFERRED");
  Set(answer, "delay_ms", defer.retry_delay);
  Set(answer, "projected_wait_ms", defer.projected_wait);
  Set(answer, "place", static_cast<double>(defer.place));
  ListValue* limits = (*answer.mutable_fields())["limited_by"].mutable_list_value();
  for (const client::Limit& limit : defer.limited_by) {
    Struct* one = limits->add_values()->mutable_struct_value();
    Set(*one, "layer", limit.layer);
    Set(*one, "dimension", limit.dimension);
  }
}

CallOutcome ToCallOutcome(const std::string& name) {
  for (const CallOutcome outcome :
       {CallOutcome::kOk, CallOutcome::kRateLimited, CallOutcome::kServerError,
        CallOutcome::kTimeout, CallOutcome::kNotSent}) {
    if (Name(outcome) == name) return outcome;
  }
  if (name == "UNKNOWN") return CallOutcome::kUnknown;
  throw std::runtime_error("unknown outcome " + name);
}

void Act(Admission& admission, const Struct& action, std::stop_source& caller, Struct& answer) {
  if (Has(action, "settle")) {
    const Struct said = Map(action, "settle");
    Settlement settlement;
    settlement.outcome = ToCallOutcome(Text(said, "outcome", "OK"));
    settlement.actual = ToAmounts(Map(said, "actual"));
    if (Has(said, "retry_after_ms")) {
      settlement.retry_after = Milliseconds(Number(said, "retry_after_ms"));
    }
    const Struct limits = Map(said, "rate_limits");
    for (const auto& [name, value] : limits.fields()) {
      const Struct& status = value.struct_value();
      client::RateLimitStatus& told = settlement.rate_limits[name];
      if (Has(status, "remaining")) told.remaining = Number(status, "remaining");
      if (Has(status, "reset_ms")) told.reset = Milliseconds(Number(status, "reset_ms"));
    }
    admission.SettleAs(settlement);
  } else if (Has(action, "response")) {
    admission.SettleResponse(ToResponse(Map(action, "response")));
  } else if (Has(action, "sent")) {
    admission.Sent();
  } else if (Has(action, "not_sent")) {
    admission.NotSent();
  } else if (Has(action, "extend")) {
    const Struct extend = Map(action, "extend");
    const auto life =
        admission.Extend(Milliseconds(Number(extend, "lease_ttl_ms")),
                         ToAmounts(Map(extend, "used_so_far")), {.stop = caller.get_token()});
    if (!life.ok()) throw std::runtime_error(life.status().ToString());
    Set(answer, "extended_ms", *life);
  } else if (Has(action, "sleep_ms")) {
    Sleep(Milliseconds(Number(action, "sleep_ms")), caller.get_token());
  } else if (Has(action, "raise")) {
    throw ApplicationError();
  } else if (Has(action, "cancel")) {
    caller.request_stop();
    throw CancelledError();
  } else {
    throw std::runtime_error("an action that is not in the client: " + action.ShortDebugString());
  }
}

}  // namespace

Response ToResponse(const Struct& from) {
  Response response;
  response.status = static_cast<int>(Number(from, "status"));
  const Struct headers = Map(from, "headers");
  for (const auto& [name, value] : headers.fields()) {
    response.headers.emplace_back(name, value.string_value());
  }
  if (Has(from, "body")) response.body = ToJson(*Find(from, "body"));
  return response;
}

void Describe(const client::Answer& told, Struct& answer) {
  Set(answer, "request_id", told.request_id);
  Set(answer, "attempt", static_cast<double>(told.attempt));
  Set(answer, "degraded", told.degraded);
  switch (told.outcome) {
    case Outcome::kGranted:
    case Outcome::kFailedOpen:
      Set(answer, "outcome", told.outcome == Outcome::kGranted ? "GRANTED" : "FAILED_OPEN");
      Set(answer, "debited", told.debited);
      Set(answer, "lease_expires_in_ms", told.lease_expires_in);
      Set(answer, "repeated", told.repeated);
      break;
    case Outcome::kDeferred:
      DescribeDefer(told, answer);
      break;
    case Outcome::kRejected:
      Set(answer, "outcome", "REJECTED");
      Set(answer, "reason", Name(told.reject.reason));
      Set(answer, "message", told.reject.message);
      Set(answer, "dimension", told.reject.dimension);
      if (told.reject.earliest) Set(answer, "earliest_ms", *told.reject.earliest);
      break;
  }
}

void DescribeError(const absl::Status& status, Struct& answer) {
  if (absl::IsCancelled(status)) {
    Set(answer, "outcome", "CANCELLED");
    return;
  }
  Set(answer, "outcome", "ERROR");
  Set(answer, "code", absl::StatusCodeToString(status.code()));
  Set(answer, "message", status.message());
  ListValue* fields = (*answer.mutable_fields())["fields"].mutable_list_value();
  for (const client::FieldViolation& bad : client::FieldViolations(status)) {
    Struct* one = fields->add_values()->mutable_struct_value();
    Set(*one, "field", bad.field);
    Set(*one, "description", bad.description);
  }
}

void Sleep(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, absl::ToChronoMilliseconds(duration), [] { return false; });
  if (stop.stop_requested()) throw CancelledError();
}

void InBlock(Admission& admission, const Struct& command, std::stop_source& caller,
             Struct& answer) {
  const Value* body = Find(command, "body");
  if (body == nullptr) return;
  try {
    for (const Value& action : body->list_value().values()) {
      Act(admission, action.struct_value(), caller, answer);
    }
  } catch (const ApplicationError&) {
    Set(answer, "ended_by", "application");
  } catch (const CancelledError&) {
    Set(answer, "ended_by", "cancelled");
  }
}

}  // namespace fairgate::conformance
