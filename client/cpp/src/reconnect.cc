#include "client/cpp/src/reconnect.h"

#include <chrono>

namespace fairgate::client {
namespace {

// How long Close() may have to wait.
constexpr std::chrono::milliseconds kStep(50);

}  // namespace

void Reconnect::Start() {
  const std::lock_guard lock(mutex_);
  if (is_closed_ || is_working_) return;
  is_working_ = true;
  worker_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });  // joins the last
}

void Reconnect::Close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;  // from here on worker_ stays as it is
  }
  worker_.request_stop();
  if (worker_.joinable()) worker_.join();
}

void Reconnect::Work(const std::stop_token& stop) {
  while (!stop.stop_requested() &&
         !channel_->WaitForConnected(std::chrono::system_clock::now() + kStep)) {
  }
  const std::lock_guard lock(mutex_);
  is_working_ = false;
}

}  // namespace fairgate::client
