// A valkey-server child of this process: the default store, so that one binary beside Valkey's own
// is a whole deployment.
#ifndef FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_
#define FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "server/valkey/address.h"

namespace fairgate {

class EmbeddedServer {
 public:
  // Starts it in `directory` (made if missing), listening on a Unix socket alone, with an
  // append-only file, and returns when it answers. kFailedPrecondition: another server uses the
  // directory, or it is of no use; kNotFound: no valkey-server or redis-server in PATH.
  //
  // The child ends with this process, also when that is killed. The directory stays locked until
  // both are gone, so that no two ever write one append-only file.
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
  absl::Status Lock();
  bool Spawn();
  void Watch();  // starts the child, again when it dies, and ends it
  bool WaitUntilStopping(int ms);

  std::string directory_, binary_;
  ValkeyAddress address_;
  int lock_fd_ = -1;
  std::atomic<pid_t> pid_{-1};
  std::atomic<bool> serving_{false};  // has answered once: from now on it is started again
  std::atomic<bool> gone_{false};     // ended before

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_

  std::thread watcher_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_EMBEDDED_SERVER_H_
