#include "server/service/timer_thread.h"

#include <algorithm>

namespace fairgate {

TimerThread::TimerThread() : thread_([this] { Loop(); }) {}

TimerThread::~TimerThread() { Stop(); }

void TimerThread::RunAfter(absl::Duration delay, std::function<void()> task) {
  // A day is longer than any wait here, and keeps the sum below from overflowing.
  const absl::Duration wait = std::clamp(delay, absl::ZeroDuration(), absl::Hours(24));
  const auto due = Clock::now() + absl::ToChronoNanoseconds(wait);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) {
    return;
  }
  tasks_.emplace(std::pair(due, next_number_++), std::move(task));
  changed_.notify_one();
}

void TimerThread::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  tasks_.clear();
}

void TimerThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopped_) {
    if (tasks_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = tasks_.begin();
    const Clock::time_point due = first->first.first;
    if (Clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    const std::function<void()> task = std::move(first->second);
    tasks_.erase(first);
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace fairgate
