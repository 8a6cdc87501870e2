// The store that a server starts for itself, with the real valkey-server.
#include "server/valkey/embedded_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/valkey/connection.h"

namespace fairgate {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kDirectoryVariable[] = "FAIRGATE_EMBEDDED_TEST_DIRECTORY";

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 6000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Whoever adopts an orphan may be slow to look at its end.
bool IsGone(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

class EmbeddedServerTest : public testing::Test {
 protected:
  EmbeddedServerTest() {
    char name[] = "/tmp/fairgate-embedded-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = std::getenv("PATH");
  }
  ~EmbeddedServerTest() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }

  std::unique_ptr<EmbeddedServer> Start() const {
    auto server = EmbeddedServer::Start(directory_);
    EXPECT_TRUE(server.ok()) << server.status();
    return server.ok() ? *std::move(server) : nullptr;
  }
  static Reply Ask(const EmbeddedServer& server, std::vector<std::string> command) {
    Connection::Options options;
    options.address = server.address();
    Connection connection(std::move(options));
    EXPECT_TRUE(connection.WaitConnected(absl::Seconds(60)));
    std::promise<absl::StatusOr<Reply>> answer;
    connection.Submit(std::move(command), absl::Seconds(60),
                      [&](absl::StatusOr<Reply> reply) { answer.set_value(std::move(reply)); });
    auto reply = answer.get_future().get();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : Reply();
  }
  // A program of that name which does nothing good is all that PATH holds.
  void FakeBinary(const std::string& name, const std::string& script) const {
    const std::string bin = directory_ + "/bin";
    std::filesystem::create_directory(bin);
    setenv("PATH", bin.c_str(), 1);
    if (name.empty()) return;
    std::ofstream(bin + "/" + name) << script;
    std::filesystem::permissions(bin + "/" + name, std::filesystem::perms::owner_all);
  }

  std::string directory_, path_;
};

TEST_F(EmbeddedServerTest, StateSurvivesARestart) {
  auto server = Start();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Ask(*server, {"SET", "k", "kept"}).text, "OK");
  const pid_t first = server->pid();
  server.reset();
  EXPECT_TRUE(IsGone(first)) << "the child must end with its server";
  server = Start();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Ask(*server, {"GET", "k"}).text, "kept");
}

TEST_F(EmbeddedServerTest, ASecondOnTheSameDirectoryIsRefused) {
  auto server = Start();
  ASSERT_NE(server, nullptr);
  const auto second = EmbeddedServer::Start(directory_);
  ASSERT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(second.status().message(),
              AllOf(HasSubstr(directory_), HasSubstr("used by another fairgate-server"),
                    HasSubstr(absl::StrCat("process ", getpid()))));
  EXPECT_EQ(Ask(*server, {"PING"}).text, "PONG") << "the first is none the worse";
}

TEST_F(EmbeddedServerTest, WhatACrashLeavesBehindIsNoObstacle) {
  std::ofstream(directory_ + "/lock") << "4194303\n";  // no such process
  std::ofstream(directory_ + "/valkey.sock") << "";
  ASSERT_NE(Start(), nullptr);
  std::ofstream(directory_ + "/lock") << "not a number";
  ASSERT_NE(Start(), nullptr);
}

TEST_F(EmbeddedServerTest, AStoreThatDiesIsStartedAgain) {
  auto server = Start();
  ASSERT_NE(server, nullptr);
  Ask(*server, {"SET", "k", "kept"});
  const pid_t first = server->pid();
  kill(first, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return server->pid() > 0 && server->pid() != first; }));
  EXPECT_EQ(Ask(*server, {"GET", "k"}).text, "kept");
}

// Run by the test below as a process of its own.
TEST_F(EmbeddedServerTest, DISABLED_ServesUntilItIsKilled) {
  auto server = EmbeddedServer::Start(std::getenv(kDirectoryVariable));
  ASSERT_TRUE(server.ok());
  Ask(**server, {"SET", "pid", absl::StrCat((*server)->pid())});
  std::ofstream(absl::StrCat(std::getenv(kDirectoryVariable), "/ready")) << "";
  pause();
}

TEST_F(EmbeddedServerTest, AKilledServerTakesItsStoreAlong) {
  setenv(kDirectoryVariable, directory_.c_str(), 1);
  std::string self = "/proc/self/exe";
  std::string filter = "--gtest_filter=*DISABLED_ServesUntilItIsKilled";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* argv[] = {self.data(), filter.data(), disabled.data(), nullptr};
  pid_t server = 0;
  ASSERT_EQ(posix_spawn(&server, self.c_str(), nullptr, nullptr, argv, environ), 0);
  const bool ready = Eventually([&] { return std::filesystem::exists(directory_ + "/ready"); });
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  ASSERT_TRUE(ready);
  // At once: the next one must wait until the old store has let go of the directory.
  auto next = Start();
  ASSERT_NE(next, nullptr);
  const std::string store = Ask(*next, {"GET", "pid"}).text;
  ASSERT_FALSE(store.empty());
  EXPECT_TRUE(IsGone(std::stoi(store))) << "valkey-server outlived its server";
}

TEST_F(EmbeddedServerTest, WithoutValkeyItSaysWhatToDo) {
  FakeBinary("", "");
  const auto server = EmbeddedServer::Start(directory_);
  EXPECT_TRUE(absl::IsNotFound(server.status())) << server.status();
  EXPECT_THAT(server.status().message(),
              AllOf(HasSubstr("valkey-server"), HasSubstr("--store=valkey://host:port")));
}

TEST_F(EmbeddedServerTest, AStoreThatEndsAtOnceNamesItsLog) {
  FakeBinary("valkey-server", "#!/bin/sh\nexit 1\n");
  const auto server = EmbeddedServer::Start(directory_);
  EXPECT_TRUE(absl::IsFailedPrecondition(server.status())) << server.status();
  EXPECT_THAT(server.status().message(), HasSubstr(directory_ + "/valkey.log"));
}

TEST_F(EmbeddedServerTest, DirectoriesOfNoUse) {
  const std::string file = directory_ + "/file";
  std::ofstream(file) << "";
  for (const std::string& bad : {file, file + "/below", directory_ + std::string(120, 'x')}) {
    const auto server = EmbeddedServer::Start(bad);
    EXPECT_TRUE(absl::IsFailedPrecondition(server.status())) << bad << ": " << server.status();
    EXPECT_THAT(server.status().message(), HasSubstr(bad));
  }
}

}  // namespace
}  // namespace fairgate
