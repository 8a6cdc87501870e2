// The answer to one question, and the lease that goes with a permission.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ADMISSION_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ADMISSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fairgate/options.h"
#include "fairgate/response.h"
#include "fairgate/values.h"

namespace fairgate::client {

enum class Outcome {
  kGranted,     // the call may go
  kDeferred,    // sleep retry_delay() and ask again with the same request_id and attempt
  kRejected,    // waiting would not help; see reject()
  kFailedOpen,  // the gate could not be asked: the call may go
};

// What keeps a call from going now.
struct Limit {
  std::string layer = {};      // "target", "class" or "tenant"
  std::string dimension = {};  // empty when no single dimension limits
};

// Why a call was rejected.
struct Rejection {
  RejectReason reason = RejectReason::kUnspecified;
  std::string message = {};                     // for people; names the dimension and the numbers
  std::string dimension = {};                   // may be empty
  std::optional<absl::Duration> earliest = {};  // when the call could go, from now
};

// What was answered.
struct Answer {
  Outcome outcome = Outcome::kFailedOpen;
  std::string target = {};
  std::string request_id = {};  // the question's, or the one that was made
  uint32_t attempt = 1;
  bool degraded = false;  // given without the store (by the gate) or without the gate
  // Of a grant:
  Amounts debited = {};                                    // empty when failed open
  absl::Duration lease_expires_in = absl::ZeroDuration();  // without a settlement
  bool repeated = false;        // given before, to the same request id and attempt
  uint64_t config_version = 0;  // of the policy that decided; 0: none
  // Of a defer:
  absl::Duration retry_delay = absl::ZeroDuration();     // how long to sleep
  absl::Duration projected_wait = absl::ZeroDuration();  // until the turn, without timer floors
  uint64_t place = 0;  // calls of the same flow that are ahead, plus 1; 0: no place is kept
  std::vector<Limit> limited_by = {};
  // Of a reject:
  Rejection reject = {};
};

class Core;    // connection, breaker and counters; shared by a client and its admissions
struct Lease;  // what is to be ended

// Leaving it (the destructor) settles with what was said last. Nothing said, for example because of
// an exception: as unknown, the estimate stays charged, for the provider may have counted the call.
// With AdmitOptions::tells_sent and before Sent(): as not sent.
//
// Movable; used by one thread at a time. May outlive its Client.
class Admission {
 public:
  Admission(Admission&& other) noexcept;
  Admission& operator=(Admission&& other) noexcept;  // closes what was here before
  ~Admission();                                      // Close()

  const Answer& answer() const { return answer_; }
  Outcome outcome() const { return answer_.outcome; }
  // True when the external call may go: granted or failed open.
  bool may_call() const { return outcome() == Outcome::kGranted || failed_open(); }
  bool failed_open() const { return outcome() == Outcome::kFailedOpen; }
  bool degraded() const { return answer_.degraded; }
  const std::string& request_id() const { return answer_.request_id; }
  uint32_t attempt() const { return answer_.attempt; }
  const Amounts& debited() const { return answer_.debited; }
  absl::Duration retry_delay() const { return answer_.retry_delay; }
  const Rejection& reject() const { return answer_.reject; }

  // Says that the call succeeded, and what it used; dimensions that are absent are unknown and stay
  // charged. Nothing is sent before the end; what was said last holds.
  void Settle(Amounts actual);
  // Says how the call ended, and what it used.
  void SettleAs(Settlement settlement);
  // Settles with a provider's response: its status, its usage in the token dimensions that the
  // question or the grant names, what it says of their limits and of that of requests, and, of a
  // 429, its wait. Returns what was understood.
  Settlement SettleResponse(const Response& response);
  // The call never left: everything is refunded.
  void NotSent();
  // With AdmitOptions::tells_sent: the request leaves now, and the provider may count it.
  void Sent();

  // Ends the lease as said. Waits for the gate, at most ClientOptions::rpc_timeout; where it is not
  // known whether there is a lease, it does not wait. Has no error, because the work is done: a
  // settlement that fails is counted (Counters::releases_lost), told to on_release, and the lease
  // ends by itself. Does nothing the second time.
  void Close() noexcept;
  // Close() for who wants to know. Without a lease: ReleaseResult::kUnspecified. Errors: refused,
  // or not told (kUnavailable, kCancelled); the lease counts as ended nevertheless.
  absl::StatusOr<ReleaseReport> Release(const CallContext& context = {});
  // What the gate made of the settlement; nothing before, without a lease, and when it was lost.
  const std::optional<ReleaseReport>& report() const { return report_; }

  // Keeps the lease alive for lease_ttl from now (zero: the target's), for long streams, and
  // returns its new life. Usage so far raises the charge where it is above what was debited.
  // Errors: kFailedPrecondition: no open lease (any more); refused or not told as above.
  absl::StatusOr<absl::Duration> Extend(absl::Duration lease_ttl = absl::ZeroDuration(),
                                        const Amounts& used_so_far = {},
                                        const CallContext& context = {});

 private:
  friend class Core;
  explicit Admission(Answer answer, std::unique_ptr<Lease> lease);

  Answer answer_;
  std::unique_ptr<Lease> lease_;  // null: there is nothing to end, or it was ended
  std::optional<ReleaseReport> report_;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_ADMISSION_H_
