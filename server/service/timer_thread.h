// Runs functions later: for calls that the gate parks and for its own recurring work.
#ifndef FAIRGATE_SERVER_SERVICE_TIMER_THREAD_H_
#define FAIRGATE_SERVER_SERVICE_TIMER_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace fairgate {

// One thread of its own rather than a grpc::Alarm per wait, because it can say at shutdown that
// nothing more will run. Thread-safe.
class TimerThread {
 public:
  TimerThread();
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  // Runs `task` once, not before `delay` has passed; it must not block. Dropped after Stop().
  void RunAfter(absl::Duration delay, std::function<void()> task);

  // Drops what waits; when it returns, no task runs or will run. Not from a task.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  void Loop();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopped_ = false;
  uint64_t next_number_ = 0;  // tasks due at the same time run in the order they were given
  std::map<std::pair<Clock::time_point, uint64_t>, std::function<void()>> tasks_;

  std::thread thread_;  // last: it uses the others
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_TIMER_THREAD_H_
