#include "fairgate/values.h"

#include <array>

namespace fairgate::client {
namespace {

constexpr std::array<absl::string_view, 6> kCallOutcomes = {
    "UNSPECIFIED", "OK", "RATE_LIMITED", "SERVER_ERROR", "TIMEOUT", "NOT_SENT"};
constexpr std::array<absl::string_view, 7> kRejectReasons = {
    "UNSPECIFIED",     "COST_EXCEEDS_CAP", "TARGET_DISABLED",  "DEADLINE_UNREACHABLE",
    "ALREADY_SETTLED", "SUPERSEDED",       "TENANT_NOT_LISTED"};
constexpr std::array<absl::string_view, 8> kReleaseResults = {
    "UNSPECIFIED",     "SETTLED", "WITHDRAWN", "EXTENDED",
    "ALREADY_SETTLED", "EXPIRED", "UNKNOWN",   "QUEUED"};

template <typename Names, typename Enum>
absl::string_view NameIn(const Names& names, Enum value) {
  const auto number = static_cast<size_t>(value);
  return number < names.size() ? names[number] : names[0];
}

}  // namespace

absl::string_view Name(CallOutcome outcome) { return NameIn(kCallOutcomes, outcome); }
absl::string_view Name(RejectReason reason) { return NameIn(kRejectReasons, reason); }
absl::string_view Name(ReleaseResult result) { return NameIn(kReleaseResults, result); }

}  // namespace fairgate::client
