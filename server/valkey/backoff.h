// How long to wait before the next attempt to connect.
#ifndef FAIRGATE_SERVER_VALKEY_BACKOFF_H_
#define FAIRGATE_SERVER_VALKEY_BACKOFF_H_

#include <algorithm>
#include <random>

#include "absl/time/time.h"

namespace fairgate {

// Each step is twice the one before, from `min` to `max`. A wait is half of its step to all of it
// by chance, so that gates which lost the store together do not come back together.
class Backoff {
 public:
  Backoff(absl::Duration min, absl::Duration max) : min_(min), max_(max), step_(min) {}

  absl::Duration Next() {
    std::uniform_real_distribution<double> jitter(0.5, 1.0);
    const absl::Duration wait = step_ * jitter(random_);
    step_ = std::min(step_ * 2, max_);
    return wait;
  }

  void Reset() { step_ = min_; }

 private:
  const absl::Duration min_;
  const absl::Duration max_;
  absl::Duration step_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_BACKOFF_H_
