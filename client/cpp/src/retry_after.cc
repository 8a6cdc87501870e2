#include "client/cpp/src/retry_after.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace fairgate::client {
namespace {

constexpr double kWaitMaxMs = 24 * 3600 * 1000.0;
// A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
constexpr double kEpochMinS = 1e9;
constexpr double kEpochMinMs = 1e12;

using Headers = std::map<std::string, std::string>;  // names in lower case

absl::Duration ToWait(double seconds) {
  return absl::Milliseconds(std::clamp(std::nearbyint(seconds * 1000), 0.0, kWaitMaxMs));
}

double SecondsOf(absl::Time instant) {
  return static_cast<double>(absl::ToUnixMillis(instant)) / 1000;
}

// Takes "12" or "12.5" off the front.
bool ConsumeNumber(absl::string_view* text, double* number) {
  const auto digits_from = [text](size_t at) {
    while (at < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[at]))) ++at;
    return at;
  };
  size_t end = digits_from(0);
  if (end == 0) return false;
  if (end < text->size() && (*text)[end] == '.') {
    const size_t fraction_end = digits_from(end + 1);
    if (fraction_end > end + 1) end = fraction_end;
  }
  if (!absl::SimpleAtod(text->substr(0, end), number)) return false;
  text->remove_prefix(end);
  return true;
}

std::optional<double> ParseNumber(absl::string_view text) {
  double number = 0;
  if (!ConsumeNumber(&text, &number) || !text.empty()) return std::nullopt;
  return number;
}

// Seconds of "6m0s", "20ms", "1h2m".
std::optional<double> ParseSpans(absl::string_view text) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  if (text.empty()) return std::nullopt;
  double seconds = 0;
  while (!text.empty()) {
    double number = 0;
    if (!ConsumeNumber(&text, &number)) return std::nullopt;
    const auto* const unit = std::find_if(
        std::begin(kUnits), std::end(kUnits),
        [&text](const auto& candidate) { return absl::ConsumePrefix(&text, candidate.first); });
    if (unit == std::end(kUnits)) return std::nullopt;
    seconds += number * unit->second;
  }
  return seconds;
}

std::optional<absl::Time> ParseDate(absl::string_view text) {
  // RFC 3339, with or without its zone; the three forms of HTTP; that of mail.
  for (const char* format :
       {absl::RFC3339_full, "%Y-%m-%dT%H:%M:%E*S", "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %z"}) {
    absl::Time instant;
    std::string error;
    // It also reads words like "infinite-future".
    if (absl::ParseTime(format, text, &instant, &error) && instant < absl::InfiniteFuture() &&
        instant > absl::InfinitePast()) {
      return instant;
    }
  }
  return std::nullopt;
}

// Spans, seconds, seconds or milliseconds since 1970, dates. An instant that is over: 0.
std::optional<absl::Duration> ParseWait(absl::string_view text, absl::Time now) {
  text = absl::StripAsciiWhitespace(text);
  if (const auto seconds = ParseSpans(text)) return ToWait(*seconds);
  if (auto number = ParseNumber(text)) {
    if (*number >= kEpochMinMs) *number /= 1000;
    if (*number >= kEpochMinS) *number -= SecondsOf(now);
    return ToWait(*number);
  }
  if (const auto instant = ParseDate(text)) return ToWait(SecondsOf(*instant) - SecondsOf(now));
  return std::nullopt;
}

Headers LowerCased(const Response& response) {
  Headers headers;
  for (const auto& [name, value] : response.headers) {
    headers.emplace(absl::AsciiStrToLower(name), absl::StripAsciiWhitespace(value));
  }
  return headers;
}

absl::string_view Get(const std::map<std::string, std::string>& from, const std::string& name) {
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

// Of a limit's header: which limit ("tokens"), and what of it ("limit", "remaining", "reset").
// x-ratelimit-reset-tokens, anthropic-ratelimit-input-tokens-reset, x-ratelimit-reset.
std::optional<std::pair<std::string, std::string>> ParseLimitName(absl::string_view header) {
  if (!absl::ConsumePrefix(&header, "x-")) absl::ConsumePrefix(&header, "anthropic-");
  if (!absl::ConsumePrefix(&header, "ratelimit-")) return std::nullopt;
  const auto is_of_a_name = [](char letter) {
    return letter == '-' || absl::ascii_islower(static_cast<unsigned char>(letter));
  };
  if (!std::all_of(header.begin(), header.end(), is_of_a_name)) return std::nullopt;
  const std::vector<absl::string_view> words = absl::StrSplit(header, '-');
  const auto kind = std::find_if(words.begin(), words.end(), [](absl::string_view word) {
    return word == "limit" || word == "remaining" || word == "reset";
  });
  if (kind == words.end()) return std::nullopt;
  const std::string of = kind != words.begin() ? absl::StrJoin(words.begin(), kind, "-")
                                               : absl::StrJoin(kind + 1, words.end(), "-");
  return std::pair(of, std::string(*kind));
}

// Resets of the limits that are used up. Negative limits are placeholders, not limits.
std::vector<std::string> Resets(const Headers& headers) {
  std::map<std::string, std::map<std::string, std::string>> limits;
  for (const auto& [name, value] : headers) {
    if (const auto limit = ParseLimitName(name)) limits[limit->first][limit->second] = value;
  }
  std::vector<std::string> found;
  for (const auto& [name, limit] : limits) {
    if (absl::StartsWith(Get(limit, "limit"), "-")) continue;
    if (absl::StartsWith(Get(limit, "remaining"), "-")) continue;
    const auto remaining = ParseNumber(Get(limit, "remaining"));
    if (limit.contains("reset") && (!remaining || *remaining == 0)) {
      found.push_back(limit.at("reset"));
    }
  }
  return found;
}

}  // namespace

std::optional<absl::Duration> RetryAfter(const Response& response, const JsonObject& body,
                                         absl::Time now) {
  const Headers headers = LowerCased(response);
  if (const auto milliseconds = ParseNumber(Get(headers, "retry-after-ms"))) {
    return ToWait(*milliseconds / 1000);
  }
  if (const auto wait = ParseWait(Get(headers, "retry-after"), now)) return wait;
  if (const auto wait = ParseWait(GoogleDelay(body), now)) return wait;
  std::optional<absl::Duration> longest;
  for (const std::string& reset : Resets(headers)) {
    const auto wait = ParseWait(reset, now);
    if (wait && (!longest || *wait > *longest)) longest = wait;
  }
  return longest;
}

}  // namespace fairgate::client
