// A server that speaks Valkey's protocol and answers what a test wants, on a thread of its own: for
// the failures that a real one gives only by chance.
#ifndef FAIRGATE_TESTS_UNIT_RESP_STUB_H_
#define FAIRGATE_TESTS_UNIT_RESP_STUB_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/valkey/address.h"

namespace fairgate {

class RespStub {
 public:
  using Command = std::vector<std::string>;
  struct Answer {
    std::string bytes;   // as on the wire; may be less or more than a reply, or nothing
    bool close = false;  // hang up after them
  };
  // `connection` counts from 1 in the order of acceptance. Run on the stub's thread.
  using Handler = std::function<Answer(const Command& command, int connection)>;

  // Listens on a free port of the loopback interface, or on a Unix socket in a temporary folder.
  explicit RespStub(bool unix_socket = false);
  ~RespStub();
  RespStub(const RespStub&) = delete;
  RespStub& operator=(const RespStub&) = delete;

  // For what comes from now on; without one, and for a PING that it gives no say in, "+PONG".
  void Handle(Handler handler);
  // Also PING goes to the handler.
  void HandlePing(bool handle);
  // Hangs up on whoever connects, before reading anything.
  void HangUpOnConnect(bool hang_up);
  // Bytes that no command asked for just now: a late reply.
  void Push(int connection, std::string bytes);
  // Nobody listens at the address until Listen(); those who are connected are hung up on.
  void Deafen();
  void Listen();

  const ValkeyAddress& address() const { return address_; }
  // Without PING, AUTH and SELECT.
  std::vector<Command> commands() const;
  // All of them.
  std::vector<Command> everything() const;
  std::vector<std::chrono::steady_clock::time_point> accepted() const;
  // Waits for so many commands other than PING, AUTH and SELECT; false: not within 10 s.
  bool WaitForCommands(size_t count) const;
  bool WaitForConnections(size_t count) const;

  static std::string Bulk(const std::string& text);

 private:
  struct Peer {
    int number = 0;
    std::string unread;
  };

  void Run();
  void Wake() const;
  void OpenListener();
  void CloseListener();
  void Accept();
  void Read(int fd);
  // Takes one whole command from the front of `unread`.
  static bool Take(std::string* unread, Command* command);
  void HangUp(int fd);

  ValkeyAddress address_;
  std::string directory_;
  int wake_[2] = {-1, -1};

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  Handler handler_;
  bool handle_ping_ = false, hang_up_ = false, deaf_ = false, stopping_ = false;
  std::vector<std::pair<int, std::string>> pushes_;
  std::vector<Command> seen_;
  size_t asked_ = 0;  // of them, those that are no part of the greeting
  std::vector<std::chrono::steady_clock::time_point> accepted_;

  // Of the stub's thread.
  int listener_ = -1;
  std::map<int, Peer> peers_;  // by file descriptor

  std::thread thread_;
};

}  // namespace fairgate

#endif  // FAIRGATE_TESTS_UNIT_RESP_STUB_H_
