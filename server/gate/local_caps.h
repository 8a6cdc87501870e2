// One server's part of a target's caps while the store is away, and the line of those who wait for
// it. Pure: time comes in. Not thread-safe.
#ifndef FAIRGATE_SERVER_GATE_LOCAL_CAPS_H_
#define FAIRGATE_SERVER_GATE_LOCAL_CAPS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace fairgate {

class LocalCaps {
 public:
  // What a call takes from one dimension of which this server has a part.
  struct Cost {
    std::string dimension;
    double amount = 0;  // > 0
    double part = 0;    // most that the bucket holds, > 0; a new one is full
    double rate = 0;    // refill per second, > 0
  };
  struct Answer {
    absl::Duration wait = absl::ZeroDuration();  // zero: it is there
    std::string limited_by;                      // the dimension that takes longest; with a wait
  };

  // Whether all costs are there for the caller `key`. An amount above the part needs a full bucket.
  // Who comes first waits until its cost has come in, the next until that of both has, and so on; a
  // caller that asks again early is told the rest of the same wait. What is there beyond the needs
  // of those who are due goes to whoever asks.
  Answer Ask(const std::string& key, const std::vector<Cost>& costs, absl::Time now);
  // Debits the costs, even into debt; the caller waits no more.
  void Take(const std::string& key, const std::vector<Cost>& costs);
  // The caller comes back at `due`; its cost is kept for it for a moment after.
  void Promise(const std::string& key, const std::vector<Cost>& costs, absl::Time due);

 private:
  struct Bucket {
    double level = 0;
    double promised = 0;  // to all waiters
    absl::Time at;
  };
  struct Waiter {
    absl::Time due;
    std::vector<Cost> costs;
  };

  void Forget(const std::string& key);
  double Due(const std::string& dimension, absl::Time now) const;

  std::map<std::string, Bucket> buckets_;
  std::map<std::string, Waiter> waiters_;
  std::set<std::pair<absl::Time, std::string>> by_due_;  // of all waiters
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_GATE_LOCAL_CAPS_H_
