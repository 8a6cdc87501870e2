#include "server/gate/local_caps.h"

#include <algorithm>
#include <cstddef>

namespace fairgate {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(2);  // callers' timers are late
constexpr size_t kWaitersMax = 100000;
constexpr int kDueMax = 64;  // looked at per question
constexpr double kTiny = 1e-9;

}  // namespace

LocalCaps::Answer LocalCaps::Ask(const std::string& key, const std::vector<Cost>& costs,
                                 absl::Time now) {
  while (!by_due_.empty() && by_due_.begin()->first + kGrace < now) {
    Forget(std::string(by_due_.begin()->second));
  }
  const auto known = waiters_.find(key);
  const bool is_due = known != waiters_.end() && known->second.due <= now;
  Answer answer;
  bool there = true;
  for (const Cost& cost : costs) {
    Bucket& b = buckets_.try_emplace(cost.dimension, Bucket{cost.part, 0, now}).first->second;
    const double passed_s = std::max(0.0, absl::ToDoubleSeconds(now - b.at));
    b.level = std::min(cost.part, b.level + passed_s * cost.rate);
    b.at = std::max(b.at, now);
    const double need = std::min(cost.amount, cost.part);
    const double kept = is_due ? 0 : std::min(Due(cost.dimension, now), cost.part - need);
    if (need + kept - b.level <= kTiny) continue;
    there = false;
    const double before = known != waiters_.end() ? 0 : b.promised;
    const absl::Duration wait = absl::Seconds((need + before - b.level) / cost.rate);
    if (answer.limited_by.empty() || wait > answer.wait) answer = {wait, cost.dimension};
  }
  if (there) return {};
  if (known != waiters_.end() && !is_due) answer.wait = known->second.due - now;
  answer.wait = std::max(answer.wait, absl::Milliseconds(1));
  return answer;
}

void LocalCaps::Take(const std::string& key, const std::vector<Cost>& costs) {
  for (const Cost& cost : costs) buckets_[cost.dimension].level -= cost.amount;
  Forget(key);
}

void LocalCaps::Promise(const std::string& key, const std::vector<Cost>& costs, absl::Time due) {
  Forget(key);
  if (waiters_.size() >= kWaitersMax) return;
  for (const Cost& cost : costs) buckets_[cost.dimension].promised += cost.amount;
  waiters_[key] = {due, costs};
  by_due_.emplace(due, key);
}

void LocalCaps::Forget(const std::string& key) {
  const auto it = waiters_.find(key);
  if (it == waiters_.end()) return;
  for (const Cost& cost : it->second.costs) {
    double& promised = buckets_[cost.dimension].promised;
    promised = std::max(0.0, promised - cost.amount);
  }
  by_due_.erase({it->second.due, key});
  waiters_.erase(it);
}

// What those may take at once who are due now.
double LocalCaps::Due(const std::string& dimension, absl::Time now) const {
  double sum = 0;
  int seen = 0;
  for (auto it = by_due_.begin(); it != by_due_.end() && it->first <= now && seen < kDueMax;
       ++it, ++seen) {
    for (const Cost& cost : waiters_.at(it->second).costs) {
      if (cost.dimension == dimension) sum += cost.amount;
    }
  }
  return sum;
}

}  // namespace fairgate
