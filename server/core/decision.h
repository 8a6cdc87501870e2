// What the gate answers. A denial is a value here; a failure is an absl::Status.
#ifndef FAIRGATE_SERVER_CORE_DECISION_H_
#define FAIRGATE_SERVER_CORE_DECISION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "server/core/request.h"

namespace fairgate {

enum class Layer { kTarget, kClass, kTenant };

struct Limit {
  Layer layer = Layer::kTarget;
  std::string dimension;  // empty: turn order on dominant share
};

struct Grant {
  Amounts debited;
  absl::Duration lease_expires_in;
  bool repeated = false;
};

struct Defer {
  absl::Duration retry_delay;     // whole milliseconds, >= 1 ms
  absl::Duration projected_wait;  // without timer corrections and max_defer
  std::vector<Limit> limited_by;
  uint64_t place = 0;  // 0: no place is kept
};

enum class RejectReason {
  kCostExceedsCap,
  kTargetDisabled,
  kDeadlineUnreachable,
  kAlreadySettled,
  kSuperseded,
  kTenantNotListed,
};

struct Reject {
  RejectReason reason = RejectReason::kCostExceedsCap;
  std::string message;
  std::string dimension;
  std::optional<absl::Duration> earliest;
};

using Outcome = std::variant<Grant, Defer, Reject>;

// Facts about one decision that only metrics need.
struct DecisionFacts {
  std::string priority;            // class that decided, default filled in
  uint32_t admits = 0;             // Admit calls of this request_id so far (grants)
  absl::Duration waited;           // since the first ask (grants)
  absl::Duration first_projected;  // wait projected at the first ask (grants)
  uint32_t leases_expired = 0;     // leases reaped in passing
};

struct Decision {
  Outcome outcome;
  std::string request_id;
  uint32_t attempt = 1;
  bool degraded = false;
  uint64_t config_version = 0;
  DecisionFacts facts;
  // Set when the server may park the call for retry_delay and ask again with held = true.
  bool may_hold = false;
};

enum class ReleaseResult {
  kSettled,
  kWithdrawn,
  kExtended,
  kAlreadySettled,
  kExpired,
  kUnknown,
  kQueued,
};

struct ReleaseReport {
  ReleaseResult result = ReleaseResult::kUnknown;
  Amounts refunded;  // signed; zero entries left out
  bool degraded = false;
  absl::Duration lease_expires_in;  // after kExtended
  uint64_t config_version = 0;
  // Metrics: the flow's class, what had been asked for and what is charged in the end.
  std::string priority;
  std::string tenant;
  Amounts estimated;
  Amounts charged;
  bool usage_missing = false;  // settled, but some dimension's usage was not told
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_DECISION_H_
