// The C++ client of a Fairgate gate: ask before an external call, settle after it.
//
//   fairgate::client::Client gate({.address = "127.0.0.1:50051"});
//   auto admission = gate.AdmitWait({.target = "openai-prod", .tenant = "acme", .cost = {{"tokens",
//   900}}}); if (!admission.ok()) return admission.status(); if (!admission->may_call()) return
//   Refused(admission->reject()); Reply reply = CallTheProvider(); admission->Settle({{"tokens",
//   reply.tokens}}).IgnoreError();
//
// No gRPC or protobuf type is needed to use it.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fairgate::client {

// Amounts by dimension name, in the dimension's own unit (one request, one token).
using Amounts = std::map<std::string, double>;

struct ClientOptions {
  // Where the gate listens, as gRPC names it: "host:port" or "unix:/path". Not encrypted.
  std::string address = "127.0.0.1:50051";
  // Longest time to wait for an answer; AdmitOptions::max_hold comes on top.
  absl::Duration rpc_timeout = absl::Milliseconds(100);
  // When the gate cannot be reached, answer Outcome::kDegraded (the call may go) instead of an
  // error. An answer of the gate itself, UNAVAILABLE included, is never turned into a permission.
  bool fail_open = true;
  // So many failures in a row open the breaker: for breaker_cooldown nobody waits for the gate.
  // Then one call tries it again. 0: no breaker.
  int breaker_failures = 3;
  absl::Duration breaker_cooldown = absl::Seconds(1);
  // Interval of pings while an answer is awaited, which detect a silent peer.
  absl::Duration keepalive = absl::Seconds(30);
};

// One question. Fields as in fairgate.v1.AdmitRequest.
struct AdmitOptions {
  std::string target;        // required
  std::string tenant;        // required
  std::string priority;      // class; empty: the target's default class
  Amounts cost;              // "requests" is 1 unless given
  bool upper_bound = false;  // the cost is a reservation that the call cannot pass
  // Idempotency key, ticket and lease id at once. Empty: the client makes one, see
  // Admission::request_id(). Ask again after a defer with the same one.
  std::string request_id;
  uint32_t attempt = 1;                               // one per HTTP send
  std::optional<absl::Duration> deadline;             // time left until the work is useless
  absl::Duration timer_floor = absl::ZeroDuration();  // shortest sleep the caller can do
  absl::Duration max_hold = absl::ZeroDuration();     // the gate may hold the answer that long
  bool check_only = false;  // nothing is debited, no place is kept, nothing is to be settled
};

enum class Outcome {
  kGranted,   // the call may go; settle it afterwards
  kDeferred,  // sleep retry_delay() and ask again with the same request_id and attempt
  kRejected,  // waiting would not help; see reject()
  kDegraded,  // the gate could not be asked (fail open): the call may go, there is no lease
};

// Why a call was rejected: fairgate.v1.Reject.
struct Rejection {
  std::string reason;     // name of the RejectReason, for example "REJECT_REASON_COST_EXCEEDS_CAP"
  std::string message;    // for people
  std::string dimension;  // may be empty
  std::optional<absl::Duration> earliest;  // when the call could go, from now
};

// How the external call ended.
enum class CallOutcome { kUnknown, kOk, kRateLimited, kServerError, kTimeout, kNotSent };

// What a settlement did.
struct Settlement {
  std::string result;     // name of the ReleaseResult; "" when there was nothing to settle
  Amounts refunded;       // given back; negative: charged on top
  bool degraded = false;  // the gate keeps it until its store is back, or nobody was told
};

class Core;  // connection, breaker and counters; shared by a client and its admissions

// The answer to one question, and the lease if it was granted. Movable; used by one thread at a
// time. May outlive its Client.
class Admission {
 public:
  Admission(Admission&& other) noexcept;
  Admission& operator=(Admission&& other) noexcept;
  // Settles an open lease as "unknown": the estimate stays charged. Waits for the gate, at most
  // ClientOptions::rpc_timeout; errors are swallowed, because the lease also ends by itself.
  ~Admission();

  Outcome outcome() const { return outcome_; }
  // True when the external call may go: granted or degraded.
  bool may_call() const { return outcome_ == Outcome::kGranted || outcome_ == Outcome::kDegraded; }
  // The answer was given without the store (by the gate) or without the gate (fail open).
  bool degraded() const { return degraded_; }
  const std::string& request_id() const { return request_id_; }
  uint32_t attempt() const { return attempt_; }
  // Granted: what was debited, and how long the lease lives without a settlement.
  const Amounts& debited() const { return debited_; }
  absl::Duration lease_expires_in() const { return lease_expires_in_; }
  // Deferred: how long to sleep, when the turn is expected, and the place in line (0: none kept).
  absl::Duration retry_delay() const { return retry_delay_; }
  absl::Duration projected_wait() const { return projected_wait_; }
  uint64_t place() const { return place_; }
  const Rejection& reject() const { return reject_; }

  // Ends the lease with what was really used; dimensions that are absent are unknown and stay
  // charged. retry_after goes with kRateLimited. Does nothing the second time or without a lease.
  // On an error the lease counts as ended here, and at the gate it ends when it expires.
  absl::StatusOr<Settlement> Settle(const Amounts& actual, CallOutcome outcome = CallOutcome::kOk,
                                    absl::Duration retry_after = absl::ZeroDuration());
  // The call never left: everything is refunded.
  absl::StatusOr<Settlement> NotSent() { return Settle({}, CallOutcome::kNotSent); }
  // Keeps the lease alive for lease_ttl from now (zero: the target's), for long streams.
  absl::Status Extend(absl::Duration lease_ttl = absl::ZeroDuration(),
                      const Amounts& used_so_far = {});
  // Deferred: gives up the place in line.
  absl::Status Withdraw();

 private:
  friend class Client;
  friend class Core;
  Admission() = default;
  void Abandon() noexcept;

  std::shared_ptr<Core> core_;
  std::string target_;
  std::string request_id_;
  uint32_t attempt_ = 1;
  Outcome outcome_ = Outcome::kDegraded;
  bool degraded_ = false;
  bool lease_open_ = false;
  bool maybe_leased_ = false;  // degraded by a time-out: the gate may hold a lease nevertheless
  Amounts debited_;
  absl::Duration lease_expires_in_ = absl::ZeroDuration();
  absl::Duration retry_delay_ = absl::ZeroDuration();
  absl::Duration projected_wait_ = absl::ZeroDuration();
  uint64_t place_ = 0;
  Rejection reject_;
};

// Answers since the client was made.
struct Counters {
  uint64_t granted = 0;
  uint64_t deferred = 0;
  uint64_t rejected = 0;
  uint64_t failed_open = 0;    // Outcome::kDegraded
  uint64_t errors = 0;         // Admit answered a status
  uint64_t breaker_skips = 0;  // Admits and releases that did not go out: breaker open
  uint64_t releases_lost = 0;  // releases that did not reach the gate
};

// A connection to a gate. Thread-safe; make one and keep it.
class Client {
 public:
  explicit Client(ClientOptions options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Asks once. Errors: kInvalidArgument (a bad field), kNotFound (unknown target), kInternal,
  // kUnavailable (the gate says that it must stay closed; or, with fail_open off, cannot be
  // reached), kDeadlineExceeded (fail_open off).
  absl::StatusOr<Admission> Admit(const AdmitOptions& options);

  // Asks until the call may go or is rejected, and sleeps the delays in the calling thread: for
  // programs without a workflow engine. After max_wait the place in line is given up and the last
  // defer is returned. AdmitOptions::deadline counts from the start of this call.
  absl::StatusOr<Admission> AdmitWait(const AdmitOptions& options,
                                      absl::Duration max_wait = absl::InfiniteDuration());

  Counters counters() const;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_
