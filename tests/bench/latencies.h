// Exact percentiles: every latency is kept and sorted at the end.
#ifndef FAIRGATE_TESTS_BENCH_LATENCIES_H_
#define FAIRGATE_TESTS_BENCH_LATENCIES_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

namespace fairgate::bench {

using Clock = std::chrono::steady_clock;

class Latencies {
 public:
  Latencies() { us_.reserve(1 << 20); }

  void Add(Clock::duration took) {
    us_.push_back(std::chrono::duration<float, std::micro>(took).count());
  }
  void Clear() { us_.clear(); }
  size_t count() const { return us_.size(); }

  // The members of a JSON object, in microseconds. `prefix` goes before each name.
  std::string Json(const std::string& prefix) {
    std::sort(us_.begin(), us_.end());
    return absl::StrFormat(
        "\"%sp50_us\": %.1f, \"%sp90_us\": %.1f, \"%sp99_us\": %.1f, \"%smax_us\": %.1f", prefix,
        At(0.5), prefix, At(0.9), prefix, At(0.99), prefix, At(1));
  }

 private:
  // The least latency that a part `q` of all do not pass; 0 when there are none.
  double At(double q) const {
    if (us_.empty()) return 0;
    const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(us_.size())));
    return static_cast<double>(us_[std::max<size_t>(rank, 1) - 1]);
  }

  std::vector<float> us_;
};

}  // namespace fairgate::bench

#endif  // FAIRGATE_TESTS_BENCH_LATENCIES_H_
