#include "server/gate/degraded_mode.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(500000);

StoredPolicy TenPerMinute(v1::StoreLossMode mode) {
  StoredPolicy stored;
  stored.version = 3;
  stored.policy.set_name("t");
  stored.policy.set_on_store_loss(mode);
  auto* d = stored.policy.add_dimensions();
  d->set_name("requests");
  d->set_limit(10);
  d->mutable_window()->set_seconds(60);
  return stored;
}

AdmitQuery Call(int i) {
  AdmitQuery query;
  query.target = "t";
  query.tenant = "a";
  query.request_id = absl::StrCat("id", i);
  return query;
}

int Grants(DegradedMode& mode, int calls, absl::Time now) {
  int grants = 0;
  for (int i = 0; i < calls; ++i) {
    const auto decision = mode.Admit(Call(i), now);
    EXPECT_TRUE(decision.ok() && decision->degraded);
    grants += std::holds_alternative<Grant>(decision->outcome);
  }
  return grants;
}

TEST(DegradedModeTest, C29BoundedIsThisServersPartOfTheCap) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  mode.SetGates(2, kStart);
  EXPECT_EQ(Grants(mode, 20, kStart), 5);
  const auto deferred = mode.Admit(Call(5), kStart);
  EXPECT_EQ(std::get<Defer>(deferred->outcome).retry_delay, absl::Seconds(12));
  // ids that were granted stay granted, and twelve seconds hold one more
  EXPECT_EQ(Grants(mode, 20, kStart + absl::Seconds(12)), 6);
  uint64_t cursor = 0;
  const auto granted = mode.Granted(&cursor, 4, {});
  ASSERT_EQ(granted.size(), 4U);
  EXPECT_EQ(mode.Granted(&cursor, 4, {}).size(), 2U);
  EXPECT_TRUE(mode.Granted(&cursor, 4, {}).empty());
  // what could not be debited stays, in its place
  mode.Debited(granted[0]);
  mode.Debited(granted[0]);
  EXPECT_FALSE(mode.IsPending("t", "id0", 1));
  cursor = 0;
  const auto left = mode.Granted(&cursor, 10, {});
  ASSERT_EQ(left.size(), 5U);
  EXPECT_EQ(left[0].request_id, "id1");
  cursor = 0;
  EXPECT_TRUE(mode.Granted(&cursor, 10, {"t"}).empty());
}

TEST(DegradedModeTest, AServerThatMissedItsHeartbeatsKeepsItsPart) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  mode.SetGates(2, kStart);
  mode.SetGates(1, kStart + absl::Seconds(59));
  EXPECT_EQ(Grants(mode, 20, kStart + absl::Seconds(59)), 5);
  DegradedMode later;
  later.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  later.SetGates(2, kStart);
  later.SetGates(1, kStart + absl::Seconds(60));
  EXPECT_EQ(Grants(later, 20, kStart + absl::Seconds(60)), 10);
}

absl::Duration Wait(DegradedMode& mode, int i, absl::Time now, bool check_only = false) {
  AdmitQuery query = Call(i);
  query.check_only = check_only;
  const auto decision = mode.Admit(query, now);
  const auto* defer = std::get_if<Defer>(&decision->outcome);
  return defer != nullptr ? defer->retry_delay : absl::ZeroDuration();
}

TEST(DegradedModeTest, ACrowdIsSpreadByTheRate) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  EXPECT_EQ(Grants(mode, 10, kStart), 10);
  for (int n = 1; n <= 20; ++n) {
    EXPECT_EQ(Wait(mode, 100, kStart, /*check_only=*/true), n * absl::Seconds(6)) << "no place";
    EXPECT_EQ(Wait(mode, 10 + n, kStart), n * absl::Seconds(6));
  }
  // Asking early costs nothing and moves nobody.
  EXPECT_EQ(Wait(mode, 13, kStart + absl::Seconds(1)), absl::Seconds(17));
  EXPECT_EQ(Wait(mode, 99, kStart + absl::Seconds(1)), absl::Seconds(125));
  // Each is granted when its wait is over.
  for (int n = 1; n <= 20; ++n) {
    EXPECT_EQ(Wait(mode, 10 + n, kStart + n * absl::Seconds(6)), absl::ZeroDuration()) << n;
  }
}

TEST(DegradedModeTest, WhoIsDueIsNotRobbedByANewcomer) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  EXPECT_EQ(Grants(mode, 10, kStart), 10);
  EXPECT_EQ(Wait(mode, 11, kStart), absl::Seconds(6));
  const absl::Time late = kStart + absl::Milliseconds(6500);
  EXPECT_GT(Wait(mode, 12, late), absl::ZeroDuration()) << "the newcomer";
  EXPECT_EQ(Wait(mode, 11, late), absl::ZeroDuration());
}

TEST(DegradedModeTest, AWaiterThatNeverReturnsGivesItsPlaceBack) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  EXPECT_EQ(Grants(mode, 10, kStart), 10);
  EXPECT_EQ(Wait(mode, 11, kStart), absl::Seconds(6));
  EXPECT_EQ(Wait(mode, 12, kStart + absl::Seconds(9)), absl::ZeroDuration());
}

TEST(DegradedModeTest, OpenGrantsAndClosedAnswersUnavailable) {
  DegradedMode mode;
  EXPECT_EQ(mode.Admit(Call(0), kStart).status().code(), absl::StatusCode::kUnavailable);
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_OPEN));
  EXPECT_EQ(Grants(mode, 40, kStart), 40);
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_CLOSED));
  EXPECT_EQ(mode.Admit(Call(0), kStart).status().code(), absl::StatusCode::kUnavailable);
}

TEST(DegradedModeTest, WhatCanNeverPassIsRejected) {
  DegradedMode mode;
  mode.Learn(TenPerMinute(v1::STORE_LOSS_MODE_BOUNDED));
  AdmitQuery big = Call(0);
  big.cost = {{"requests", 11}};
  EXPECT_EQ(std::get<Reject>(mode.Admit(big, kStart)->outcome).reason,
            RejectReason::kCostExceedsCap);
}

}  // namespace
}  // namespace fairgate
