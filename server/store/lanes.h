// Questions on their way to the store, a lane per target: those that come while evaluations of the
// target are under way share the next one. A lone question never waits; under load the cost of an
// evaluation is shared by as many as there are.
#ifndef FAIRGATE_SERVER_STORE_LANES_H_
#define FAIRGATE_SERVER_STORE_LANES_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fairgate {

struct Question {
  std::string argument;  // packed
  absl::Time deadline;   // from then on its caller is answered without the store
  std::function<void(absl::StatusOr<std::string>)> done;
};

// Thread-safe. Whoever gets a batch sends it, and calls Next once it was answered.
class Lanes {
 public:
  // Two: the store decides one while the answers of the other are on their way.
  static constexpr size_t kEvaluationsMax = 2;
  // A full evaluation of deferred calls takes some 5 ms, in which the store does nothing else.
  static constexpr size_t kQuestionsMax = 32;

  // What to send now; empty: the question waits for Next.
  std::vector<Question> Add(const std::string& target, Question question);
  // An evaluation of the target has ended. What to send next; may be empty.
  std::vector<Question> Next(const std::string& target);

 private:
  struct Lane {
    std::deque<Question> waiting;
    size_t evaluations = 0;  // under way
  };

  static std::vector<Question> Take(Lane* lane);

  std::mutex mutex_;
  std::unordered_map<std::string, Lane> lanes_;  // only those with an evaluation under way
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_LANES_H_
