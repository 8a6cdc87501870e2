#include "server/service/proto_convert.h"

#include "gtest/gtest.h"

namespace fairgate {
namespace {

TEST(ToProto, Durations) {
  EXPECT_EQ(ToProto(absl::Milliseconds(1500)).seconds(), 1);
  EXPECT_EQ(ToProto(absl::Milliseconds(1500)).nanos(), 500000000);
  EXPECT_EQ(ToProto(absl::Milliseconds(-1500)).seconds(), -1);
  EXPECT_EQ(ToProto(absl::Milliseconds(-1500)).nanos(), -500000000);
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315576000000);
}

TEST(ToProto, Grant) {
  Decision decision;
  decision.outcome = Grant{{{"requests", 1}, {"tokens", 250.5}}, absl::Seconds(60), true};
  decision.request_id = "wf/1";
  decision.attempt = 3;
  decision.config_version = 7;
  const v1::AdmitResponse response = ToProto(decision);
  EXPECT_EQ(response.request_id(), "wf/1");
  EXPECT_EQ(response.attempt(), 3u);
  EXPECT_EQ(response.config_version(), 7u);
  EXPECT_FALSE(response.degraded());
  EXPECT_EQ(response.grant().debited().at("tokens"), 250.5);
  EXPECT_EQ(response.grant().lease_expires_in().seconds(), 60);
  EXPECT_TRUE(response.grant().repeated());
}

TEST(ToProto, DeferIsNeverShorterThanAMillisecondAndRoundedUp) {
  Decision decision;
  Defer defer;
  defer.retry_delay = absl::Microseconds(1200);
  defer.projected_wait = absl::Microseconds(1200);
  defer.limited_by = {{Layer::kTarget, "tokens"}, {Layer::kTenant, ""}};
  defer.place = 4;
  decision.outcome = defer;
  v1::AdmitResponse response = ToProto(decision);
  EXPECT_EQ(response.defer().retry_delay().nanos(), 2000000);
  EXPECT_EQ(response.defer().projected_wait().nanos(), 1200000);
  ASSERT_EQ(response.defer().limited_by_size(), 2);
  EXPECT_EQ(response.defer().limited_by(0).layer(), v1::LAYER_TARGET);
  EXPECT_EQ(response.defer().limited_by(0).dimension(), "tokens");
  EXPECT_EQ(response.defer().limited_by(1).layer(), v1::LAYER_TENANT);
  EXPECT_EQ(response.defer().place(), 4u);
  std::get<Defer>(decision.outcome).retry_delay = absl::ZeroDuration();
  response = ToProto(decision);
  EXPECT_EQ(response.defer().retry_delay().nanos(), 1000000);
}

TEST(ToProto, EveryRejectReason) {
  const std::pair<RejectReason, v1::RejectReason> cases[] = {
      {RejectReason::kCostExceedsCap, v1::REJECT_REASON_COST_EXCEEDS_CAP},
      {RejectReason::kTargetDisabled, v1::REJECT_REASON_TARGET_DISABLED},
      {RejectReason::kDeadlineUnreachable, v1::REJECT_REASON_DEADLINE_UNREACHABLE},
      {RejectReason::kAlreadySettled, v1::REJECT_REASON_ALREADY_SETTLED},
      {RejectReason::kSuperseded, v1::REJECT_REASON_SUPERSEDED},
      {RejectReason::kTenantNotListed, v1::REJECT_REASON_TENANT_NOT_LISTED},
  };
  for (const auto& [from, to] : cases) {
    Decision decision;
    decision.outcome = Reject{from, "why", "tokens", absl::Seconds(2)};
    const v1::AdmitResponse response = ToProto(decision);
    EXPECT_EQ(response.reject().reason(), to);
    EXPECT_EQ(response.reject().message(), "why");
    EXPECT_EQ(response.reject().dimension(), "tokens");
    EXPECT_EQ(response.reject().earliest().seconds(), 2);
  }
}

TEST(ToProto, ReleaseReports) {
  ReleaseReport report;
  report.result = ReleaseResult::kExtended;
  report.refunded = {{"tokens", -12}};
  report.lease_expires_in = absl::Seconds(30);
  v1::ReleaseResponse response = ToProto(report);
  EXPECT_EQ(response.result(), v1::RELEASE_RESULT_EXTENDED);
  EXPECT_EQ(response.refunded().at("tokens"), -12);
  EXPECT_EQ(response.lease_expires_in().seconds(), 30);
  report.result = ReleaseResult::kQueued;
  report.degraded = true;
  response = ToProto(report);
  EXPECT_EQ(response.result(), v1::RELEASE_RESULT_QUEUED);
  EXPECT_TRUE(response.degraded());
  EXPECT_FALSE(response.has_lease_expires_in());
}

}  // namespace
}  // namespace fairgate
