// Commands that wait for their answers, which they get exactly once: from the store, at their
// deadline, or when the connection goes.
#ifndef FAIRGATE_SERVER_VALKEY_PENDING_H_
#define FAIRGATE_SERVER_VALKEY_PENDING_H_

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/valkey/connection.h"

namespace fairgate {

struct Pending {
  using Clock = std::chrono::steady_clock;

  std::shared_ptr<const Command> command;  // until it is sent
  Clock::time_point deadline;
  Connection::Callback done;  // empty once answered

  void Answer(absl::StatusOr<Reply> reply) {
    if (!done) return;
    Connection::Callback callback = std::exchange(done, nullptr);
    callback(std::move(reply));
  }
};

// Those that were sent, maybe answered since, in the order of their sending.
class SentCommands {
 public:
  void Add(std::shared_ptr<Pending> pending) { sent_.push_back(std::move(pending)); }

  // Answers whose deadline has come. What that calls may add commands.
  void AnswerLate(Pending::Clock::time_point now) {
    std::deque<std::shared_ptr<Pending>> waiting;
    waiting.swap(sent_);
    std::vector<std::shared_ptr<Pending>> late;
    // Deadlines differ, so all are looked at; what is answered leaves, in order.
    for (std::shared_ptr<Pending>& pending : waiting) {
      if (!pending->done) continue;
      (pending->deadline <= now ? late.emplace_back() : sent_.emplace_back()) = std::move(pending);
    }
    for (const std::shared_ptr<Pending>& pending : late) {
      pending->Answer(absl::UnavailableError("the store did not answer in time"));
    }
  }

 private:
  std::deque<std::shared_ptr<Pending>> sent_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_PENDING_H_
