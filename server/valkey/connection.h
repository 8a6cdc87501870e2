// One pipelined connection to a Valkey server, with its own loop thread.
#ifndef FAIRGATE_SERVER_VALKEY_CONNECTION_H_
#define FAIRGATE_SERVER_VALKEY_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/valkey/address.h"
#include "server/valkey/reply.h"

namespace fairgate {

using Command = std::vector<std::string>;

class Connection {
 public:
  // On the loop thread; must not block. kUnavailable: no answer in time, no connection, or the
  // server cannot serve now (LOADING, READONLY ...). Other error replies come as Reply errors.
  using Callback = std::function<void(absl::StatusOr<Reply>)>;

  struct Options {
    ValkeyAddress address;
    absl::Duration backoff_min = absl::Milliseconds(50);
    absl::Duration backoff_max = absl::Milliseconds(400);
    // For connecting and the handshake, at most silence_max. When packets were lost, a store that
    // is back may be found only by the next attempt: this and the longest step stay below 1 s.
    absl::Duration handshake_max = absl::Milliseconds(400);
    // How long a connection that owes answers may be silent before it is dropped.
    absl::Duration silence_max = absl::Seconds(1);
    // On the loop thread, at each change.
    std::function<void(bool connected)> on_change;
  };

  explicit Connection(Options options);  // starts the loop thread and the first attempt
  ~Connection();                         // as Stop()
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From any thread. While there is no connection the answer is kUnavailable at once; a command
  // that times out is answered at its deadline (5 ms steps), and its late reply is dropped.
  void Submit(std::shared_ptr<const Command> command, absl::Duration timeout, Callback done);
  void Submit(Command command, absl::Duration timeout, Callback done) {
    Submit(std::make_shared<const Command>(std::move(command)), timeout, std::move(done));
  }

  bool connected() const;

  // Waits until there is a connection; false: not within the timeout.
  bool WaitConnected(absl::Duration timeout) const;

  // Answers everything with kUnavailable and joins the loop thread. Not from a callback.
  // Idempotent.
  void Stop();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_CONNECTION_H_
