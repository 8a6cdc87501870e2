// Runs the program as a user does.
#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client/fake_gate.h"

namespace fairgate {
namespace {

using ::fairgate::testing::DeadAddress;
using ::fairgate::testing::DeferFor;
using ::fairgate::testing::FakeGate;
using ::fairgate::testing::RejectFor;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Ran {
  int code = -1;
  std::string output;  // stdout, and with "2>&1" in the arguments stderr
};

Ran RunCli(const std::string& arguments) {
  Ran ran;
  std::FILE* pipe = popen((FAIRGATE_CLI_PATH " " + arguments + " </dev/null").c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer;
  size_t size = 0;
  while ((size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    ran.output.append(buffer.data(), size);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  return message;
}

class CliTest : public ::testing::Test {
 protected:
  Ran Ask(const std::string& arguments) {
    return RunCli("--gate " + gate_.address() + " " + arguments);
  }

  FakeGate gate_;
};

TEST_F(CliTest, GrantIsZero) {
  const Ran ran =
      Ask("admit openai acme --cost tokens=900 --cost requests=2 --id job7/1 "
          "--class hot --deadline 90s --timer-floor 1s --upper-bound");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("GRANT"));
  ASSERT_THAT(gate_.admits(), SizeIs(1));
  const v1::AdmitRequest request = gate_.admits()[0];
  EXPECT_EQ(request.target(), "openai");
  EXPECT_EQ(request.tenant(), "acme");
  EXPECT_EQ(request.priority(), "hot");
  EXPECT_EQ(request.request_id(), "job7/1");
  EXPECT_EQ(request.cost().at("tokens"), 900);
  EXPECT_EQ(request.cost().at("requests"), 2);
  EXPECT_EQ(request.deadline().seconds(), 90);
  EXPECT_EQ(request.timer_floor().seconds(), 1);
  EXPECT_EQ(request.cost_kind(), v1::COST_KIND_UPPER_BOUND);
}

TEST_F(CliTest, DeferIsTen) {
  gate_.Answer(DeferFor(std::chrono::milliseconds(250)));
  const Ran ran = Ask("admit openai acme");
  EXPECT_EQ(ran.code, 10) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("target/tokens"));
  EXPECT_THAT(ran.output, HasSubstr("250ms"));
}

TEST_F(CliTest, RejectIsEleven) {
  gate_.Answer(RejectFor(v1::REJECT_REASON_COST_EXCEEDS_CAP));
  const Ran ran = Ask("admit openai acme");
  EXPECT_EQ(ran.code, 11) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr(": cost_exceeds_cap: "));
}

TEST_F(CliTest, WaitKeepsTheIdUntilGranted) {
  gate_.Answer(DeferFor(std::chrono::milliseconds(10)));
  const Ran ran = Ask("--json admit openai acme --wait");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(FromJson<v1::AdmitResponse>(ran.output).has_grant());
  ASSERT_THAT(gate_.admits(), SizeIs(2));
  EXPECT_EQ(gate_.admits()[1].request_id(), "made");
}

TEST_F(CliTest, JsonIsTheProtos) {
  const auto admitted =
      FromJson<v1::AdmitResponse>(Ask("admit --cost tokens=1 openai acme --json").output);
  EXPECT_EQ(admitted.grant().debited().at("requests"), 1);
  const auto released = FromJson<v1::ReleaseResponse>(Ask("--json release openai id").output);
  EXPECT_EQ(released.result(), v1::RELEASE_RESULT_SETTLED);
  const auto targets = FromJson<v1::ListTargetsResponse>(Ask("--json targets").output);
  EXPECT_THAT(targets.targets(), SizeIs(1));
  const auto target = FromJson<v1::InspectTargetResponse>(Ask("--json inspect openai").output);
  EXPECT_EQ(target.config_version(), 7u);
  const auto health = FromJson<google::protobuf::Struct>(Ask("--json health").output);
  EXPECT_EQ(health.fields().at("status").string_value(), "SERVING");
}

TEST_F(CliTest, ReleaseSendsEachAction) {
  EXPECT_EQ(Ask("release openai a --actual tokens=640").code, 0);
  EXPECT_EQ(Ask("release openai b --attempt 2 --outcome rate_limited --retry-after 7s").code, 0);
  EXPECT_EQ(Ask("release openai c --withdraw").code, 0);
  EXPECT_EQ(Ask("release openai d --extend 30s --actual tokens=5").code, 0);
  const auto releases = gate_.releases();
  ASSERT_THAT(releases, SizeIs(4));
  EXPECT_EQ(releases[0].settle().actual().at("tokens"), 640);
  EXPECT_EQ(releases[0].settle().outcome(), v1::CALL_OUTCOME_OK);
  EXPECT_EQ(releases[1].attempt(), 2u);
  EXPECT_EQ(releases[1].settle().outcome(), v1::CALL_OUTCOME_RATE_LIMITED);
  EXPECT_EQ(releases[1].settle().retry_after().seconds(), 7);
  EXPECT_TRUE(releases[2].has_withdraw());
  EXPECT_EQ(releases[3].extend().lease_ttl().seconds(), 30);
}

TEST_F(CliTest, AReleaseThatDidNothingIsOne) {
  EXPECT_THAT(Ask("release openai a").output, HasSubstr("settled"));
  const Ran ran = Ask("release openai never-asked");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.output, HasSubstr("unknown"));
}

TEST_F(CliTest, BadUsageAndBadInputAreTwo) {
  EXPECT_EQ(Ask("admit openai 2>&1").code, 2);
  EXPECT_EQ(Ask("admit openai acme --cost tokens 2>&1").code, 2);
  EXPECT_EQ(Ask("admit openai acme --deadline soon 2>&1").code, 2);
  EXPECT_EQ(Ask("--timeout never targets 2>&1").code, 2);
  EXPECT_EQ(Ask("unheard-of 2>&1").code, 2);
  EXPECT_EQ(Ask("inspect nosuch 2>&1").code, 2);
  gate_.Fail(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "cost[gold]: no such dimension"));
  const Ran ran = Ask("admit openai acme --cost gold=1 2>&1");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("cost[gold]"));
}

TEST_F(CliTest, OtherTroubleIsOne) {
  gate_.Fail(grpc::Status(grpc::StatusCode::INTERNAL, "a script failed"));
  EXPECT_EQ(Ask("admit openai acme 2>&1").code, 1);
}

TEST_F(CliTest, HealthTellsServingFromNotServing) {
  EXPECT_EQ(Ask("health").code, 0);
  gate_.server().GetHealthCheckService()->SetServingStatus(false);
  const Ran ran = Ask("health");
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.output, HasSubstr("NOT_SERVING"));
}

TEST_F(CliTest, LoadObeysDefersAndPrintsItsTable) {
  gate_.Answer(DeferFor(std::chrono::milliseconds(20)));  // to the question before the load
  for (int i = 0; i < 4; ++i) gate_.Answer(DeferFor(std::chrono::milliseconds(20)));
  const Ran ran =
      Ask("--json load openai --tenants a,b --classes hot,batch --workers 1 "
          "--duration 400ms --call-time 50ms --cost tokens=10");
  EXPECT_EQ(ran.code, 0) << ran.output;
  const auto report = FromJson<google::protobuf::Struct>(ran.output);
  EXPECT_THAT(report.fields().at("flows").list_value().values(), SizeIs(4));
  const auto& total = report.fields().at("total").struct_value().fields();
  EXPECT_GE(total.at("grants").number_value(), 4);
  EXPECT_EQ(total.at("admits").number_value(), total.at("grants").number_value() + 4);
  EXPECT_EQ(total.at("errors").number_value(), 0);
  EXPECT_EQ(gate_.admits()[0].mode(), v1::ADMIT_MODE_CHECK_ONLY);
  EXPECT_THAT(Ask("load openai --duration 50ms").output, HasSubstr("Jain"));
}

TEST(CliWithoutGateTest, UnreachableIsThree) {
  for (const char* command : {"admit openai acme", "release openai id", "targets", "health",
                              "inspect openai", "load openai --duration 100ms"}) {
    const Ran ran = RunCli("--gate " + DeadAddress() + " " + command + " 2>&1");
    EXPECT_EQ(ran.code, 3) << command << ": " << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(DeadAddress()));
  }
}

TEST(CliWithoutGateTest, EnvironmentNamesTheGate) {
  ASSERT_EQ(setenv("FAIRGATE_GATE", "127.0.0.1:2", 1), 0);
  EXPECT_THAT(RunCli("targets 2>&1").output, HasSubstr("127.0.0.1:2"));
  unsetenv("FAIRGATE_GATE");
}

TEST(CliWithoutGateTest, HelpTellsExitCodesAndExamples) {
  const Ran ran = RunCli("--help");
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.output, HasSubstr("10 deferred"));
  EXPECT_THAT(ran.output, HasSubstr("fairgate admit openai-prod acme"));
}

#ifdef FAIRGATE_CLI_APPLY
class CliApplyTest : public CliTest {
 protected:
  void SetUp() override {
    std::ofstream(file_) << "targets:\n"
                            "  - name: openai\n"
                            "    dimensions:\n"
                            "      - {name: requests, limit: 20, window: 1s}\n";
  }
  void TearDown() override { std::filesystem::remove(file_); }

  const std::string file_ =
      (std::filesystem::temp_directory_path() / ("policy-" + std::to_string(getpid()) + ".yaml"))
          .string();
};

TEST_F(CliApplyTest, DryRunShowsAndAppliesNothing) {
  const Ran ran = Ask("apply --dry-run -f " + file_);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("dimensions[requests].limit: 10 -> 20"));
  ASSERT_THAT(gate_.configures(), SizeIs(1));
  EXPECT_TRUE(gate_.configures()[0].validate_only());
}

TEST_F(CliApplyTest, YesAppliesToTheVersionThatWasShown) {
  const Ran ran = Ask("apply --yes -f " + file_);
  EXPECT_EQ(ran.code, 0) << ran.output;
  ASSERT_THAT(gate_.configures(), SizeIs(2));
  EXPECT_FALSE(gate_.configures()[1].validate_only());
  EXPECT_EQ(gate_.configures()[1].expected_version(), 7u);
  EXPECT_EQ(gate_.configures()[1].policy().dimensions(0).limit(), 20);
}

TEST_F(CliApplyTest, NobodyToAskAppliesNothing) {
  EXPECT_EQ(Ask("apply -f " + file_ + " 2>&1").code, 2);
  EXPECT_THAT(gate_.configures(), SizeIs(1));
}

TEST_F(CliApplyTest, BadFileIsTwo) {
  std::ofstream(file_) << "targets:\n  - name: openai\n    dimensoins: []\n";
  EXPECT_EQ(Ask("apply --yes -f " + file_ + " 2>&1").code, 2);
  EXPECT_EQ(Ask("apply --yes -f /nonexistent.yaml 2>&1").code, 2);
  EXPECT_THAT(gate_.configures(), SizeIs(0));
}
#endif  // FAIRGATE_CLI_APPLY

}  // namespace
}  // namespace fairgate
