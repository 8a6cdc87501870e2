// Replays prepared commands on a Valkey server over Unix-socket connections, each with one command
// in flight, and prints one JSON object.
//
// The file holds the commands as they go over the wire, each after its length (4 bytes,
// little-endian). They are sent in order, once; the run ends with the last answer.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/bench/latencies.h"

namespace fairgate::bench {
namespace {

// Bytes of the first whole reply in `text`; nullopt: more must come.
std::optional<size_t> ReplySize(std::string_view text) {
  const size_t end = text.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  size_t at = end + 2;
  int64_t count = 0;
  const bool sized = text[0] == '$' || text[0] == '*';
  if (sized) std::from_chars(text.data() + 1, text.data() + end, count);
  if (!sized || count < 0) return at;
  if (text[0] == '$') {
    at += static_cast<size_t>(count) + 2;
    return at <= text.size() ? std::optional(at) : std::nullopt;
  }
  for (; count > 0; --count) {
    const std::optional<size_t> part = ReplySize(text.substr(at));
    if (!part.has_value()) return std::nullopt;
    at += *part;
  }
  return at;
}

class Replay {
 public:
  bool Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    data_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    for (size_t at = 0; at + 4 <= data_.size();) {
      uint32_t size = 0;
      std::memcpy(&size, &data_[at], 4);
      commands_.emplace_back(data_.data() + at + 4, size);
      at += 4 + size;
    }
    return !commands_.empty();
  }

  int Run(const std::string& socket, int connections) {
    epoll_ = epoll_create1(0);
    connections_.resize(static_cast<size_t>(connections));
    for (Connection& connection : connections_) {
      if (!Open(socket, &connection)) return 1;
    }
    const Clock::time_point start = Clock::now();
    for (Connection& connection : connections_) Ask(&connection);
    std::vector<epoll_event> events(64);
    while (open_ > 0) {
      const int count = epoll_wait(epoll_, events.data(), 64, 10000);
      if (count <= 0) return 1;
      for (int i = 0; i < count; ++i) {
        if (!Hear(static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr))) return 1;
      }
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    absl::PrintF("{\"calls\": %d, \"seconds\": %.5f, \"calls_per_s\": %.1f, \"errors\": %d, %s}\n",
                 commands_.size(), seconds, static_cast<double>(commands_.size()) / seconds,
                 errors_, latencies_.Json(""));
    if (errors_ > 0) std::fprintf(stderr, "bench_replay: %s\n", error_.c_str());
    return 0;
  }

 private:
  struct Connection {
    int fd = -1;
    bool busy = false;
    Clock::time_point start;
    std::string heard;
  };

  bool Open(const std::string& path, Connection* connection) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return false;
    path.copy(address.sun_path, path.size());
    connection->fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (connect(connection->fd, generic, sizeof(address)) != 0) return false;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connection;
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, connection->fd, &event) == 0;
  }

  void Ask(Connection* connection) {
    if (next_ == commands_.size()) return;
    std::string_view command = commands_[next_++];
    if (!connection->busy) ++open_;
    connection->busy = true;
    connection->start = Clock::now();
    while (!command.empty()) {
      const ssize_t sent = send(connection->fd, command.data(), command.size(), MSG_NOSIGNAL);
      if (sent <= 0) std::abort();
      command.remove_prefix(static_cast<size_t>(sent));
    }
  }

  // False: the connection was lost.
  bool Hear(Connection* connection) {
    char buffer[16384];
    const ssize_t got = recv(connection->fd, buffer, sizeof(buffer), 0);
    if (got <= 0) return false;
    connection->heard.append(buffer, static_cast<size_t>(got));
    if (!ReplySize(connection->heard).has_value()) return true;
    latencies_.Add(Clock::now() - connection->start);
    if (connection->heard[0] == '-') {
      ++errors_;
      error_ = connection->heard;
    }
    connection->heard.clear();
    connection->busy = false;
    --open_;
    Ask(connection);
    return true;
  }

  std::string data_;
  std::vector<std::string_view> commands_;
  size_t next_ = 0;
  size_t open_ = 0;
  size_t errors_ = 0;
  std::string error_;
  int epoll_ = -1;
  std::vector<Connection> connections_;
  Latencies latencies_;
};

}  // namespace
}  // namespace fairgate::bench

int main(int argc, char** argv) {
  CLI::App app("Replays prepared commands on a Valkey server");
  std::string socket;
  std::string file;
  int connections = 64;
  app.add_option("socket", socket, "path of the Unix socket")->required();
  app.add_option("file", file, "commands, each after its length")->required();
  app.add_option("--connections", connections)->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  fairgate::bench::Replay replay;
  return replay.Read(file) ? replay.Run(socket, connections) : 1;
}
