#include "tests/unit/resp_stub.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

bool IsGreeting(const RespStub::Command& command) {
  return command[0] == "PING" || command[0] == "AUTH" || command[0] == "SELECT";
}

void Require(bool good, const char* what) {
  if (!good) throw std::runtime_error(absl::StrCat("stub: ", what, ": ", std::strerror(errno)));
}

}  // namespace

RespStub::RespStub(bool unix_socket) {
  if (unix_socket) {
    const char* base = std::getenv("TMPDIR");
    directory_ = absl::StrCat(base != nullptr ? base : "/tmp", "/fairgate-stub-XXXXXX");
    Require(mkdtemp(directory_.data()) != nullptr, "mkdtemp");
    address_.unix_socket = directory_ + "/s";
  } else {
    address_.host = "127.0.0.1";
    address_.port = 0;
  }
  Require(pipe2(wake_, O_CLOEXEC | O_NONBLOCK) == 0, "pipe");
  OpenListener();
  thread_ = std::thread([this] { Run(); });
}

RespStub::~RespStub() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  close(wake_[0]);
  close(wake_[1]);
  if (!directory_.empty()) rmdir(directory_.c_str());
}

void RespStub::Handle(Handler handler) {
  const std::lock_guard<std::mutex> lock(mutex_);
  handler_ = std::move(handler);
}
void RespStub::HandlePing(bool handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  handle_ping_ = handle;
}
void RespStub::HangUpOnConnect(bool hang_up) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hang_up_ = hang_up;
}
void RespStub::Push(int connection, std::string bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    pushes_.emplace_back(connection, std::move(bytes));
  }
  Wake();
}
void RespStub::Deafen() {
  std::unique_lock<std::mutex> lock(mutex_);
  deaf_ = true;
  Wake();
  changed_.wait(lock, [this] { return listener_ < 0; });
}
void RespStub::Listen() {
  std::unique_lock<std::mutex> lock(mutex_);
  deaf_ = false;
  Wake();
  changed_.wait(lock, [this] { return listener_ >= 0; });
}

std::vector<RespStub::Command> RespStub::commands() const {
  std::vector<Command> out;
  for (Command& command : everything()) {
    if (!IsGreeting(command)) out.push_back(std::move(command));
  }
  return out;
}
std::vector<RespStub::Command> RespStub::everything() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return seen_;
}
std::vector<std::chrono::steady_clock::time_point> RespStub::accepted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return accepted_;
}
bool RespStub::WaitForCommands(size_t count) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return asked_ >= count; });
}
bool RespStub::WaitForConnections(size_t count) const {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10),
                           [&] { return accepted_.size() >= count; });
}

std::string RespStub::Bulk(const std::string& text) {
  return absl::StrCat("$", text.size(), "\r\n", text, "\r\n");
}

void RespStub::Wake() const {
  const char byte = 0;
  (void)!write(wake_[1], &byte, 1);
}

void RespStub::OpenListener() {
  const bool tcp = address_.unix_socket.empty();
  const int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Require(fd >= 0, "socket");
  if (tcp) {
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(static_cast<uint16_t>(address_.port));
    Require(bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0, "bind");
    socklen_t size = sizeof where;
    Require(getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size) == 0, "getsockname");
    address_.port = ntohs(where.sin_port);
  } else {
    sockaddr_un where = {};
    where.sun_family = AF_UNIX;
    address_.unix_socket.copy(where.sun_path, sizeof where.sun_path - 1);
    Require(bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0, "bind");
  }
  Require(listen(fd, 128) == 0, "listen");
  listener_ = fd;
}

void RespStub::CloseListener() {
  close(listener_);
  listener_ = -1;
  if (!address_.unix_socket.empty()) unlink(address_.unix_socket.c_str());
}

void RespStub::Run() {
  while (true) {
    std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}};
    if (listener_ >= 0) polled.push_back({listener_, POLLIN, 0});
    for (const auto& [fd, peer] : peers_) polled.push_back({fd, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);

    std::vector<std::pair<int, std::string>> pushes;
    bool stopping;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      pushes.swap(pushes_);
      stopping = stopping_;
      if ((deaf_ || stopping) && listener_ >= 0) {
        while (!peers_.empty()) HangUp(peers_.begin()->first);
        CloseListener();
      } else if (!deaf_ && listener_ < 0) {
        OpenListener();
      }
    }
    changed_.notify_all();
    if (stopping) break;
    char bytes[64];
    while (read(wake_[0], bytes, sizeof bytes) > 0) {
    }
    for (const auto& [number, text] : pushes) {
      for (const auto& [fd, peer] : peers_) {
        if (peer.number == number) (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      }
    }
    for (const pollfd& p : polled) {
      if (p.revents == 0 || p.fd == wake_[0]) continue;
      if (p.fd == listener_) {
        Accept();
      } else if (peers_.contains(p.fd)) {
        Read(p.fd);
      }
    }
  }
  while (!peers_.empty()) HangUp(peers_.begin()->first);
}

void RespStub::Accept() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  accepted_.push_back(std::chrono::steady_clock::now());
  peers_[fd].number = static_cast<int>(accepted_.size());
  if (hang_up_) HangUp(fd);
  changed_.notify_all();
}

void RespStub::Read(int fd) {
  char bytes[4096];
  const ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got <= 0) return HangUp(fd);
  Peer& peer = peers_[fd];
  peer.unread.append(bytes, static_cast<size_t>(got));
  Command command;
  while (Take(&peer.unread, &command)) {
    Handler handler;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      seen_.push_back(command);
      if (!IsGreeting(command)) ++asked_;
      if (handle_ping_ || command[0] != "PING") handler = handler_;
    }
    changed_.notify_all();
    const Answer answer = handler ? handler(command, peer.number) : Answer{"+PONG\r\n"};
    (void)!send(fd, answer.bytes.data(), answer.bytes.size(), MSG_NOSIGNAL);
    if (answer.close) return HangUp(fd);
  }
}

bool RespStub::Take(std::string* unread, Command* command) {
  size_t at = 0;
  const auto number = [&](char kind, size_t* value) {
    const size_t end = unread->find("\r\n", at);
    if (end == std::string::npos) return false;
    if ((*unread)[at] != kind || !absl::SimpleAtoi(unread->substr(at + 1, end - at - 1), value)) {
      throw std::runtime_error("stub: not a command: " + *unread);
    }
    at = end + 2;
    return true;
  };
  size_t count = 0;
  if (!number('*', &count)) return false;
  Command taken;
  for (size_t i = 0; i < count; ++i) {
    size_t size = 0;
    if (!number('$', &size) || unread->size() < at + size + 2) return false;
    taken.push_back(unread->substr(at, size));
    at += size + 2;
  }
  unread->erase(0, at);
  *command = std::move(taken);
  return true;
}

void RespStub::HangUp(int fd) {
  close(fd);
  peers_.erase(fd);
}

}  // namespace fairgate
