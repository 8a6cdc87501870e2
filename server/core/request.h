// Validated questions to the gate. Pure values: whoever holds one need not check it again.
#ifndef FAIRGATE_SERVER_CORE_REQUEST_H_
#define FAIRGATE_SERVER_CORE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace fairgate {

// Amounts by dimension name, in the dimension's unit; names unique, amounts finite and >= 0.
using Amounts = std::vector<std::pair<std::string, double>>;

// One call's question: may it go now? Fields as in fairgate.v1.AdmitRequest.
struct AdmitQuery {
  std::string target;
  std::string tenant;
  std::string priority;                    // class name; empty: the target's default class
  Amounts cost;                            // as sent; the decision fills in requests = 1
  bool upper_bound = false;                // reservation: debit the bound, refund what was not used
  std::string request_id;                  // never empty here
  uint32_t attempt = 1;                    // >= 1
  std::optional<absl::Duration> deadline;  // time left; may be <= 0
  absl::Duration timer_floor = absl::ZeroDuration();
  absl::Duration max_hold = absl::ZeroDuration();  // cut to the server's limit
  bool check_only = false;

  // Set by the gate itself, never by callers.
  bool held = false;    // this is the second look at a call that the server had parked
  bool forced = false;  // replay of a degraded grant: debit without asking
};

// The provider's word on one limit; fields as in fairgate.v1.RateLimitStatus, unset: not told.
struct RateLimitStatus {
  std::optional<double> remaining;
  std::optional<absl::Duration> reset;
};

enum class CallOutcome { kUnknown, kOk, kRateLimited, kServerError, kTimeout, kNotSent };

enum class ReleaseAction { kSettle, kWithdraw, kExtend };

// Fields as in fairgate.v1.ReleaseRequest.
struct ReleaseQuery {
  std::string target;
  std::string request_id;
  uint32_t attempt = 1;
  ReleaseAction action = ReleaseAction::kSettle;
  CallOutcome outcome = CallOutcome::kUnknown;  // settle
  Amounts usage;  // settle: actual; extend: used so far. Absent dimensions are unknown.
  absl::Duration retry_after = absl::ZeroDuration();                 // settle, rate limited
  std::vector<std::pair<std::string, RateLimitStatus>> rate_limits;  // settle; names unique
  std::optional<absl::Duration> lease_ttl;                           // extend; unset: the target's
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_REQUEST_H_
