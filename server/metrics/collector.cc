#include "server/metrics/collector.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace fairgate {
namespace {

constexpr uint32_t kFlows = 1000;
// As many as have labels of their own.
constexpr size_t kTargetsMax = 1000;

}  // namespace

// Shared with the callbacks, which may come after the collector is gone.
struct TargetCollector::State : std::enable_shared_from_this<State> {
  State(AdmissionStore* the_store, Metrics* the_metrics, Refresh the_refresh,
        std::chrono::seconds the_interval)
      : store(the_store),
        metrics(the_metrics),
        refresh(std::move(the_refresh)),
        interval(the_interval) {}

  void Start() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto now = std::chrono::steady_clock::now();
      // A round that never ends (the store is away) gives way to a new one after a minute.
      if (stopped || now < next || (busy && now < next + std::chrono::minutes(1))) {
        return;
      }
      busy = true;
      next = now + interval;
    }
    if (refresh) {
      refresh();
    }
    store->ListTargets([self = shared_from_this()](absl::StatusOr<std::vector<std::string>> names) {
      if (!names.ok()) {
        self->Finish();
        return;
      }
      names->resize(std::min(names->size(), kTargetsMax));
      self->Next(std::make_shared<const std::vector<std::string>>(*std::move(names)), 0, 0);
    });
  }

  // One target after the other: a scrape must not crowd out decisions.
  void Next(const std::shared_ptr<const std::vector<std::string>>& names, size_t index,
            uint64_t waiters) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (stopped) {
        return;
      }
      if (index == names->size()) {
        Keep(*names);
        metrics->SetWaiters(waiters);
        busy = false;
        return;
      }
    }
    store->Inspect((*names)[index], kFlows,
                   [self = shared_from_this(), names, index,
                    waiters](absl::StatusOr<v1::InspectTargetResponse> answer) {
                     uint64_t sum = waiters;
                     if (answer.ok()) {
                       sum += answer->waiters();
                       self->Take((*names)[index], *std::move(answer));
                     }
                     self->Next(names, index + 1, sum);
                   });
  }

  void Take(const std::string& target, v1::InspectTargetResponse now) {
    now.set_target(target);
    const std::lock_guard<std::mutex> lock(mutex);
    if (stopped) {
      return;
    }
    v1::InspectTargetResponse& before = last[target];
    metrics->SetTarget(now, MeasureFairness(before, now));
    before = std::move(now);
  }

  // With the mutex held.
  void Keep(const std::vector<std::string>& names) {
    metrics->KeepTargets(names);
    const std::set<std::string> kept(names.begin(), names.end());
    for (auto it = last.begin(); it != last.end();) {
      it = kept.count(it->first) > 0 ? std::next(it) : last.erase(it);
    }
  }

  void Finish() {
    const std::lock_guard<std::mutex> lock(mutex);
    busy = false;
  }

  AdmissionStore* const store;
  Metrics* const metrics;
  const Refresh refresh;
  const std::chrono::seconds interval;

  std::mutex mutex;  // guards what follows
  bool stopped = false;
  bool busy = false;
  std::chrono::steady_clock::time_point next;
  std::map<std::string, v1::InspectTargetResponse> last;
};

TargetCollector::TargetCollector(AdmissionStore* store, Metrics* metrics, Refresh refresh,
                                 std::chrono::seconds interval)
    : state_(std::make_shared<State>(store, metrics, std::move(refresh), interval)) {}

TargetCollector::~TargetCollector() { Stop(); }

std::vector<prometheus::MetricFamily> TargetCollector::Collect() const {
  state_->Start();
  return {};
}

void TargetCollector::Stop() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stopped = true;
}

}  // namespace fairgate
