#include "server/valkey/embedded_server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace fairgate {
namespace {

std::string FindInPath(const char* name) {
  const char* path = std::getenv("PATH");
  for (const auto& part : absl::StrSplit(path != nullptr ? path : "/usr/bin", ':')) {
    std::string file = absl::StrCat(part, "/", name);
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// Loading the append-only file counts as not yet there.
bool AnswersPing(const std::string& socket) {
  const timeval timeout = {0, 200000};
  redisContext* context = redisConnectUnixWithTimeout(socket.c_str(), timeout);
  bool ok = false;
  if (context != nullptr && context->err == 0) {
    redisSetTimeout(context, timeout);
    if (auto* reply = static_cast<redisReply*>(redisCommand(context, "PING"))) {
      ok = reply->type == REDIS_REPLY_STATUS;
      freeReplyObject(reply);
    }
  }
  redisFree(context);
  return ok;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedServer>> EmbeddedServer::Start(
    const std::string& directory) {
  std::unique_ptr<EmbeddedServer> server(new EmbeddedServer);
  server->binary_ = FindInPath("valkey-server");
  if (server->binary_.empty()) server->binary_ = FindInPath("redis-server");
  if (server->binary_.empty()) {
    return absl::NotFoundError(
        "store \"embedded\" needs valkey-server (or redis-server 7) in PATH; install it or use "
        "--store=valkey://host:port");
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  server->directory_ = std::filesystem::absolute(directory, error).string();
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", directory, ": ", error.message()));
  }
  const std::string lock = server->directory_ + "/lock";
  server->lock_fd_ = open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (server->lock_fd_ < 0) {
    return absl::FailedPreconditionError(absl::StrCat(lock, ": ", std::strerror(errno)));
  }
  if (flock(server->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("state directory ", server->directory_,
                                                      " is used by another fairgate-server"));
  }
  server->address_.unix_socket = server->directory_ + "/valkey.sock";
  if (server->address_.unix_socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::FailedPreconditionError(absl::StrCat("state directory ", server->directory_,
                                                      ": the path is too long for a Unix socket"));
  }
  if (absl::Status status = server->Spawn(); !status.ok()) return status;
  for (int i = 0; i < 1500; ++i) {  // a large append-only file takes its time
    if (AnswersPing(server->address_.unix_socket)) {
      EmbeddedServer* raw = server.get();
      server->watcher_ = std::thread([raw] { raw->Watch(); });
      return server;
    }
    if (waitpid(server->pid_, nullptr, WNOHANG) == server->pid_.load()) {
      server->pid_ = -1;
      return absl::FailedPreconditionError(absl::StrCat("valkey-server ended at once; its log is ",
                                                        server->directory_, "/valkey.log"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::DeadlineExceededError("valkey-server does not answer");
}

absl::Status EmbeddedServer::Spawn() {
  unlink(address_.unix_socket.c_str());
  const std::vector<std::string> args = {binary_,
                                         "--port",
                                         "0",
                                         "--unixsocket",
                                         address_.unix_socket,
                                         "--dir",
                                         directory_,
                                         "--save",
                                         "",
                                         "--appendonly",
                                         "yes",
                                         "--appendfsync",
                                         "everysec",
                                         "--logfile",
                                         directory_ + "/valkey.log",
                                         "--unixsocketperm",
                                         "700",
                                         "--daemonize",
                                         "no"};
  std::vector<char*> argv;
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  if (child == 0) {
    // A group of its own: Ctrl-C is for the gate, which ends its store last.
    setpgid(0, 0);
    // This process may block the signals that are to stop the child.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (getppid() != parent) _exit(1);
    execv(argv[0], argv.data());
    _exit(127);
  }
  pid_ = child;
  return absl::OkStatus();
}

void EmbeddedServer::Watch() {
  int backoff_ms = 50;
  while (!stopping_) {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_.load()) {
      pid_ = -1;
      if (stopping_) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(backoff_ms));
      backoff_ms = std::min(2000, backoff_ms * 2);
      (void)Spawn();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

EmbeddedServer::~EmbeddedServer() {
  stopping_ = true;
  if (watcher_.joinable()) watcher_.join();
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace fairgate
