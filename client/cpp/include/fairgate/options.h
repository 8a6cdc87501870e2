// How to reach a gate, what to ask it, and for how long. Every member has an initializer, so that
// {.target = "openai-prod", .tenant = "acme"} compiles without a warning.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_OPTIONS_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "fairgate/response.h"
#include "fairgate/values.h"

namespace fairgate::client {

// One question and its answer, for metrics.
struct AdmitEvent {
  std::string target = {};
  std::string tenant = {};
  std::string priority = {};
  std::string outcome = {};  // "granted", "failed_open", "deferred", "rejected" or "error"
  bool degraded = false;
  absl::Duration duration = {};  // how long the caller waited for the answer
  absl::Duration delay = {};     // of a defer, 0 otherwise
};

// One settlement, withdrawal or extension, for metrics.
struct ReleaseEvent {
  std::string target = {};
  std::string outcome = {};  // Name() of the CallOutcome that was said, "WITHDRAW" or "EXTEND"
  std::string result = {};   // Name() of the ReleaseResult; "LOST": not told; "ERROR": refused
  absl::Duration duration = {};
};

// The breaker opened (the gate is not asked any more) or closed.
struct BreakerEvent {
  bool open = false;
};

struct ClientOptions {
  // Where the gate listens, as gRPC names it: "host:port" or "unix:/path". Not encrypted.
  std::string address = "127.0.0.1:50051";
  // Longest time to wait for an answer, up to 24 h; AdmitOptions::max_hold comes on top.
  absl::Duration rpc_timeout = absl::Milliseconds(100);
  // When the gate cannot be reached, answer Outcome::kFailedOpen (the call may go) instead of an
  // error. An answer of the gate itself, UNAVAILABLE included, is never turned into a permission.
  bool fail_open = true;
  // So many failures in a row open the breaker: for breaker_cooldown nobody waits for the gate.
  // Then one caller tries it for all. 0: no breaker.
  int breaker_failures = 3;
  absl::Duration breaker_cooldown = absl::Seconds(1);
  // Interval of pings while an answer is awaited, which detect a silent peer; at least 10 s.
  absl::Duration keepalive = absl::Seconds(30);
  // Dimensions of yours that hold token usage, besides DefaultUsage().
  std::map<std::string, Usage> usage_dimensions = {};
  // Hooks for metrics. Several threads may call them at once, also the client's own; they must be
  // quick, and must not throw.
  std::function<void(const AdmitEvent&)> on_admit = {};
  std::function<void(const ReleaseEvent&)> on_release = {};
  std::function<void(const BreakerEvent&)> on_breaker = {};
};

// The caller's own limits, handed down from whatever it serves: a deadline, and a way to be
// cancelled. For example {.deadline = request.deadline, .stop = worker.get_stop_token()}.
struct CallContext {
  absl::Time deadline = absl::InfiniteFuture();
  std::stop_token stop = {};  // wakes who waits for an answer or for its turn
};

// One question. Fields as in fairgate.v1.AdmitRequest.
struct AdmitOptions {
  std::string target = {};    // required
  std::string tenant = {};    // required
  std::string priority = {};  // class; empty: the target's default class
  Amounts cost = {};          // estimated use; "requests" is 1 unless given
  bool upper_bound = false;   // the cost is a reservation: what is not used is given back
  // Idempotency key, ticket and lease id at once. Empty: the client makes one, see
  // Admission::request_id(). Ask again after a defer with the same one.
  std::string request_id = {};
  uint32_t attempt = 1;  // one per HTTP send: whoever sends again asks with the next number
  // When the work becomes useless. The earlier of this and of the CallContext's holds.
  absl::Time deadline = absl::InfiniteFuture();
  absl::Duration timer_floor = absl::ZeroDuration();  // shortest sleep the caller can do
  absl::Duration max_hold = absl::ZeroDuration();     // the gate may hold its answer, up to 1 h
  bool check_only = false;  // nothing is debited, no place is kept, nothing is to be settled
  // Admission::Sent() will be called right before the request leaves. What ends before is not sent.
  bool tells_sent = false;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_OPTIONS_H_
