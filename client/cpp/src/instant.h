// Instants on the clock that does not jump, and the callers' wall-clock deadlines on it.
#ifndef FAIRGATE_CLIENT_CPP_SRC_INSTANT_H_
#define FAIRGATE_CLIENT_CPP_SRC_INSTANT_H_

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace fairgate::client {

using Instant = std::chrono::steady_clock::time_point;

inline constexpr Instant kNever = Instant::max();

inline Instant Now() { return std::chrono::steady_clock::now(); }

// kNever for what is further away than a program runs.
inline Instant After(Instant from, absl::Duration duration) {
  if (duration > absl::Hours(24 * 365 * 10)) return kNever;
  return from + absl::ToChronoNanoseconds(std::max(duration, -absl::Hours(24)));
}

inline Instant ToInstant(absl::Time time) {
  return time == absl::InfiniteFuture() ? kNever : After(Now(), time - absl::Now());
}

inline absl::Duration Between(Instant from, Instant to) { return absl::FromChrono(to - from); }

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_INSTANT_H_
