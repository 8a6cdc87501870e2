#include "fairgate/response.h"

#include <cmath>
#include <initializer_list>
#include <optional>

#include "client/cpp/src/json.h"
#include "client/cpp/src/rate_limits.h"
#include "client/cpp/src/retry_after.h"

namespace fairgate::client {
namespace {

CallOutcome OutcomeOf(int status, bool is_usage_known) {
  if (status == 429) return CallOutcome::kRateLimited;
  if (status == 408 || status == 504) return CallOutcome::kTimeout;
  if (status >= 500) return CallOutcome::kServerError;
  if ((status >= 200 && status < 300) || (status == 0 && is_usage_known)) return CallOutcome::kOk;
  return CallOutcome::kUnknown;
}

// The first of these that is told.
std::optional<double> AmountOf(const JsonObject& usage, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::optional<double> amount = FindNumber(usage, name);
    if (amount && *amount >= 0 && std::isfinite(*amount)) return amount;
  }
  return std::nullopt;
}

std::map<Usage, double> UsageOf(const JsonObject& body) {
  const JsonObject* usage = FindObject(body, "usage");
  if (usage == nullptr) {  // the first event of Anthropic's streams
    const JsonObject* message = FindObject(body, "message");
    if (message != nullptr) usage = FindObject(*message, "usage");
  }
  std::map<Usage, double> found;
  if (usage == nullptr) return found;
  std::optional<double> total = AmountOf(*usage, {"total_tokens"});
  std::optional<double> input = AmountOf(*usage, {"prompt_tokens", "input_tokens"});
  const std::optional<double> output = AmountOf(*usage, {"completion_tokens", "output_tokens"});
  if (!total && input) {  // Anthropic has no total, and counts what went through its cache apart
    *input += AmountOf(*usage, {"cache_creation_input_tokens"}).value_or(0);
    if (output) total = *input + *output;
  }
  if (total) found[Usage::kTotalTokens] = *total;
  if (input) found[Usage::kInputTokens] = *input;
  if (output) found[Usage::kOutputTokens] = *output;
  return found;
}

}  // namespace

const std::map<std::string, Usage>& DefaultUsage() {
  static const auto* const kUsage = new std::map<std::string, Usage>{
      {"tokens", Usage::kTotalTokens},         {"total_tokens", Usage::kTotalTokens},
      {"input_tokens", Usage::kInputTokens},   {"prompt_tokens", Usage::kInputTokens},
      {"output_tokens", Usage::kOutputTokens}, {"completion_tokens", Usage::kOutputTokens}};
  return *kUsage;
}

Settlement SettlementOf(const Response& response, const std::map<std::string, Usage>& dimensions,
                        absl::Time now) {
  const JsonObject body = ParseJsonObject(response.body).value_or(JsonObject());
  const std::map<Usage, double> usage = UsageOf(body);
  const Headers headers = LowerCased(response);
  Settlement settlement;
  settlement.outcome = OutcomeOf(response.status, !usage.empty());
  for (const auto& [name, kind] : dimensions) {
    const auto told = usage.find(kind);
    if (told != usage.end()) settlement.actual[name] = told->second;
  }
  if (settlement.outcome == CallOutcome::kRateLimited) {
    settlement.retry_after = RetryAfter(headers, body, now);
  }
  settlement.rate_limits = RateLimits(headers, dimensions, now);
  return settlement;
}

}  // namespace fairgate::client
