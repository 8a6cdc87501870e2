#include "client/cpp/src/rate_limits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cpp/src/wait.h"

namespace fairgate::client {
namespace {

constexpr double kRemainingMax = 1e12;  // the contract's

using Limits = std::map<std::string, LimitTexts>;

std::string Normal(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"-", "_"}});
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

// Keeps what is there.
void Put(std::string& text, absl::string_view value) {
  if (text.empty()) text = std::string(value);
}

// Of the IETF's header: "requests";r=50;t=12, "tokens";r=5000;t=30.
void ReadListed(absl::string_view header, Limits& limits) {
  for (const absl::string_view item : absl::StrSplit(header, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ';');
    absl::string_view name = absl::StripAsciiWhitespace(parts.front());
    absl::ConsumePrefix(&name, "\"");
    absl::ConsumeSuffix(&name, "\"");
    LimitTexts& limit = limits[Normal(name)];
    for (size_t at = 1; at < parts.size(); ++at) {
      absl::string_view parameter = absl::StripAsciiWhitespace(parts[at]);
      if (absl::ConsumePrefix(&parameter, "r=")) Put(limit.remaining, parameter);
      if (absl::ConsumePrefix(&parameter, "t=")) Put(limit.reset, parameter);
    }
  }
}

std::optional<RateLimitStatus> ToStatus(const LimitTexts& limit, absl::Time now) {
  RateLimitStatus status{.remaining = ParseNumber(limit.remaining),
                         .reset = ParseWait(limit.reset, now)};
  if (status.remaining > kRemainingMax) status.remaining.reset();
  if (!status.remaining && !status.reset) return std::nullopt;
  return status;
}

}  // namespace

Headers LowerCased(const Response& response) {
  Headers headers;
  for (const auto& [name, value] : response.headers) {
    headers.emplace(absl::AsciiStrToLower(name), absl::StripAsciiWhitespace(value));
  }
  return headers;
}

Limits LimitsOf(const Headers& headers) {
  Limits limits;
  for (const auto& [header, value] : headers) {
    if (header == "ratelimit") ReadListed(value, limits);
    const auto name = ParseLimitName(header);
    if (!name) continue;
    LimitTexts& limit = limits[Normal(name->first)];
    if (name->second == "limit") Put(limit.limit, value);
    if (name->second == "remaining") Put(limit.remaining, value);
    if (name->second == "reset") Put(limit.reset, value);
  }
  std::erase_if(limits, [](const auto& limit) {
    return absl::StartsWith(limit.second.limit, "-") ||
           absl::StartsWith(limit.second.remaining, "-");
  });
  return limits;
}

std::map<std::string, RateLimitStatus> RateLimits(const Headers& headers,
                                                  const std::map<std::string, Usage>& dimensions,
                                                  absl::Time now) {
  const Limits limits = LimitsOf(headers);
  std::map<std::string, RateLimitStatus> told;
  // The first of these limits that tells anything.
  const auto tell = [&](const std::string& dimension, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto limit = limits.find(name);
      if (limit == limits.end()) continue;
      if (const auto status = ToStatus(limit->second, now)) {
        told[dimension] = *status;
        return;
      }
    }
  };
  for (const auto& [dimension, usage] : dimensions) {
    std::vector<std::string> names = {Normal(dimension)};
    for (const auto& [name, limit] : limits) {
      const auto kind = DefaultUsage().find(name);
      if (kind != DefaultUsage().end() && kind->second == usage) names.push_back(name);
    }
    tell(dimension, names);
  }
  tell("requests", {"requests", ""});
  return told;
}

}  // namespace fairgate::client
