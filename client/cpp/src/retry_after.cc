#include "client/cpp/src/retry_after.h"

#include <string>

#include "absl/strings/string_view.h"
#include "client/cpp/src/wait.h"

namespace fairgate::client {
namespace {

absl::string_view Get(const Headers& from, const std::string& name) {
  const auto found = from.find(name);
  return found == from.end() ? absl::string_view() : absl::string_view(found->second);
}

std::string GoogleDelay(const JsonObject& body) {
  const JsonObject* error = FindObject(body, "error");
  const Json* details = error == nullptr ? nullptr : Find(*error, "details");
  if (details == nullptr) return "";
  for (const Json& detail : details->list_value().values()) {
    const Json* delay = Find(detail.struct_value(), "retryDelay");
    if (delay != nullptr && delay->has_string_value()) return delay->string_value();
  }
  return "";
}

}  // namespace

std::optional<absl::Duration> RetryAfter(const Headers& headers, const JsonObject& body,
                                         absl::Time now) {
  if (const auto milliseconds = ParseNumber(Get(headers, "retry-after-ms"))) {
    return ToWait(*milliseconds / 1000);
  }
  if (const auto wait = ParseWait(Get(headers, "retry-after"), now)) return wait;
  if (const auto wait = ParseWait(GoogleDelay(body), now)) return wait;
  std::optional<absl::Duration> longest;
  for (const auto& [name, limit] : LimitsOf(headers)) {
    if (ParseNumber(limit.remaining).value_or(0) > 0) continue;
    const auto wait = ParseWait(limit.reset, now);
    if (wait && (!longest || *wait > *longest)) longest = wait;
  }
  return longest;
}

}  // namespace fairgate::client
