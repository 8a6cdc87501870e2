#include "fairgate/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "tests/client/fake_gate.h"
#include "tests/client/questions.h"

namespace fairgate::client {
namespace {

using ::fairgate::testing::DeadAddress;
using ::fairgate::testing::DeferFor;
using ::fairgate::testing::FakeGate;
using ::fairgate::testing::RejectFor;
using ::testing::SizeIs;

TEST(ClientTest, GrantIsSettledOnceWithWhatWasSaidLast) {
  FakeGate gate;
  Client client(Patient(gate));
  {
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok()) << admission.status();
    EXPECT_EQ(admission->outcome(), Outcome::kGranted);
    EXPECT_TRUE(admission->may_call());
    EXPECT_FALSE(admission->degraded());
    EXPECT_EQ(admission->answer().lease_expires_in, absl::Seconds(60));
    admission->NotSent();
    admission->Settle({{"tokens", 640}});
    EXPECT_THAT(gate.releases(), SizeIs(0));
    EXPECT_FALSE(admission->report());
    const auto report = admission->Release();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->result, ReleaseResult::kSettled);
    EXPECT_EQ(report->refunded.at("tokens"), 260);
    EXPECT_EQ(admission->report()->result, ReleaseResult::kSettled);
    EXPECT_EQ(admission->Release()->result, ReleaseResult::kUnspecified);
  }
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_EQ(gate.releases()[0].request_id(), "job7/1");
  EXPECT_EQ(gate.releases()[0].settle().outcome(), v1::CALL_OUTCOME_OK);
  EXPECT_EQ(gate.releases()[0].settle().actual().at("tokens"), 640);
  EXPECT_EQ(gate.admits()[0].cost().at("tokens"), 900);
}

TEST(ClientTest, DestructorReleasesAsUnknownOnceEvenAfterMoves) {
  FakeGate gate;
  Client client(Patient(gate));
  {
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok());
    Admission moved = *std::move(admission);
    EXPECT_TRUE(moved.may_call());
  }
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_EQ(gate.releases()[0].settle().outcome(), v1::CALL_OUTCOME_UNSPECIFIED);
  EXPECT_TRUE(gate.releases()[0].settle().actual().empty());
}

TEST(ClientTest, NotSentIsSaidInsteadOfUnknown) {
  FakeGate gate;
  Client client(Patient(gate));
  {
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok());
    admission->NotSent();
  }
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_EQ(gate.releases()[0].settle().outcome(), v1::CALL_OUTCOME_NOT_SENT);
}

TEST(ClientTest, AdmissionOutlivesItsClient) {
  FakeGate gate;
  {
    auto client = std::make_unique<Client>(Patient(gate));
    auto admission = client->Admit(Question());
    ASSERT_TRUE(admission.ok());
    client.reset();
  }
  EXPECT_THAT(gate.releases(), SizeIs(1));
}

TEST(ClientTest, CheckOnlyLeavesNothingToRelease) {
  FakeGate gate;
  Client client(Patient(gate));
  AdmitOptions question = Question();
  question.check_only = true;
  { ASSERT_TRUE(client.Admit(question).ok()); }
  EXPECT_THAT(gate.releases(), SizeIs(0));
  EXPECT_EQ(gate.admits()[0].mode(), v1::ADMIT_MODE_CHECK_ONLY);
}

TEST(ClientTest, DeferAndRejectAreTold) {
  FakeGate gate;
  Client client(Patient(gate));
  gate.Answer(DeferFor(std::chrono::milliseconds(250)));
  gate.Answer(RejectFor(v1::REJECT_REASON_COST_EXCEEDS_CAP));
  const auto deferred = client.Admit(Question());
  ASSERT_TRUE(deferred.ok());
  EXPECT_EQ(deferred->outcome(), Outcome::kDeferred);
  EXPECT_FALSE(deferred->may_call());
  EXPECT_EQ(deferred->retry_delay(), absl::Milliseconds(250));
  EXPECT_EQ(deferred->answer().place, 3u);
  ASSERT_THAT(deferred->answer().limited_by, SizeIs(1));
  EXPECT_EQ(deferred->answer().limited_by[0].layer, "target");
  const auto rejected = client.Admit(Question());
  ASSERT_TRUE(rejected.ok());
  EXPECT_EQ(rejected->outcome(), Outcome::kRejected);
  EXPECT_EQ(rejected->reject().reason, RejectReason::kCostExceedsCap);
  EXPECT_EQ(Name(rejected->reject().reason), "COST_EXCEEDS_CAP");
  EXPECT_EQ(client.counters().deferred, 1u);
  EXPECT_EQ(client.counters().rejected, 1u);
}

TEST(ClientTest, AdmitWaitAsksAgainWithTheSameIdUntilGranted) {
  FakeGate gate;
  Client client(Patient(gate));
  gate.Answer(DeferFor(std::chrono::milliseconds(20)));
  gate.Answer(DeferFor(std::chrono::milliseconds(20)));
  AdmitOptions question = Question();
  question.request_id.clear();
  const absl::Time start = absl::Now();
  question.deadline = start + absl::Seconds(100);
  const auto admission = client.AdmitWait(question);
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kGranted);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(40));
  const auto admits = gate.admits();
  ASSERT_THAT(admits, SizeIs(3));
  EXPECT_FALSE(admits[0].request_id().empty());
  EXPECT_EQ(admits[0].request_id(), admits[2].request_id());
  EXPECT_GE(admits[0].deadline().seconds(), 90);
  EXPECT_LT(admits[0].deadline().seconds(), 100);
  EXPECT_LT(
      admits[2].deadline().nanos() + 1e9 * static_cast<double>(admits[2].deadline().seconds()),
      admits[0].deadline().nanos() + 1e9 * static_cast<double>(admits[0].deadline().seconds()));
}

TEST(ClientTest, AdmitWaitGivesItsPlaceUpWhenTheWaitIsTooLong) {
  FakeGate gate;
  gate.Answer(DeferFor(std::chrono::milliseconds(900)));
  {
    Client client(Patient(gate));
    const auto admission = client.AdmitWait(Question(), absl::Milliseconds(100));
    ASSERT_TRUE(admission.ok());
    EXPECT_EQ(admission->outcome(), Outcome::kDeferred);
  }  // waits for what is sent in the background
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_TRUE(gate.releases()[0].has_withdraw());
}

TEST(ClientTest, AdmitWaitEndsWithTheContextsDeadline) {
  FakeGate gate;
  gate.Answer(DeferFor(std::chrono::milliseconds(900)));
  {
    Client client(Patient(gate));
    const auto admission = client.AdmitWait(Question(), absl::InfiniteDuration(),
                                            {.deadline = absl::Now() + absl::Milliseconds(300)});
    ASSERT_TRUE(admission.ok());
    EXPECT_EQ(admission->reject().reason, RejectReason::kDeadlineUnreachable);
    EXPECT_TRUE(admission->degraded());
  }
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_TRUE(gate.releases()[0].has_withdraw());
}

TEST(ClientTest, StoppedBeforeAskingOrWhileAsked) {
  FakeGate gate;
  gate.Delay(std::chrono::milliseconds(400));
  {
    Client client(Patient(gate));
    std::stop_source caller;
    std::jthread canceller([&gate, &caller] {
      while (gate.admits().empty()) absl::SleepFor(absl::Milliseconds(5));
      caller.request_stop();
    });
    const CallContext context{.stop = caller.get_token()};
    EXPECT_EQ(client.Admit(Question(), context).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(client.AdmitWait(Question(), absl::Seconds(9), context).status().code(),
              absl::StatusCode::kCancelled);
    EXPECT_EQ(client.counters().errors, 0u);
  }
  EXPECT_THAT(gate.admits(), SizeIs(1));
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_TRUE(gate.releases()[0].has_withdraw());
}

TEST(ClientTest, DeadAddressFailsOpenAndIsCounted) {
  ClientOptions options;
  options.address = DeadAddress();
  Client client(options);
  const auto admission = client.Admit(Question());
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->outcome(), Outcome::kFailedOpen);
  EXPECT_TRUE(admission->may_call());
  EXPECT_TRUE(admission->degraded());
  EXPECT_EQ(client.counters().failed_open, 1u);
}

TEST(ClientTest, DeadAddressIsAnErrorWithoutFailOpen) {
  ClientOptions options;
  options.address = DeadAddress();
  options.fail_open = false;
  options.rpc_timeout = absl::Seconds(10);
  Client client(options);
  const absl::Status status = client.Admit(Question()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsUnreachable(status));
  EXPECT_EQ(client.counters().errors, 1u);
}

TEST(ClientTest, UnavailableWithoutTheGatesMarkFailsOpen) {
  FakeGate gate;
  Client client(Patient(gate));
  gate.Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no healthy upstream"));
  const auto admission = client.Admit(Question());
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kFailedOpen);
  EXPECT_EQ(client.counters().failed_open, 1u);
}

TEST(ClientTest, TimeoutFailsOpenAndIsSettledInCaseItWasGranted) {
  FakeGate gate;
  {
    ClientOptions options = Patient(gate);
    options.rpc_timeout = absl::Milliseconds(200);
    Client client(options);
    // Connects; on a busy machine not at once.
    while (client.Admit(Question())->failed_open()) absl::SleepFor(absl::Milliseconds(100));
    gate.Delay(std::chrono::milliseconds(500));
    AdmitOptions question = Question();
    question.request_id = "late";
    auto admission = client.Admit(question);
    ASSERT_TRUE(admission.ok());
    EXPECT_EQ(admission->outcome(), Outcome::kFailedOpen);
    admission->Settle({{"tokens", 640}});
    admission->Close();
    EXPECT_FALSE(admission->report());  // nobody waited for it
  }
  const auto releases = gate.releases();
  ASSERT_FALSE(releases.empty());
  EXPECT_EQ(releases.back().request_id(), "late");
  EXPECT_EQ(releases.back().settle().actual().at("tokens"), 640);
}

TEST(ClientTest, MaxHoldExtendsTheTimeout) {
  FakeGate gate;
  gate.Delay(std::chrono::milliseconds(300));
  ClientOptions options = Patient(gate);
  options.rpc_timeout = absl::Milliseconds(100);
  Client client(options);
  AdmitOptions question = Question();
  question.max_hold = absl::Seconds(10);
  const auto admission = client.Admit(question);
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kGranted);
}

TEST(ClientTest, OpenBreakerCostsNothingAndClosesAgain) {
  FakeGate gate;
  gate.Delay(std::chrono::milliseconds(400));
  ClientOptions options = Patient(gate);
  options.rpc_timeout = absl::Milliseconds(60);
  options.breaker_failures = 2;
  options.breaker_cooldown = absl::Milliseconds(700);
  Client client(options);
  // Nothing is released in the background, which this gate would answer at once.
  AdmitOptions question = Question();
  question.check_only = true;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.Admit(question).ok());
  const size_t asked = gate.admits().size();

  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) {
    const auto admission = client.Admit(question);
    ASSERT_TRUE(admission.ok());
    ASSERT_EQ(admission->outcome(), Outcome::kFailedOpen);
  }
  // A thousand time-outs would be a minute.
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(600));
  EXPECT_EQ(gate.admits().size(), asked);
  EXPECT_EQ(client.counters().breaker_skips, 1000u);

  gate.Delay(std::chrono::milliseconds(0));
  Outcome outcome = Outcome::kFailedOpen;
  for (int i = 0; i < 50 && outcome != Outcome::kGranted; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    outcome = client.Admit(question)->outcome();
  }
  EXPECT_EQ(outcome, Outcome::kGranted);
}

TEST(ClientTest, AnAnswerOfTheGateIsNeverAPermission) {
  FakeGate gate;
  Client client(Patient(gate));
  for (const grpc::StatusCode code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::NOT_FOUND, grpc::StatusCode::INTERNAL,
        grpc::StatusCode::INVALID_ARGUMENT}) {
    gate.Fail(SaidByGate(code, "the policy is to stay closed"));
    const auto admission = client.Admit(Question());
    EXPECT_EQ(static_cast<int>(admission.status().code()), static_cast<int>(code));
    EXPECT_FALSE(IsUnreachable(admission.status()));
  }
  EXPECT_EQ(client.counters().failed_open, 0u);
}

TEST(ClientTest, ExtendKeepsTheLeaseOpen) {
  FakeGate gate;
  Client client(Patient(gate));
  {
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok());
    EXPECT_TRUE(admission->Extend(absl::Seconds(90), {{"tokens", 1000}}).ok());
    admission->Settle({{"tokens", 1500}});
    admission->Close();
    EXPECT_EQ(admission->Extend().status().code(), absl::StatusCode::kFailedPrecondition);
  }
  ASSERT_THAT(gate.releases(), SizeIs(2));
  EXPECT_EQ(gate.releases()[0].extend().lease_ttl().seconds(), 90);
}

TEST(ClientTest, MoveAssignmentClosesWhatWasThere) {
  FakeGate gate;
  Client client(Patient(gate));
  AdmitOptions question = Question();
  question.tells_sent = true;
  {
    auto first = client.Admit(question);
    question.request_id = "job7/2";
    auto second = client.Admit(question);
    second->Sent();
    *first = *std::move(second);
    ASSERT_THAT(gate.releases(), SizeIs(1));
  }
  ASSERT_THAT(gate.releases(), SizeIs(2));
  EXPECT_EQ(gate.releases()[0].request_id(), "job7/1");
  EXPECT_EQ(gate.releases()[0].settle().outcome(), v1::CALL_OUTCOME_NOT_SENT);
  EXPECT_EQ(gate.releases()[1].request_id(), "job7/2");
  EXPECT_EQ(gate.releases()[1].settle().outcome(), v1::CALL_OUTCOME_UNSPECIFIED);
}

TEST(ClientTest, OwnUsageDimensionsSettleFromAResponse) {
  FakeGate gate;
  ClientOptions options = Patient(gate);
  options.usage_dimensions = {{"work", Usage::kTotalTokens}};
  Client client(options);
  AdmitOptions question = Question();
  question.cost = {{"work", 50}, {"input_tokens", 20}};
  auto admission = client.Admit(question);
  ASSERT_TRUE(admission.ok());
  const Settlement settlement = admission->SettleResponse(
      {.status = 200, .body = R"({"usage": {"prompt_tokens": 9, "total_tokens": 12}})"});
  EXPECT_EQ(settlement.outcome, CallOutcome::kOk);
  EXPECT_EQ(settlement.actual, (Amounts{{"work", 12}, {"input_tokens", 9}}));
}

TEST(ClientTest, UnixSocketThatIsDeadLeavesNothingToSettle) {
  ClientOptions options;
  options.address = "unix:/nonexistent/fairgate.sock";
  options.rpc_timeout = absl::Seconds(10);
  std::atomic<int> releases = 0;
  options.on_release = [&releases](const ReleaseEvent&) { ++releases; };
  {
    Client client(options);
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok());
    EXPECT_TRUE(admission->failed_open());
    EXPECT_EQ(admission->Release()->result, ReleaseResult::kUnspecified);
  }
  EXPECT_EQ(releases, 0);
}

}  // namespace
}  // namespace fairgate::client
