#include "server/store/lanes.h"

#include <utility>

namespace fairgate {

std::vector<Question> Lanes::Take(Lane* lane) {
  std::vector<Question> batch;
  while (!lane->waiting.empty() && batch.size() < kQuestionsMax) {
    batch.push_back(std::move(lane->waiting.front()));
    lane->waiting.pop_front();
  }
  if (!batch.empty()) ++lane->evaluations;
  return batch;
}

std::vector<Question> Lanes::Add(const std::string& target, Question question) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Lane& lane = lanes_[target];
  lane.waiting.push_back(std::move(question));
  if (lane.evaluations >= kEvaluationsMax) return {};
  return Take(&lane);
}

std::vector<Question> Lanes::Next(const std::string& target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = lanes_.find(target);
  if (it == lanes_.end()) return {};
  --it->second.evaluations;
  std::vector<Question> batch = Take(&it->second);
  if (it->second.evaluations == 0) lanes_.erase(it);
  return batch;
}

}  // namespace fairgate
