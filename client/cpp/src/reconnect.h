// Getting a connection back while nobody waits for one.
#ifndef FAIRGATE_CLIENT_CPP_SRC_RECONNECT_H_
#define FAIRGATE_CLIENT_CPP_SRC_RECONNECT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

namespace fairgate::client {

// gRPC's connections make progress in threads that wait for an answer. Where calls fail at once, or
// are not made because the breaker is open, none does, and gRPC itself looks every five seconds
// only. This thread waits instead, until there is a connection.
class Reconnect {
 public:
  explicit Reconnect(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}

  // After a failure; does nothing where it is under way already.
  void Start();
  void Close();

 private:
  void Work(const std::stop_token& stop);

  const std::shared_ptr<grpc::Channel> channel_;
  std::mutex mutex_;
  bool is_closed_ = false;  // guarded by mutex_, as all below
  bool is_working_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_RECONNECT_H_
