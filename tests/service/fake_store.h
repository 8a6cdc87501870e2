// An AdmissionStore that answers what a test wants, from a thread of its own as the real one does.
#ifndef FAIRGATE_TESTS_SERVICE_FAKE_STORE_H_
#define FAIRGATE_TESTS_SERVICE_FAKE_STORE_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/service/timer_thread.h"
#include "server/store/admission_store.h"

namespace fairgate {

class FakeStore : public AdmissionStore {
 public:
  // What Admit and Release answer for known targets; run on the fake's thread.
  std::function<absl::StatusOr<Decision>(const AdmitQuery&)> on_admit;
  std::function<absl::StatusOr<ReleaseReport>(const ReleaseQuery&)> on_release;
  absl::Duration delay = absl::ZeroDuration();

  ~FakeStore() override { thread_.Stop(); }

  void Stop() { thread_.Stop(); }

  void Admit(const AdmitQuery& query, Callback<Decision> done) override {
    thread_.RunAfter(delay, [this, query, done = std::move(done)] {
      if (!Has(query.target)) {
        done(absl::NotFoundError("no target " + query.target));
        return;
      }
      done(on_admit(query));
    });
  }

  void Release(const ReleaseQuery& query, Callback<ReleaseReport> done) override {
    thread_.RunAfter(delay, [this, query, done = std::move(done)] { done(on_release(query)); });
  }

  void ReadPolicy(const std::string& target, Callback<StoredPolicy> done) override {
    thread_.RunAfter(delay, [this, target, done = std::move(done)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = policies_.find(target);
      if (found == policies_.end()) {
        done(absl::NotFoundError("no target " + target));
        return;
      }
      done(found->second);
    });
  }

  void WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                   Callback<uint64_t> done) override {
    thread_.RunAfter(delay, [this, policy, expected_version, done = std::move(done)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = policies_.find(policy.name());
      const uint64_t version = found == policies_.end() ? 0 : found->second.version;
      if (version != expected_version) {
        done(absl::AbortedError("expected_version: is " + std::to_string(version)));
        return;
      }
      policies_[policy.name()] = {policy, version + 1};
      done(version + 1);
    });
  }

  void DeleteTarget(const std::string& target, uint64_t expected_version,
                    Callback<uint64_t> done) override {
    thread_.RunAfter(delay, [this, target, expected_version, done = std::move(done)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      policies_.erase(target);
      done(expected_version);
    });
  }

  void Inspect(const std::string& target, uint32_t flows_max,
               Callback<v1::InspectTargetResponse> done) override {
    thread_.RunAfter(delay, [this, target, flows_max, done = std::move(done)] {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = policies_.find(target);
      if (found == policies_.end()) {
        done(absl::NotFoundError("no target " + target));
        return;
      }
      v1::InspectTargetResponse state;
      state.set_target(target);
      *state.mutable_policy() = found->second.policy;
      state.set_config_version(found->second.version);
      state.set_waiters(flows_max);  // lets tests see what was asked
      done(std::move(state));
    });
  }

  void ListTargets(Callback<std::vector<std::string>> done) override {
    thread_.RunAfter(delay, [this, done = std::move(done)] {
      std::vector<std::string> names;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& [name, policy] : policies_) {
          names.insert(names.begin(), name);  // unsorted on purpose
        }
      }
      done(std::move(names));
    });
  }

  void Heartbeat(const std::string& /*gate_id*/, absl::Duration /*lifetime*/,
                 Callback<uint32_t> done) override {
    thread_.RunAfter(delay, [done = std::move(done)] { done(1u); });
  }

  void Put(v1::TargetPolicy policy) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string name = policy.name();
    policies_[name] = {std::move(policy), 1};
  }

 private:
  bool Has(const std::string& target) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return policies_.count(target) > 0;
  }

  std::mutex mutex_;  // guards what follows
  std::map<std::string, StoredPolicy> policies_;
  TimerThread thread_;  // last: its tasks use the others
};

}  // namespace fairgate

#endif  // FAIRGATE_TESTS_SERVICE_FAKE_STORE_H_
