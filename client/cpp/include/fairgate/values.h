// What the gate and its callers tell each other: amounts, outcomes, reasons and reports.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_VALUES_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace fairgate::client {

// Amounts, finite and not negative, by dimension name, in the dimension's own unit (one request,
// one token).
using Amounts = std::map<std::string, double>;

// How the external call ended. The numbers are those of fairgate.v1.CallOutcome.
enum class CallOutcome {
  kUnknown = 0,      // not known: the estimate stays charged
  kOk = 1,           // it succeeded
  kRateLimited = 2,  // the provider refused (429): the charge stays, the flow's turn is given back
  kServerError = 3,  // the provider failed
  kTimeout = 4,      // nobody answered in time
  kNotSent = 5,      // the request never left: everything is refunded
};

// Why waiting would not help. The numbers are those of fairgate.v1.RejectReason; a reason of a
// newer gate is kUnspecified.
enum class RejectReason {
  kUnspecified = 0,
  kCostExceedsCap = 1,
  kTargetDisabled = 2,
  kDeadlineUnreachable = 3,
  kAlreadySettled = 4,
  kSuperseded = 5,
  kTenantNotListed = 6,
};

// What a release did. The numbers are those of fairgate.v1.ReleaseResult.
enum class ReleaseResult {
  kUnspecified = 0,     // there was nothing to end, or a result of a newer gate
  kSettled = 1,         // the lease is settled
  kWithdrawn = 2,       // the place in line is given up
  kExtended = 3,        // the lease lives on
  kAlreadySettled = 4,  // settled before, or superseded; nothing changed
  kExpired = 5,         // the lease had ended by itself; nothing changed
  kUnknown = 6,         // no such request id and attempt; nothing changed
  kQueued = 7,          // the gate keeps it until its store is back
};

// The names in the contract, without their prefixes: "RATE_LIMITED", "COST_EXCEEDS_CAP",
// "SETTLED"; of 0 always "UNSPECIFIED".
absl::string_view Name(CallOutcome outcome);
absl::string_view Name(RejectReason reason);
absl::string_view Name(ReleaseResult result);

// A provider's word on one of its limits, as in the headers x-ratelimit-{remaining,reset}-*.
struct RateLimitStatus {
  // Left after this call, in the dimension's unit, 0 to 1e12; nothing: not told.
  std::optional<double> remaining = {};
  // Until the running window ends, 0 to 24 h; nothing: not told.
  std::optional<absl::Duration> reset = {};
};

// What a call really used, and how it ended.
struct Settlement {
  CallOutcome outcome = CallOutcome::kUnknown;
  Amounts actual = {};  // a dimension that is absent is unknown, and its estimate stays charged
  // How long the provider asks to wait, 0 to 24 h, with kRateLimited: the target pauses for it.
  std::optional<absl::Duration> retry_after = {};
  // By dimension: what the response said of the provider's own count.
  std::map<std::string, RateLimitStatus> rate_limits = {};
};

// What the gate made of a settlement, an extension or a withdrawal.
struct ReleaseReport {
  ReleaseResult result = ReleaseResult::kUnspecified;
  Amounts refunded = {};                                   // given back; negative: charged on top
  bool degraded = false;                                   // the gate could not ask its store
  absl::Duration lease_expires_in = absl::ZeroDuration();  // new life, with kExtended
};

// Answers since the client was made.
struct Counters {
  uint64_t granted = 0;
  uint64_t deferred = 0;
  uint64_t rejected = 0;
  uint64_t failed_open = 0;    // the gate could not be asked, and the call went nevertheless
  uint64_t errors = 0;         // Admit answered a status
  uint64_t breaker_skips = 0;  // questions and releases that did not go out: breaker open
  uint64_t releases_lost = 0;  // releases that did not reach the gate or were refused
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_VALUES_H_
