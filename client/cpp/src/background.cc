#include "client/cpp/src/background.h"

#include <utility>

namespace fairgate::client {
namespace {

constexpr size_t kWaitingMax = 1000;

}  // namespace

void Background::Add(v1::ReleaseRequest request) {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || waiting_.size() >= kWaitingMax) return;
  waiting_.push_back(std::move(request));
  if (!worker_.joinable()) {
    worker_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
  }
  changed_.notify_all();
}

void Background::Close(absl::Duration patience) {
  std::unique_lock lock(mutex_);
  is_closed_ = true;
  if (!worker_.joinable()) return;
  changed_.wait_for(lock, absl::ToChronoMilliseconds(patience),
                    [this] { return waiting_.empty() && !is_sending_; });
  lock.unlock();
  worker_.request_stop();
  worker_.join();
}

void Background::Work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); }) &&
         !stop.stop_requested()) {
    const v1::ReleaseRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    is_sending_ = true;
    lock.unlock();
    send_(request, stop);
    lock.lock();
    is_sending_ = false;
    changed_.notify_all();
  }
}

}  // namespace fairgate::client
