// What a server answers while the store cannot be reached: each target by its on_store_loss policy.
// Pure but for its own memory; time comes in.
#ifndef FAIRGATE_SERVER_GATE_DEGRADED_MODE_H_
#define FAIRGATE_SERVER_GATE_DEGRADED_MODE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/core/decision.h"
#include "server/core/policy.h"
#include "server/core/request.h"
#include "server/gate/local_caps.h"
#include "server/store/admission_store.h"

namespace fairgate {

// Thread-safe.
class DegradedMode {
 public:
  // The policy of a target as last seen; what is decided degraded goes by it.
  void Learn(const StoredPolicy& stored);
  void Forget(const std::string& target);
  uint64_t KnownVersion(const std::string& target) const;
  // Servers alive before the outage, including this one: each enforces its part of the caps. A
  // smaller number counts only after it has been seen for a minute: a server that missed its
  // heartbeats is probably still deciding.
  void SetGates(uint32_t gates, absl::Time now);

  // open: a Grant. bounded: a Grant while this server's part of every cap lasts (one window's worth
  // at first, refilled steadily), else a Defer until it is the caller's turn (LocalCaps). closed,
  // or a target never seen: kUnavailable. kInvalidArgument: a class or dimension that the target
  // does not have. An id that was granted degraded is granted again, and takes nothing more.
  absl::StatusOr<Decision> Admit(const AdmitQuery& query, absl::Time now);

  // What was granted and is not yet debited in the store, oldest first: at most `most` grants
  // behind `*cursor` (0: from the first), leaving out `skipped` targets. Moves the cursor on. They
  // stay until Debited, so that their ids are still known.
  std::vector<AdmitQuery> Granted(uint64_t* cursor, size_t most,
                                  const std::set<std::string>& skipped) const;
  void Debited(const AdmitQuery& query);
  // Whether a grant of this attempt waits for its debit.
  bool IsPending(const std::string& target, const std::string& request_id, uint32_t attempt) const;

 private:
  struct Target {
    uint64_t version = 0;
    v1::StoreLossMode mode = v1::STORE_LOSS_MODE_BOUNDED;
    CompiledPolicy policy;
    LocalCaps caps;
  };

  void Remember(const AdmitQuery& query);  // with mutex_ held

  mutable std::mutex mutex_;  // guards all
  std::map<std::string, Target> targets_;
  uint32_t gates_ = 1;
  absl::Time gates_seen_ = absl::InfinitePast();  // when there were at least that many
  uint64_t last_number_ = 0;
  std::map<uint64_t, AdmitQuery> granted_;   // in the order of their grants
  std::map<std::string, uint64_t> numbers_;  // by target, id and attempt
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_GATE_DEGRADED_MODE_H_
