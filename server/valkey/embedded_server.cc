#include "server/valkey/embedded_server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/core/log.h"

namespace fairgate {
namespace {

constexpr int kBackoffMinMs = 50;
constexpr int kBackoffMaxMs = 2000;

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

// The process that a lock file names; 0: none.
pid_t OwnerOf(int fd) {
  char text[24] = {};
  const ssize_t size = pread(fd, text, sizeof text - 1, 0);
  pid_t pid = 0;
  return size > 0 && absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &pid) ? pid : 0;
}

// A process that ended and whose parent has not looked yet does not run.
bool Runs(pid_t pid) {
  if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) return false;
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);  // "pid (name) state ..."
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat[name_end + 2] != 'Z';
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
  if (!error) server->directory_ = std::filesystem::absolute(directory, error).string();
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("state directory ", directory, ": ", error.message()));
  }
  server->address_.unix_socket = server->directory_ + "/valkey.sock";
  if (server->address_.unix_socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::FailedPreconditionError(absl::StrCat("state directory ", server->directory_,
                                                      ": the path is too long for a Unix socket"));
  }
  if (absl::Status status = server->Lock(); !status.ok()) return status;
  EmbeddedServer* raw = server.get();
  server->watcher_ = std::thread([raw] { raw->Watch(); });
  for (int i = 0; i < 1500; ++i) {  // a large append-only file takes its time
    if (AnswersPing(server->address_.unix_socket)) {
      server->serving_ = true;
      return server;
    }
    if (server->gone_) {
      return absl::FailedPreconditionError(absl::StrCat(
          server->binary_, " ended at once; its log is ", server->directory_, "/valkey.log"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return absl::DeadlineExceededError("valkey-server does not answer");
}

absl::Status EmbeddedServer::Lock() {
  const std::string file = directory_ + "/lock";
  lock_fd_ = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (lock_fd_ < 0) {
    return absl::FailedPreconditionError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  for (int i = 0; flock(lock_fd_, LOCK_EX | LOCK_NB) != 0; ++i) {
    const pid_t owner = OwnerOf(lock_fd_);
    const bool alive = Runs(owner);
    // A server that was killed leaves a valkey-server that needs a moment to write all and go.
    if (alive || i == 250) {
      return absl::FailedPreconditionError(absl::StrCat(
          "state directory ", directory_, " is used by another fairgate-server",
          alive ? absl::StrCat(" (process ", owner, ")") : ", whose valkey-server still runs"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const std::string owner = absl::StrCat(getpid(), "\n");
  if (ftruncate(lock_fd_, 0) != 0 ||
      pwrite(lock_fd_, owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) {
    return absl::FailedPreconditionError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

bool EmbeddedServer::Spawn() {
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
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    // A group of its own: Ctrl-C is for the gate, which ends its store last.
    setpgid(0, 0);
    // This process may block the signals that are to stop the child.
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // Sent when the thread that forked ends: that is Watch's, which lives as long as the process.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    fcntl(lock_fd_, F_SETFD, 0);  // the child holds the lock, too
    execv(argv[0], argv.data());
    _exit(127);
  }
  pid_ = child;
  return child > 0;
}

void EmbeddedServer::Watch() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point started = Clock::now();
  int backoff_ms = kBackoffMinMs;
  Spawn();
  while (!WaitUntilStopping(20)) {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) != pid_.load()) continue;
    pid_ = -1;
    if (!serving_) {
      gone_ = true;
      return;
    }
    if (Clock::now() - started > std::chrono::seconds(10)) backoff_ms = kBackoffMinMs;
    LogWarning("embedded_store_ended", {{"directory", directory_}, {"action", "start again"}});
    if (WaitUntilStopping(backoff_ms)) return;
    backoff_ms = std::min(kBackoffMaxMs, backoff_ms * 2);
    started = Clock::now();
    Spawn();
  }
  if (pid_ <= 0) return;
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool EmbeddedServer::WaitUntilStopping(int ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
}

EmbeddedServer::~EmbeddedServer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (lock_fd_ >= 0) close(lock_fd_);
}

}  // namespace fairgate
