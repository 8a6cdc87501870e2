// The connection against a stub that fails in every way a Valkey server or the way to it can.
#include "server/valkey/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/unit/resp_stub.h"

namespace fairgate {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using Answer = RespStub::Answer;
using Command = RespStub::Command;

constexpr absl::Duration kTimeout = absl::Milliseconds(25);
constexpr absl::Duration kLong = absl::Seconds(20);  // for answers that come, however slow we are

std::unique_ptr<Connection> Connect(const ValkeyAddress& address,
                                    absl::Duration silence_max = absl::Seconds(1)) {
  Connection::Options options;
  options.address = address;
  options.backoff_min = absl::Milliseconds(20);
  options.backoff_max = absl::Milliseconds(80);
  options.silence_max = silence_max;
  return std::make_unique<Connection>(std::move(options));
}

std::unique_ptr<Connection> Connected(const RespStub& stub) {
  auto connection = Connect(stub.address());
  EXPECT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  return connection;
}

std::future<absl::StatusOr<Reply>> Start(Connection& connection, Command command,
                                         absl::Duration timeout = kLong) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<Reply>>>();
  auto future = promise->get_future();
  connection.Submit(std::move(command), timeout, [promise](absl::StatusOr<Reply> reply) {
    promise->set_value(std::move(reply));
  });
  return future;
}

absl::StatusOr<Reply> Ask(Connection& connection, Command command, absl::Duration timeout = kLong) {
  return Start(connection, std::move(command), timeout).get();
}

// Answers each command with its last word.
Answer Echo(const Command& command, int) { return {RespStub::Bulk(command.back())}; }

bool Eventually(const std::function<bool()>& holds) {
  const auto end = steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(ConnectionTest, RepliesOfEveryKind) {
  RespStub stub;
  stub.Handle([](const Command& c, int) -> Answer { return {c[1]}; });
  auto connection = Connected(stub);
  const auto ask = [&](const std::string& wire) { return *Ask(*connection, {"X", wire}); };
  EXPECT_EQ(ask("+fine\r\n").text, "fine");
  EXPECT_EQ(ask(":-7\r\n").integer, -7);
  EXPECT_EQ(ask("$-1\r\n").type, Reply::Type::kNil);
  EXPECT_EQ(ask(RespStub::Bulk(std::string("a\0\r\n", 4))).text, std::string("a\0\r\n", 4));
  const Reply list = ask("*3\r\n:1\r\n*1\r\n+in\r\n*0\r\n");
  ASSERT_EQ(list.elements.size(), 3U);
  EXPECT_EQ(list.elements[1].elements[0].text, "in");
  EXPECT_EQ(list.elements[2].type, Reply::Type::kArray);
}

TEST(ConnectionTest, UnixSocket) {
  RespStub stub(/*unix_socket=*/true);
  stub.Handle(Echo);
  EXPECT_EQ(Ask(*Connected(stub), {"X", "hello"})->text, "hello");
}

class CannotServe : public testing::TestWithParam<const char*> {};

TEST_P(CannotServe, IsUnavailableAndNeverAVerdict) {
  RespStub stub;
  stub.Handle(
      [](const Command&, int) -> Answer { return {absl::StrCat("-", GetParam(), "\r\n")}; });
  auto connection = Connected(stub);
  const auto reply = Ask(*connection, {"EVALSHA", "x"});
  EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
  EXPECT_THAT(reply.status().message(), HasSubstr(GetParam()));
  EXPECT_EQ(stub.commands().size(), 1U) << "sent again";
}

INSTANTIATE_TEST_SUITE_P(ConnectionTest, CannotServe,
                         testing::Values("LOADING Valkey is loading the dataset in memory",
                                         "READONLY You can't write against a read only replica.",
                                         "BUSY Valkey is busy running a script.",
                                         "OOM command not allowed when used memory > 'maxmemory'.",
                                         "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
                                         "CLUSTERDOWN The cluster is down",
                                         "MASTERDOWN Link with MASTER is down",
                                         "NOREPLICAS Not enough good replicas to write.",
                                         "TRYAGAIN Multiple keys request during rehashing of slot"),
                         [](const auto& code) {
                           const std::string text = code.param;
                           return text.substr(0, text.find(' '));
                         });

TEST(ConnectionTest, OtherErrorsAreHandedOn) {
  RespStub stub;
  stub.Handle([](const Command& c, int) -> Answer { return {absl::StrCat("-", c[1], "\r\n")}; });
  auto connection = Connected(stub);
  // The last is no BUSY: codes are whole words.
  for (const char* error :
       {"ERR user_script:1: boom", "NOSCRIPT No matching script.",
        "WRONGTYPE Operation against a key", "BUSYKEY Target key name exists"}) {
    const auto reply = Ask(*connection, {"X", error});
    ASSERT_TRUE(reply.ok()) << error;
    EXPECT_EQ(reply->type, Reply::Type::kError);
    EXPECT_EQ(reply->text, error);
  }
  EXPECT_EQ(stub.accepted().size(), 1U);
}

TEST(ConnectionTest, AReplicaIsLeft) {
  RespStub stub;
  stub.Handle([](const Command& c, int connection) -> Answer {
    if (connection == 1) return {"-READONLY You can't write against a read only replica.\r\n"};
    return Echo(c, connection);
  });
  auto connection = Connected(stub);
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X", "1"}).status()));
  ASSERT_TRUE(stub.WaitForConnections(2));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
}

TEST(ConnectionTest, HalfAReplyThenHungUp) {
  RespStub stub;
  stub.Handle([](const Command& c, int connection) -> Answer {
    if (connection == 1) return {"$100\r\nonly the beginning", /*close=*/true};
    return Echo(c, connection);
  });
  auto connection = Connected(stub);
  auto first = Start(*connection, {"X", "1"});
  EXPECT_TRUE(absl::IsUnavailable(first.get().status()));
  ASSERT_TRUE(stub.WaitForConnections(2));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
  EXPECT_THAT(stub.commands(), ElementsAre(Command{"X", "1"}, Command{"X", "2"})) << "sent again";
}

TEST(ConnectionTest, BytesThatAreNoReply) {
  RespStub stub;
  stub.Handle([](const Command& c, int connection) -> Answer {
    if (connection == 1) return {"HTTP/1.1 400 Bad Request\r\n\r\n"};
    return Echo(c, connection);
  });
  auto connection = Connected(stub);
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X", "1"}).status()));
  ASSERT_TRUE(stub.WaitForConnections(2));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
}

TEST(ConnectionTest, SilenceIsAnsweredAtTheDeadline) {
  RespStub stub;
  stub.Handle([](const Command&, int) -> Answer { return {}; });
  auto connection = Connected(stub);
  steady_clock::duration least = std::chrono::hours(1);
  for (int i = 0; i < 10 || (i < 50 && least > milliseconds(45)); ++i) {  // on a busy machine
    const auto start = steady_clock::now();
    const auto reply = Ask(*connection, {"X"}, kTimeout);
    const auto took = steady_clock::now() - start;
    EXPECT_TRUE(absl::IsUnavailable(reply.status()));
    EXPECT_GE(took, milliseconds(25));
    least = std::min(least, took);
  }
  EXPECT_LE(least, milliseconds(45));
  EXPECT_TRUE(connection->connected()) << "one slow evaluation is no lost connection";
}

TEST(ConnectionTest, ALateReplyIsNobodyElses) {
  RespStub stub;
  stub.Handle([](const Command&, int) -> Answer { return {}; });
  auto connection = Connected(stub);
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X", "1"}, kTimeout).status()));
  auto second = Start(*connection, {"X", "2"});
  auto third = Start(*connection, {"X", "3"});
  ASSERT_TRUE(stub.WaitForCommands(3));
  stub.Push(1, RespStub::Bulk("1"));
  stub.Push(1, RespStub::Bulk("2") + RespStub::Bulk("3"));
  EXPECT_EQ(second.get()->text, "2");
  EXPECT_EQ(third.get()->text, "3");
  EXPECT_EQ(stub.accepted().size(), 1U);
}

TEST(ConnectionTest, RepliesOfALostConnectionAreNobodys) {
  RespStub stub;
  stub.Handle([](const Command& c, int connection) -> Answer {
    return connection == 1 ? Answer{} : Echo(c, connection);
  });
  auto connection = Connect(stub.address(), /*silence_max=*/absl::Milliseconds(100));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  // Dropped by itself, as it owes an answer and says nothing.
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X", "1"}).status()));
  ASSERT_TRUE(stub.WaitForConnections(2));
  stub.Push(1, RespStub::Bulk("1"));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
}

TEST(ConnectionTest, AnIdleConnectionIsNotSilent) {
  RespStub stub;
  stub.Handle(Echo);
  auto connection = Connect(stub.address(), /*silence_max=*/absl::Milliseconds(30));
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
  EXPECT_EQ(stub.accepted().size(), 1U);
}

TEST(ConnectionTest, RefusedIsAnsweredAtOnceUntilSomebodyListens) {
  RespStub stub;
  stub.Handle(Echo);
  stub.Deafen();
  auto connection = Connect(stub.address());
  EXPECT_FALSE(connection->WaitConnected(absl::Milliseconds(100)));
  steady_clock::duration least = std::chrono::hours(1);
  for (int i = 0; i < 10 || (i < 50 && least > milliseconds(20)); ++i) {
    const auto start = steady_clock::now();
    EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X", "1"}).status()));
    least = std::min(least, steady_clock::now() - start);
  }
  EXPECT_LE(least, milliseconds(20)) << "waits for the time-out";
  stub.Listen();
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(Ask(*connection, {"X", "2"})->text, "2");
  EXPECT_THAT(stub.commands(), ElementsAre(Command{"X", "2"})) << "kept what was answered";
}

TEST(ConnectionTest, NamesThatCannotBeFoundAreRefused) {
  ValkeyAddress address;
  address.host = "nowhere.invalid";
  auto connection = Connect(address);
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X"}).status()));
}

TEST(ConnectionTest, OneAttemptPerStepOfTheBackoff) {
  RespStub stub;
  stub.HangUpOnConnect(true);
  auto connection = Connect(stub.address());  // 20 ms, doubled up to 80 ms, less at most a half
  std::atomic<bool> stop{false};
  std::thread busy([&] {  // callers do not bring the next attempt nearer
    while (!stop) (void)Ask(*connection, {"X"});
  });
  ASSERT_TRUE(stub.WaitForConnections(7));
  stop = true;
  busy.join();
  const auto at = stub.accepted();
  const int least_ms[] = {10, 20, 40, 40, 40, 40};
  for (size_t i = 0; i < 6; ++i) {
    // The stub may see one attempt late and the next in time.
    EXPECT_GE(at[i + 1] - at[i], milliseconds(least_ms[i] - 8)) << "attempt " << i + 2;
  }
  EXPECT_GE(at[6] - at[0], milliseconds(180));
  stub.HangUpOnConnect(false);
  EXPECT_TRUE(connection->WaitConnected(absl::Seconds(10)));
}

TEST(ConnectionTest, AServerThatLoadsIsNotYetConnected) {
  RespStub stub;
  stub.HandlePing(true);
  stub.Handle([](const Command& c, int connection) -> Answer {
    if (connection <= 2) return {"-LOADING Valkey is loading the dataset in memory\r\n"};
    return c[0] == "PING" ? Answer{"+PONG\r\n"} : Echo(c, connection);
  });
  auto connection = Connect(stub.address());
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_EQ(stub.accepted().size(), 3U);
  EXPECT_EQ(Ask(*connection, {"X", "1"})->text, "1");
}

TEST(ConnectionTest, AServerThatAcceptsAndIsSilentIsNotConnected) {
  RespStub stub;
  stub.HandlePing(true);
  stub.Handle([](const Command&, int) -> Answer { return {}; });
  auto connection = Connect(stub.address(), /*silence_max=*/absl::Milliseconds(50));
  EXPECT_TRUE(stub.WaitForConnections(3)) << "waits for ever";
  EXPECT_FALSE(connection->connected());
}

// Answers as a server with the user `gate` and the password `secret`.
Answer Guarded(const Command& c, std::string user, bool* known) {
  if (c[0] == "AUTH") {
    *known = c.back() == "secret" && (user.empty() ? c.size() == 2 : c.size() == 3 && c[1] == user);
    return {*known ? "+OK\r\n" : "-WRONGPASS invalid username-password pair\r\n"};
  }
  if (!*known) return {"-NOAUTH Authentication required.\r\n"};
  return c[0] == "PING" ? Answer{"+PONG\r\n"} : Echo(c, 1);
}

TEST(ConnectionTest, PasswordIsGivenBeforeAllElse) {
  for (const std::string user : {"", "gate"}) {
    bool known = false;
    RespStub stub;
    stub.HandlePing(true);
    stub.Handle([&](const Command& c, int) { return Guarded(c, user, &known); });
    ValkeyAddress address = stub.address();
    address.user = user;
    address.password = "secret";
    auto connection = Connect(address);
    ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
    EXPECT_EQ(Ask(*connection, {"X", "in"})->text, "in");
    EXPECT_EQ(stub.everything()[0][0], "AUTH");
  }
}

TEST(ConnectionTest, WrongOrMissingPasswordSaysSo) {
  for (const char* password : {"", "wrong"}) {
    bool known = false;
    RespStub stub;
    stub.HandlePing(true);
    stub.Handle([&](const Command& c, int) { return Guarded(c, "", &known); });
    ValkeyAddress address = stub.address();
    address.password = password;
    auto connection = Connect(address);
    ASSERT_TRUE(stub.WaitForConnections(2));
    const auto reply = Ask(*connection, {"X", "in"});
    EXPECT_TRUE(absl::IsUnavailable(reply.status()));
    EXPECT_THAT(reply.status().message(), HasSubstr(*password == '\0' ? "NOAUTH" : "WRONGPASS"));
    EXPECT_TRUE(stub.commands().empty()) << "asked before it was let in";
  }
}

TEST(ConnectionTest, TheDatabaseIsSelected) {
  RespStub stub;
  stub.Handle(Echo);
  ValkeyAddress address = stub.address();
  address.database = 3;
  auto connection = Connect(address);
  ASSERT_TRUE(connection->WaitConnected(absl::Seconds(10)));
  EXPECT_THAT(stub.everything(), ElementsAre(Command{"SELECT", "3"}, Command{"PING"}));
}

TEST(ConnectionTest, EachCallerGetsItsOwnReply) {
  RespStub stub;
  stub.Handle(Echo);
  auto connection = Connected(stub);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::pair<std::string, std::future<absl::StatusOr<Reply>>>> open;
      for (int i = 0; i < 250; ++i) {
        std::string word = absl::StrCat(t, "-", i);
        auto reply = Start(*connection, {"X", word});
        open.emplace_back(std::move(word), std::move(reply));
      }
      for (auto& [word, reply] : open) {
        const auto answer = reply.get();
        if (answer.ok() && answer->text == word) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 1000);
}

TEST(ConnectionTest, ChangesAreTold) {
  RespStub stub;
  std::atomic<int> ups{0}, downs{0};
  Connection::Options options;
  options.address = stub.address();
  options.backoff_min = absl::Milliseconds(20);
  options.on_change = [&](bool connected) { ++(connected ? ups : downs); };
  Connection connection(std::move(options));
  ASSERT_TRUE(connection.WaitConnected(absl::Seconds(10)));
  stub.Deafen();
  EXPECT_TRUE(Eventually([&] { return downs == 1; }));
  stub.Listen();
  EXPECT_TRUE(Eventually([&] { return ups == 2; }));
  connection.Stop();
  EXPECT_EQ(downs, 2);
}

TEST(ConnectionTest, StopAnswersEverythingOnce) {
  RespStub stub;
  stub.Handle([](const Command&, int) -> Answer { return {}; });
  auto connection = Connected(stub);
  std::vector<std::future<absl::StatusOr<Reply>>> open;
  for (int i = 0; i < 100; ++i) open.push_back(Start(*connection, {"X"}));
  const auto start = steady_clock::now();
  connection->Stop();
  for (auto& reply : open) EXPECT_TRUE(absl::IsUnavailable(reply.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(Ask(*connection, {"X"}).status()));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5)) << "waits for time-outs";
  connection->Stop();
}

// A promise that is set twice throws, so an answer that comes twice ends the test.
TEST(ConnectionTest, ManyCallersWhileTheServerComesAndGoes) {
  RespStub stub;
  stub.Handle([](const Command& c, int) -> Answer {
    const size_t kind = std::hash<std::string>()(c.back()) % 16;
    if (kind == 0) return {"", /*close=*/true};
    if (kind == 1) return {"$9\r\nhalf", /*close=*/true};
    return Echo(c, 0);
  });
  auto connection = Connected(stub);
  std::atomic<int> wrong{0}, good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string word = absl::StrCat(t, "-", i);
        const auto reply = Ask(*connection, {"X", word}, kTimeout);
        if (!reply.ok()) {
          if (!absl::IsUnavailable(reply.status())) ++wrong;
          connection->WaitConnected(absl::Seconds(1));
        } else {
          ++(reply->text == word ? good : wrong);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(good, 100);
}

}  // namespace
}  // namespace fairgate
