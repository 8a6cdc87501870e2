#include "server/gate/gate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/core/log.h"
#include "server/core/policy.h"

namespace fairgate {
namespace {

constexpr absl::Duration kGateLifetime = absl::Seconds(6);  // three heartbeats
constexpr int kConfigureTries = 5;
constexpr size_t kReplayBatch = 64;
constexpr absl::Duration kReplayPause = absl::Milliseconds(5);  // between batches

// One Configure: read, merge, validate, write if nobody else did meanwhile. Owns itself by the
// callbacks it is in.
class Configuring : public std::enable_shared_from_this<Configuring> {
 public:
  Configuring(AdmissionStore* store, v1::ConfigureRequest request,
              Gate::Callback<v1::ConfigureResponse> done)
      : store_(store), request_(std::move(request)), done_(std::move(done)) {}

  void Run() {
    store_->ReadPolicy(request_.policy().name(),
                       [self = shared_from_this()](absl::StatusOr<StoredPolicy> stored) {
                         self->OnRead(std::move(stored));
                       });
  }

 private:
  void OnRead(absl::StatusOr<StoredPolicy> stored) {
    const bool there = stored.ok();
    if (!there && !absl::IsNotFound(stored.status())) return done_(stored.status());
    StoredPolicy current = there ? *std::move(stored) : StoredPolicy();
    if (request_.expected_version() != 0 && request_.expected_version() != current.version) {
      return done_(absl::AbortedError(
          absl::StrCat("expected_version: the policy's version is ", current.version)));
    }
    if (request_.create_only() && there) {
      return done_(absl::AbortedError("create_only: the target exists"));
    }
    if (request_.delete_target()) return Delete(there, current.version);
    if (!there && request_.has_update_mask()) {
      return done_(absl::NotFoundError(
          absl::StrCat("no target \"", request_.policy().name(), "\" to change")));
    }
    auto merged = MergePolicy(current.policy, request_);
    if (!merged.ok()) return done_(merged.status());
    if (absl::Status status = ValidatePolicy(*merged); !status.ok()) return done_(status);
    v1::ConfigureResponse response;
    for (v1::PolicyChange& change : DiffPolicy(current.policy, *merged)) {
      *response.add_changes() = std::move(change);
    }
    *response.mutable_policy() = *merged;
    response.set_config_version(current.version);
    if (request_.validate_only() || (there && response.changes_size() == 0)) {
      return done_(std::move(response));
    }
    store_->WritePolicy(
        *merged, current.version,
        [self = shared_from_this(), response](absl::StatusOr<uint64_t> version) mutable {
          if (version.ok()) {
            response.set_config_version(*version);
            self->done_(std::move(response));
          } else if (absl::IsAborted(version.status()) && self->request_.expected_version() == 0 &&
                     ++self->tries_ < kConfigureTries) {
            self->Run();
          } else {
            self->done_(version.status());
          }
        });
  }

  void Delete(bool there, uint64_t version) {
    if (!there) {
      return done_(
          absl::NotFoundError(absl::StrCat("no target \"", request_.policy().name(), "\"")));
    }
    if (request_.validate_only()) return done_(v1::ConfigureResponse());
    store_->DeleteTarget(request_.policy().name(), version,
                         [self = shared_from_this()](absl::StatusOr<uint64_t> deleted) {
                           if (deleted.ok()) {
                             self->done_(v1::ConfigureResponse());
                           } else {
                             self->done_(deleted.status());
                           }
                         });
  }

  AdmissionStore* const store_;
  const v1::ConfigureRequest request_;
  const Gate::Callback<v1::ConfigureResponse> done_;
  int tries_ = 0;
};

ReleaseReport Queued() {
  ReleaseReport report;
  report.result = ReleaseResult::kQueued;
  report.degraded = true;
  return report;
}

}  // namespace

// One pass over what was done while the store was away.
struct Gate::Replay {
  uint64_t cursor = 0;
  std::atomic<size_t> open{0};  // questions of the batch that are not answered yet

  std::mutex mutex;  // guards both while a batch is open; between batches one thread has them
  std::set<std::string> away;  // targets whose store did not answer: for the next pass
  std::deque<ReleaseQuery> missed;

  void Miss(const std::string& target) {
    const std::lock_guard<std::mutex> lock(mutex);
    away.insert(target);
  }
  void Miss(const ReleaseQuery& query) {
    const std::lock_guard<std::mutex> lock(mutex);
    away.insert(query.target);
    missed.push_back(query);
  }
};

Gate::Gate(AdmissionStore* store, RunAfter run_after, GateOptions options)
    : store_(store), run_after_(std::move(run_after)), options_(std::move(options)) {}

void Gate::Admit(AdmitQuery query, Callback<Decision> done) {
  query.max_hold = std::min(query.max_hold, options_.hold_max);
  const absl::Time hold_until = options_.now() + query.max_hold;
  Ask(std::move(query), hold_until, std::move(done));
}

void Gate::Ask(AdmitQuery query, absl::Time hold_until, Callback<Decision> done) {
  const absl::Time asked = options_.now();
  const auto kept = std::make_shared<AdmitQuery>(std::move(query));  // not copied with the callback
  store_->Admit(*kept, [this, kept, hold_until, asked,
                        done = std::move(done)](absl::StatusOr<Decision> decision) mutable {
    if (absl::IsUnavailable(decision.status())) {
      StoreAway(decision.status());
      done(degraded_.Admit(*kept, options_.now()));
      return;
    }
    if (!decision.ok()) {
      done(decision.status());
      return;
    }
    Refresh(kept->target, decision->config_version);
    const auto* defer = std::get_if<Defer>(&decision->outcome);
    if (defer == nullptr || !decision->may_hold || kept->check_only) {
      done(std::move(decision));
      return;
    }
    Park({std::move(*kept), asked, hold_until, *std::move(decision), std::move(done)});
  });
}

// The caller keeps its connection, not a promise: it is asked for again when due.
void Gate::Park(Parked call) {
  const absl::Duration delay = std::get<Defer>(call.decision.outcome).retry_delay;
  uint64_t number = 0;
  std::optional<Parked> refused;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    if (holds_) {
      number = ++last_parked_;
      parked_.emplace(number, std::move(call));
    } else {
      refused = std::move(call);
    }
  }
  if (refused) {
    refused->done(std::move(refused->decision));
  } else {
    run_after_(delay, [this, number] { Resume(number); });
  }
}

void Gate::Resume(uint64_t number) {
  Parked call;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    const auto it = parked_.find(number);
    if (it == parked_.end()) return;  // answered by StopHolding
    call = std::move(it->second);
    parked_.erase(it);
  }
  const absl::Time now = options_.now();
  call.query.held = true;
  call.query.max_hold = std::max(absl::ZeroDuration(), call.hold_until - now);
  // The deadline is time left, and some of it is over.
  if (call.query.deadline) {
    *call.query.deadline -= std::max(absl::ZeroDuration(), now - call.asked);
  }
  Ask(std::move(call.query), call.hold_until, std::move(call.done));
}

void Gate::StopHolding() {
  std::map<uint64_t, Parked> parked;
  {
    const std::lock_guard<std::mutex> lock(parked_mutex_);
    holds_ = false;
    parked.swap(parked_);
  }
  for (auto& [number, call] : parked) call.done(std::move(call.decision));
}

void Gate::Release(ReleaseQuery query, Callback<ReleaseReport> done) {
  // The store does not know this lease yet and would forget the usage.
  if (degraded_.IsPending(query.target, query.request_id, query.attempt)) {
    Keep(query);
    done(Queued());
    return;
  }
  store_->Release(query,
                  [this, query, done = std::move(done)](absl::StatusOr<ReleaseReport> report) {
                    if (!absl::IsUnavailable(report.status())) {
                      done(std::move(report));
                      return;
                    }
                    StoreAway(report.status());
                    Keep(query);
                    done(Queued());
                  });
}

void Gate::Keep(const ReleaseQuery& query) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.push_back(query);
  if (kept_.size() <= options_.releases_kept_max) return;
  kept_.pop_front();
  if (dropped_++ == 0) {
    LogWarning("releases_dropped", {{"kept_max", absl::StrCat(options_.releases_kept_max)}});
  }
}

void Gate::Configure(const v1::ConfigureRequest& request, Callback<v1::ConfigureResponse> done) {
  if (!IsValidName(request.policy().name())) {
    done(absl::InvalidArgumentError(
        "policy.name: must be 1 to 128 bytes of UTF-8 without control characters"));
    return;
  }
  std::make_shared<Configuring>(
      store_, request,
      [this, name = request.policy().name(), deleted = request.delete_target(),
       dry = request.validate_only(),
       done = std::move(done)](absl::StatusOr<v1::ConfigureResponse> response) {
        if (!response.ok() || dry) {
          // nothing changed
        } else if (deleted) {
          degraded_.Forget(name);
        } else if (response->config_version() > 0) {
          degraded_.Learn({response->policy(), response->config_version()});
        }
        done(std::move(response));
      })
      ->Run();
}

// Keeps the copy that degraded mode goes by; decisions never do.
void Gate::Refresh(const std::string& target, uint64_t seen_version) {
  if (degraded_.KnownVersion(target) == seen_version || refreshing_.exchange(true)) return;
  store_->ReadPolicy(target, [this](absl::StatusOr<StoredPolicy> stored) {
    if (stored.ok()) degraded_.Learn(*stored);
    refreshing_ = false;
  });
}

void Gate::StoreAway(const absl::Status& why) {
  if (!store_up_.exchange(false)) return;
  LogWarning("store_away", {{"decisions", "degraded"}, {"reason", std::string(why.message())}});
}

void Gate::StoreBack() {
  if (!store_up_.exchange(true)) LogInfo("store_back");
}

void Gate::Beat() {
  store_->Heartbeat(options_.gate_id, kGateLifetime, [this](absl::StatusOr<uint32_t> gates) {
    if (!gates.ok()) {
      if (absl::IsUnavailable(gates.status())) StoreAway(gates.status());
      return;
    }
    degraded_.SetGates(*gates, options_.now());
    StoreBack();
    if (!replaying_.exchange(true)) ReplayGrants(std::make_shared<Replay>());
  });
}

// Grants first, then releases, so that each finds its lease; a batch at a time, so that the
// decisions of the living do not wait behind a long outage.
void Gate::ReplayGrants(const std::shared_ptr<Replay>& replay) {
  const std::vector<AdmitQuery> batch =
      degraded_.Granted(&replay->cursor, kReplayBatch, replay->away);
  if (batch.empty()) return ReplayReleases(replay);
  replay->open = batch.size();
  for (AdmitQuery query : batch) {
    query.forced = true;
    query.max_hold = absl::ZeroDuration();
    query.deadline.reset();
    store_->Admit(query, [this, replay, query](absl::StatusOr<Decision> decision) {
      if (absl::IsUnavailable(decision.status())) {
        replay->Miss(query.target);  // kept: debiting twice is impossible by its id
      } else {
        degraded_.Debited(query);
        if (!decision.ok()) {
          LogWarning("replay_refused", {{"target", query.target},
                                        {"request_id", query.request_id},
                                        {"error", std::string(decision.status().message())}});
        }
      }
      if (--replay->open > 0) return;
      run_after_(kReplayPause, [this, replay] { ReplayGrants(replay); });
    });
  }
}

void Gate::ReplayReleases(const std::shared_ptr<Replay>& replay) {
  std::vector<ReleaseQuery> batch;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!kept_.empty() && batch.size() < kReplayBatch) {
      ReleaseQuery query = std::move(kept_.front());
      kept_.pop_front();
      // Its grant may have been given after the grants' turn, or its store is away.
      if (replay->away.contains(query.target) ||
          degraded_.IsPending(query.target, query.request_id, query.attempt)) {
        replay->missed.push_back(std::move(query));
      } else {
        batch.push_back(std::move(query));
      }
    }
  }
  if (batch.empty()) return FinishReplay(replay);
  replay->open = batch.size();
  for (const ReleaseQuery& query : batch) {
    store_->Release(query, [this, replay, query](absl::StatusOr<ReleaseReport> report) {
      if (absl::IsUnavailable(report.status())) replay->Miss(query);
      if (--replay->open > 0) return;
      run_after_(kReplayPause, [this, replay] { ReplayReleases(replay); });
    });
  }
}

// What could not be settled goes to the front again: settling twice is harmless.
void Gate::FinishReplay(const std::shared_ptr<Replay>& replay) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept_.insert(kept_.begin(), replay->missed.begin(), replay->missed.end());
    while (kept_.size() > options_.releases_kept_max) {
      kept_.pop_front();
      ++dropped_;
    }
  }
  replaying_ = false;
}

size_t Gate::kept_releases() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_.size();
}

}  // namespace fairgate
