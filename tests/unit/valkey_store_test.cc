// The store on a stub: what is sent, what is sent again, and what each failure becomes.
#include "server/store/valkey_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <msgpack.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/store/keyspace.h"
#include "server/store/packer.h"
#include "tests/unit/resp_stub.h"

namespace fairgate {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;
using Answer = RespStub::Answer;
using Command = RespStub::Command;

std::string GrantBytes() {
  MapPacker map;
  map.Text("outcome", "grant");
  map.Map("debited", {{"requests", 1}});
  map.Integer("lease_us", 60000000);
  map.Integer("version", 7);
  map.Text("class", "default");
  return map.Finish();
}

std::string Array(const std::vector<std::string>& elements) {
  std::string wire = absl::StrCat("*", elements.size(), "\r\n");
  for (const std::string& element : elements) wire += RespStub::Bulk(element);
  return wire;
}

class ValkeyStoreTest : public testing::Test {
 protected:
  void Open(absl::Duration timeout) { Open(timeout, stub_); }
  void Open(absl::Duration timeout, const RespStub& stub) {
    ValkeyStoreOptions options;
    options.address = stub.address();
    options.timeout = timeout;
    store_ = std::make_unique<ValkeyStore>(std::move(options));
    ASSERT_TRUE(store_->WaitConnected(absl::Seconds(10)));
  }

  // Admit, with every evaluation answered by `wire`.
  absl::StatusOr<Decision> AdmitOn(const std::string& wire) {
    stub_.Handle([wire](const Command&, int) -> Answer { return {wire}; });
    if (store_ == nullptr) Open(absl::Seconds(20));
    return Admit();
  }
  absl::StatusOr<Decision> Admit() {
    AdmitQuery query;
    query.target = "t";
    query.tenant = "a";
    query.request_id = "id";
    std::promise<absl::StatusOr<Decision>> answer;
    store_->Admit(query, [&](absl::StatusOr<Decision> d) { answer.set_value(std::move(d)); });
    return answer.get_future().get();
  }
  size_t Sent(const char* verb) const {
    size_t count = 0;
    for (const Command& command : stub_.commands()) count += command[0] == verb;
    return count;
  }

  RespStub stub_;
  std::unique_ptr<ValkeyStore> store_;
};

TEST_F(ValkeyStoreTest, OneFunctionWithTheTargetsKeys) {
  const auto decision = AdmitOn(Array({GrantBytes()}));
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(std::holds_alternative<Grant>(decision->outcome));
  EXPECT_EQ(decision->config_version, 7U);
  ASSERT_EQ(stub_.commands().size(), 1U);
  const Command command = stub_.commands()[0];
  const std::vector<std::string> keys = TargetKeys("t");
  ASSERT_EQ(command.size(), keys.size() + 4);
  EXPECT_EQ(command[0], "FCALL");
  EXPECT_EQ(command[1], std::string(lua::kDecide.function));
  EXPECT_EQ(command[2], absl::StrCat(keys.size()));
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(command[3 + i], keys[i]);
}

TEST_F(ValkeyStoreTest, AMissingFunctionIsLoadedAndRunsOnce) {
  const auto loaded = std::make_shared<std::atomic<bool>>(false);
  stub_.Handle([loaded](const Command& c, int) -> Answer {
    if (c[0] == "FUNCTION") {
      *loaded = true;
      return {"$8\r\nfairgate\r\n"};
    }
    return {*loaded ? Array({GrantBytes()}) : "-ERR Function not found\r\n"};
  });
  Open(absl::Seconds(20));
  const auto decision = Admit();
  ASSERT_TRUE(decision.ok()) << decision.status();
  const auto commands = stub_.commands();
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[1], (Command{"FUNCTION", "LOAD", std::string(lua::kLibrary)}));
  EXPECT_EQ(commands[0], commands[2]) << "the same keys and argument";
}

TEST_F(ValkeyStoreTest, ALoadThatIsNotTakenEither) {
  const auto decision = AdmitOn("-ERR Function not found\r\n");
  EXPECT_TRUE(absl::IsInternal(decision.status())) << decision.status();
  EXPECT_EQ(stub_.commands().size(), 3U) << "an endless round";
}

TEST_F(ValkeyStoreTest, NothingElseIsSentAgain) {
  const std::string unavailable[] = {"LOADING loading", "READONLY a replica", "BUSY a script",
                                     "OOM memory",      "MOVED 1 h:1",        "ASK 1 h:1",
                                     "CLUSTERDOWN down"};
  for (const std::string& error : unavailable) {
    const auto decision = AdmitOn(absl::StrCat("-", error, "\r\n"));
    EXPECT_TRUE(absl::IsUnavailable(decision.status())) << error << ": " << decision.status();
    ASSERT_TRUE(store_->WaitConnected(absl::Seconds(10)));  // READONLY leaves the connection
  }
  EXPECT_EQ(Sent("FCALL"), std::size(unavailable));
  EXPECT_EQ(Sent("FUNCTION"), 0U);
}

TEST_F(ValkeyStoreTest, AScriptsErrorIsOurFaultAndNeverUnavailable) {
  for (const char* wire :
       {"-ERR user_script:12: attempt to index a nil value\r\n", "-WRONGTYPE key holds a list\r\n",
        "-NOPERM this user has no permissions\r\n", ":1\r\n", "$-1\r\n", "*1\r\n+grant\r\n",
        "$5\r\ngrant\r\n", "*0\r\n", "*1\r\n$0\r\n\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n",
        "*2\r\n$1\r\nx\r\n$1\r\nx\r\n"}) {
    const auto decision = AdmitOn(wire);
    EXPECT_TRUE(absl::IsInternal(decision.status())) << wire << ": " << decision.status();
  }
  EXPECT_EQ(Sent("FUNCTION"), 0U);
}

// Holds back the first evaluations, so that the questions after them share one.
class SharedEvaluationTest : public ValkeyStoreTest {
 protected:
  static constexpr size_t kQuestions = 5;
  static constexpr size_t kHeld = Lanes::kEvaluationsMax;

  // Asks for kHeld + kQuestions; the stub answers as `answer` says by the number of questions.
  std::vector<absl::Status> AskAll(std::function<std::string(size_t)> answer) {
    std::promise<void> all_asked;
    stub_.Handle([&, asked = all_asked.get_future().share(), first = true](const Command& command,
                                                                           int) mutable -> Answer {
      if (std::exchange(first, false)) asked.wait();
      return {answer(command.size() - 3 - TargetKeys("t").size())};
    });
    Open(absl::Seconds(20));
    std::vector<std::promise<absl::Status>> answers(kHeld + kQuestions);
    for (size_t i = 0; i < answers.size(); ++i) {
      AdmitQuery query;
      query.target = "t";
      query.request_id = absl::StrCat("id", i);
      store_->Admit(query, [&answers, i](absl::StatusOr<Decision> d) {
        answers[i].set_value(d.ok() && d->request_id != absl::StrCat("id", i)
                                 ? absl::InternalError("another's answer")
                                 : d.status());
      });
    }
    all_asked.set_value();
    std::vector<absl::Status> statuses;
    statuses.reserve(answers.size());
    for (std::promise<absl::Status>& a : answers) statuses.push_back(a.get_future().get());
    return statuses;
  }
};

TEST_F(SharedEvaluationTest, QuestionsOfATargetShareOneWhileOthersAreUnderWay) {
  const auto statuses =
      AskAll([](size_t n) { return Array(std::vector<std::string>(n, GrantBytes())); });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Sent("FCALL"), kHeld + 1);
}

TEST_F(SharedEvaluationTest, AFailureIsFoundByAskingForEachAlone) {
  const auto statuses = AskAll([](size_t n) {
    return n > 1 ? "-ERR user_function:12: attempt to index a nil value\r\n"
                 : Array({GrantBytes()});
  });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Sent("FCALL"), kHeld + 1 + kQuestions);
}

TEST_F(SharedEvaluationTest, AStoreThatCannotServeIsAskedOnce) {
  const auto statuses =
      AskAll([](size_t n) { return n > 1 ? "-OOM memory\r\n" : Array({GrantBytes()}); });
  for (size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_EQ(absl::IsUnavailable(statuses[i]), i >= kHeld) << statuses[i];
  }
  EXPECT_EQ(Sent("FCALL"), kHeld + 1);
}

TEST_F(ValkeyStoreTest, SilenceIsUnavailableInTime) {
  stub_.Handle([](const Command&, int) -> Answer { return {}; });
  Open(absl::Milliseconds(25));
  steady_clock::duration least = std::chrono::hours(1);
  const auto bound = std::chrono::milliseconds(45);
  for (int i = 0; i < 10 || (i < 50 && least > bound); ++i) {  // on a busy machine
    const auto start = steady_clock::now();
    EXPECT_TRUE(absl::IsUnavailable(Admit().status()));
    least = std::min(least, steady_clock::now() - start);
  }
  EXPECT_LE(least, bound);
}

// A decision's limit is one, not one for each of two sends.
TEST_F(ValkeyStoreTest, LoadingTheLibraryHasWhatIsLeftOfTheTime) {
  steady_clock::duration least = std::chrono::hours(1);
  const auto bound = std::chrono::milliseconds(240);
  for (int i = 0; i < 10 && least > bound; ++i) {  // on a busy machine
    RespStub slow;
    slow.Handle([](const Command& c, int) -> Answer {
      if (c[0] == "FUNCTION") return {};
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return {"-ERR Function not found\r\n"};
    });
    Open(absl::Milliseconds(200), slow);
    const auto start = steady_clock::now();
    EXPECT_TRUE(absl::IsUnavailable(Admit().status()));
    least = std::min(least, steady_clock::now() - start);
    store_.reset();
    EXPECT_EQ(slow.commands().size(), 3U);
  }
  EXPECT_LE(least, bound);
}

TEST_F(ValkeyStoreTest, PoliciesThatCannotBeReadAreNoTargets) {
  Open(absl::Seconds(20));
  const auto read = [&](const std::string& wire) {
    stub_.Handle([wire](const Command&, int) -> Answer { return {wire}; });
    std::promise<absl::StatusOr<StoredPolicy>> answer;
    store_->ReadPolicy("t", [&](absl::StatusOr<StoredPolicy> p) { answer.set_value(p); });
    return answer.get_future().get().status();
  };
  EXPECT_TRUE(absl::IsNotFound(read("*2\r\n$-1\r\n$-1\r\n")));
  EXPECT_TRUE(absl::IsInternal(read("*2\r\n$3\r\n\xff\xff\xff\r\n$1\r\n1\r\n")));
  EXPECT_TRUE(absl::IsInternal(read("*2\r\n$0\r\n\r\n$1\r\nx\r\n")));
  EXPECT_TRUE(absl::IsInternal(read(":1\r\n")));
  EXPECT_TRUE(absl::IsUnavailable(read("-LOADING loading\r\n")));
}

}  // namespace
}  // namespace fairgate
