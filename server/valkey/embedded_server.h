// A valkey-server child of this process: the default store, so that one binary beside Valkey's own
// is a whole deployment.
#ifndef FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_
#define FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/valkey/address.h"

namespace fairgate {

class EmbeddedServer {
 public:
  // Starts it in `directory` (made if missing), listening on a Unix socket alone, with an
  // append-only file, and returns when it answers. kFailedPrecondition: another server uses the
  // directory; kNotFound: no valkey-server or redis-server in PATH.
  static absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(const std::string& directory);
  // Ends the child by SIGTERM and waits for it: what was acknowledged is on disk.
  ~EmbeddedServer();
  EmbeddedServer(const EmbeddedServer&) = delete;
  EmbeddedServer& operator=(const EmbeddedServer&) = delete;

  const ValkeyAddress& address() const { return address_; }
  // Of the child now running.
  pid_t pid() const { return pid_.load(); }

 private:
  EmbeddedServer() = default;
  absl::Status Spawn();
  void Watch();  // starts the child again when it dies

  std::string directory_, binary_;
  ValkeyAddress address_;
  int lock_fd_ = -1;
  std::atomic<pid_t> pid_{-1};
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_
