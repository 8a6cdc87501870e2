// Releases that nobody waits for.
#ifndef FAIRGATE_CLIENT_CPP_SRC_BACKGROUND_H_
#define FAIRGATE_CLIENT_CPP_SRC_BACKGROUND_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

#include "absl/time/time.h"
#include "fairgate/v1/admission.pb.h"

namespace fairgate::client {

// Sends one after the other, in a thread that is started when it is first needed.
class Background {
 public:
  using Send = std::function<void(const v1::ReleaseRequest&, const std::stop_token&)>;

  explicit Background(Send send) : send_(std::move(send)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Dropped after Close(), and when too many wait already: what they are about ends by itself.
  void Add(v1::ReleaseRequest request);
  // Waits until all are sent, or for that long; then stops what is left.
  void Close(absl::Duration patience);

 private:
  void Work(const std::stop_token& stop);

  const Send send_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<v1::ReleaseRequest> waiting_;  // guarded by mutex_, as all below
  bool is_sending_ = false;
  bool is_closed_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_BACKGROUND_H_
