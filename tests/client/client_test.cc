#include "fairgate/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/fake_gate.h"

namespace fairgate::client {
namespace {

using ::fairgate::testing::DeadAddress;
using ::fairgate::testing::DeferFor;
using ::fairgate::testing::FakeGate;
using ::fairgate::testing::RejectFor;
using ::testing::SizeIs;

// Generous, so that a busy machine does not look like a dead gate.
ClientOptions Patient(const FakeGate& gate) {
  ClientOptions options;
  options.address = gate.address();
  options.rpc_timeout = absl::Seconds(10);
  return options;
}

AdmitOptions Question() {
  AdmitOptions question;
  question.target = "openai";
  question.tenant = "acme";
  question.cost = {{"tokens", 900}};
  question.request_id = "job7/1";
  return question;
}

// As the server's statuses are.
grpc::Status SaidByGate(grpc::StatusCode code, const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_domain("fairgate.io");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  return {code, message, details.SerializeAsString()};
}

TEST(ClientTest, GrantIsSettledOnceWithWhatWasUsed) {
  FakeGate gate;
  Client client(Patient(gate));
  {
    auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok()) << admission.status();
    EXPECT_EQ(admission->outcome(), Outcome::kGranted);
    EXPECT_TRUE(admission->may_call());
    EXPECT_FALSE(admission->degraded());
    EXPECT_EQ(admission->lease_expires_in(), absl::Seconds(60));
    const auto settled = admission->Settle({{"tokens", 640}});
    ASSERT_TRUE(settled.ok()) << settled.status();
    EXPECT_EQ(settled->result, "RELEASE_RESULT_SETTLED");
    EXPECT_EQ(settled->refunded.at("tokens"), 260);
    EXPECT_TRUE(admission->Settle({{"tokens", 1}}).ok());
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
    EXPECT_TRUE(admission->NotSent().ok());
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
  EXPECT_EQ(deferred->place(), 3u);
  const auto rejected = client.Admit(Question());
  ASSERT_TRUE(rejected.ok());
  EXPECT_EQ(rejected->outcome(), Outcome::kRejected);
  EXPECT_EQ(rejected->reject().reason, "REJECT_REASON_COST_EXCEEDS_CAP");
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
  question.deadline = absl::Seconds(100);
  const absl::Time start = absl::Now();
  const auto admission = client.AdmitWait(question);
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kGranted);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(40));
  const auto admits = gate.admits();
  ASSERT_THAT(admits, SizeIs(3));
  EXPECT_FALSE(admits[0].request_id().empty());
  EXPECT_EQ(admits[0].request_id(), admits[2].request_id());
  EXPECT_EQ(admits[0].deadline().seconds(), 100);
  EXPECT_LT(admits[2].deadline().seconds(), 100);
}

TEST(ClientTest, AdmitWaitGivesItsPlaceUpWhenTheWaitIsTooLong) {
  FakeGate gate;
  Client client(Patient(gate));
  gate.Answer(DeferFor(std::chrono::milliseconds(900)));
  const auto admission = client.AdmitWait(Question(), absl::Milliseconds(100));
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kDeferred);
  ASSERT_THAT(gate.releases(), SizeIs(1));
  EXPECT_TRUE(gate.releases()[0].has_withdraw());
}

TEST(ClientTest, DeadAddressFailsOpenAndIsCounted) {
  ClientOptions options;
  options.address = DeadAddress();
  Client client(options);
  const auto admission = client.Admit(Question());
  ASSERT_TRUE(admission.ok()) << admission.status();
  EXPECT_EQ(admission->outcome(), Outcome::kDegraded);
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
  EXPECT_EQ(client.Admit(Question()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(client.counters().errors, 1u);
}

TEST(ClientTest, UnavailableWithoutTheGatesMarkFailsOpen) {
  FakeGate gate;
  Client client(Patient(gate));
  gate.Fail(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no healthy upstream"));
  const auto admission = client.Admit(Question());
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kDegraded);
  EXPECT_EQ(client.counters().failed_open, 1u);
}

TEST(ClientTest, TimeoutFailsOpenAndIsSettledInCaseItWasGranted) {
  FakeGate gate;
  ClientOptions options = Patient(gate);
  Client warm(options);
  ASSERT_TRUE(warm.Admit(Question()).ok());
  gate.Delay(std::chrono::milliseconds(500));
  options.rpc_timeout = absl::Milliseconds(100);
  Client client(options);
  const size_t releases_before = gate.releases().size();
  auto admission = client.Admit(Question());
  ASSERT_TRUE(admission.ok());
  EXPECT_EQ(admission->outcome(), Outcome::kDegraded);
  EXPECT_TRUE(admission->Settle({{"tokens", 640}}).ok());
  EXPECT_THAT(gate.releases(), SizeIs(releases_before + 1));
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
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.Admit(Question()).ok());
  const size_t asked = gate.admits().size();

  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) {
    const auto admission = client.Admit(Question());
    ASSERT_TRUE(admission.ok());
    ASSERT_EQ(admission->outcome(), Outcome::kDegraded);
  }
  // A thousand time-outs would be a minute.
  EXPECT_LT(absl::Now() - start, absl::Milliseconds(600));
  EXPECT_EQ(gate.admits().size(), asked);
  EXPECT_EQ(client.counters().breaker_skips, 1000u);

  gate.Delay(std::chrono::milliseconds(0));
  Outcome outcome = Outcome::kDegraded;
  for (int i = 0; i < 50 && outcome != Outcome::kGranted; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    outcome = client.Admit(Question())->outcome();
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
    EXPECT_TRUE(admission->Settle({{"tokens", 1500}}).ok());
    EXPECT_EQ(admission->Extend().code(), absl::StatusCode::kFailedPrecondition);
  }
  ASSERT_THAT(gate.releases(), SizeIs(2));
  EXPECT_EQ(gate.releases()[0].extend().lease_ttl().seconds(), 90);
}

}  // namespace
}  // namespace fairgate::client
