#include "client/cpp/src/wait.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace fairgate::client {
namespace {

constexpr double kWaitMaxMs = 24 * 3600 * 1000.0;
// A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
constexpr double kEpochMinS = 1e9;
constexpr double kEpochMinMs = 1e12;

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

}  // namespace

absl::Duration ToWait(double seconds) {
  return absl::Milliseconds(std::clamp(std::nearbyint(seconds * 1000), 0.0, kWaitMaxMs));
}

std::optional<double> ParseNumber(absl::string_view text) {
  double number = 0;
  if (!ConsumeNumber(&text, &number) || !text.empty()) return std::nullopt;
  return number;
}

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

}  // namespace fairgate::client
