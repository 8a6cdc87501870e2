#include "server/valkey/backoff.h"

#include <gtest/gtest.h>

namespace fairgate {
namespace {

void ExpectStep(Backoff& backoff, int64_t ms) {
  const absl::Duration wait = backoff.Next();
  EXPECT_GE(wait, absl::Milliseconds(ms) / 2) << ms;
  EXPECT_LE(wait, absl::Milliseconds(ms)) << ms;
}

TEST(BackoffTest, DoublesToItsMostAndStartsAnew) {
  Backoff backoff(absl::Milliseconds(50), absl::Milliseconds(300));
  for (int round = 0; round < 100; ++round) {
    for (const int64_t ms : {50, 100, 200, 300, 300}) ExpectStep(backoff, ms);
    backoff.Reset();
  }
}

TEST(BackoffTest, GatesThatLostTheStoreTogetherDoNotComeBackTogether) {
  Backoff one(absl::Seconds(1), absl::Seconds(1));
  Backoff other(absl::Seconds(1), absl::Seconds(1));
  int same = 0;
  for (int i = 0; i < 100; ++i) same += one.Next() == other.Next() ? 1 : 0;
  EXPECT_LT(same, 10);
}

}  // namespace
}  // namespace fairgate
