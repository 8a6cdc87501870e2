// Waits for an answer by callback: for start-up and upkeep on the main thread, and for the rare
// calls that gRPC serves on threads of its own; never on the completion queue's.
#ifndef FAIRGATE_SERVER_SERVICE_AWAIT_H_
#define FAIRGATE_SERVER_SERVICE_AWAIT_H_

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fairgate {

// Runs start(done) and waits for done(answer). kUnavailable when none comes in time; an answer that
// comes later is dropped.
template <typename T, typename Start>
absl::StatusOr<T> Await(Start start, std::chrono::seconds limit = std::chrono::seconds(10)) {
  const auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
  std::future<absl::StatusOr<T>> answer = promise->get_future();
  start(std::function<void(absl::StatusOr<T>)>(
      [promise](absl::StatusOr<T> value) { promise->set_value(std::move(value)); }));
  if (answer.wait_for(limit) != std::future_status::ready) {
    return absl::UnavailableError("no answer from the store");
  }
  return answer.get();
}

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_AWAIT_H_
