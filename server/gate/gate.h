// The one way through the server for one request: store first, degraded mode while it is away.
#ifndef FAIRGATE_SERVER_GATE_GATE_H_
#define FAIRGATE_SERVER_GATE_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fairgate/v1/admission.pb.h"
#include "server/core/decision.h"
#include "server/core/request.h"
#include "server/gate/degraded_mode.h"
#include "server/store/admission_store.h"

namespace fairgate {

struct GateOptions {
  std::string gate_id;                          // tells servers of one store apart
  absl::Duration hold_max = absl::Seconds(10);  // most that a call is parked
  size_t releases_kept_max = 100000;            // while the store is away; the oldest go first
  std::function<absl::Time()> now = [] { return absl::Now(); };
};

// Thread-safe. Answers come on the store's thread or on the runner's.
class Gate {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  // Runs a function once after a delay, never at once; drops it after shutdown.
  using RunAfter = std::function<void(absl::Duration, std::function<void()>)>;

  // `store` must outlive the gate and have answered everything before the gate goes.
  Gate(AdmissionStore* store, RunAfter run_after, GateOptions options);

  void Admit(AdmitQuery query, Callback<Decision> done);
  void Release(ReleaseQuery query, Callback<ReleaseReport> done);
  void Configure(const v1::ConfigureRequest& request, Callback<v1::ConfigureResponse> done);

  // Answers parked calls with the Defer that parked them, and parks no more: for the drain.
  void StopHolding();

  // A policy from this server's file: known for degraded mode until the store's is seen.
  void LearnPolicy(const v1::TargetPolicy& policy) { degraded_.Learn({policy, 0}); }
  // One heartbeat, and the replay of what was done while the store was away; every 2 s.
  void Beat();

  size_t kept_releases() const;
  // Releases that were lost because too many had to be kept: their estimates stay charged.
  uint64_t dropped_releases() const { return dropped_.load(); }

 private:
  struct Replay;
  // A call that is asked for again when it is due.
  struct Parked {
    AdmitQuery query;
    absl::Time asked;       // when `decision` was asked for
    absl::Time hold_until;  // the caller's patience
    Decision decision;      // a Defer
    Callback<Decision> done;
  };

  void Park(Parked call);
  void Resume(uint64_t number);
  void Ask(AdmitQuery query, absl::Time hold_until, Callback<Decision> done);
  void Refresh(const std::string& target, uint64_t seen_version);
  void StoreAway(const absl::Status& why);
  void StoreBack();
  void Keep(const ReleaseQuery& query);
  void ReplayGrants(const std::shared_ptr<Replay>& replay);
  void ReplayReleases(const std::shared_ptr<Replay>& replay);
  void FinishReplay(const std::shared_ptr<Replay>& replay);

  AdmissionStore* const store_;
  const RunAfter run_after_;
  const GateOptions options_;
  DegradedMode degraded_;
  std::atomic<bool> store_up_{true};
  std::atomic<bool> refreshing_{false};
  std::atomic<bool> replaying_{false};
  std::atomic<uint64_t> dropped_{0};

  mutable std::mutex mutex_;  // guards kept_
  std::deque<ReleaseQuery> kept_;

  std::mutex parked_mutex_;  // guards what follows
  std::map<uint64_t, Parked> parked_;
  uint64_t last_parked_ = 0;
  bool holds_ = true;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_GATE_GATE_H_
