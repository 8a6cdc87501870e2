// The breaker: a gate that does not answer is not waited for.
#ifndef FAIRGATE_CLIENT_CPP_SRC_BREAKER_H_
#define FAIRGATE_CLIENT_CPP_SRC_BREAKER_H_

#include "absl/time/time.h"
#include "client/cpp/src/instant.h"

namespace fairgate::client {

// Counts failures in a row; open, it lets one try through per cooldown. Its owner locks.
class Breaker {
 public:
  // failures_max not positive: never opens.
  Breaker(int failures_max, absl::Duration cooldown)
      : failures_max_(failures_max), cooldown_(cooldown) {}

  bool is_open() const { return failures_max_ > 0 && failures_ >= failures_max_; }
  // Whether this caller may ask; open, the first one after the cooldown tries for all.
  bool Allows(Instant now) {
    if (!is_open()) return true;
    if (now < retry_at_) return false;
    retry_at_ = After(now, cooldown_);
    return true;
  }
  void Succeeded() { failures_ = 0; }
  void Failed(Instant now) {
    if (failures_ < failures_max_) ++failures_;
    if (is_open()) retry_at_ = After(now, cooldown_);
  }

 private:
  const int failures_max_;
  const absl::Duration cooldown_;
  int failures_ = 0;
  Instant retry_at_ = Instant::min();
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_BREAKER_H_
