#include "server/metrics/fairness.h"

#include "gtest/gtest.h"
#include "server/core/jain_index.h"

namespace fairgate {
namespace {

FairFlow Flow(size_t class_index, double weight, std::vector<double> profile) {
  FairFlow flow;
  flow.class_index = class_index;
  flow.weight = weight;
  flow.profile = std::move(profile);
  return flow;
}

TEST(JainIndex, KnownValues) {
  EXPECT_DOUBLE_EQ(JainIndex({}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({0, 0}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(JainIndex({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex({1, 2}), 0.9);
}

// Ghodsi et al., "Dominant Resource Fairness", 2011, section 4.1: 9 CPUs and 18 GB; A's tasks take
// <1 CPU, 4 GB>, B's <3 CPUs, 1 GB>. Both get a dominant share of 2/3.
TEST(MaxMinShares, ExampleOfTheDrfPaper) {
  const double a_cpu = (1.0 / 9) / (4.0 / 18);
  const double b_memory = (1.0 / 18) / (3.0 / 9);
  const auto shares =
      MaxMinShares({1}, {Flow(0, 1, {a_cpu, 1}), Flow(0, 1, {1, b_memory})}, {1, 1});
  EXPECT_NEAR(shares[0], 2.0 / 3, 1e-9);
  EXPECT_NEAR(shares[1], 2.0 / 3, 1e-9);
}

TEST(MaxMinShares, ClassesByWeightWhateverTheirCrowd) {
  const auto shares =
      MaxMinShares({3, 1}, {Flow(0, 1, {1}), Flow(1, 1, {1}), Flow(1, 1, {1})}, {1});
  EXPECT_NEAR(shares[0], 0.75, 1e-9);
  EXPECT_NEAR(shares[1], 0.125, 1e-9);
  EXPECT_NEAR(shares[2], 0.125, 1e-9);
}

TEST(MaxMinShares, WhatAFlowLeavesStaysInItsClassFirst) {
  std::vector<FairFlow> flows = {Flow(0, 1, {1}), Flow(0, 1, {1}), Flow(1, 1, {1})};
  flows[0].demand = 0.1;
  auto shares = MaxMinShares({1, 1}, flows, {1});
  EXPECT_NEAR(shares[0], 0.1, 1e-9);
  EXPECT_NEAR(shares[1], 0.4, 1e-9);
  EXPECT_NEAR(shares[2], 0.5, 1e-9);
  flows[1].demand = 0.1;
  shares = MaxMinShares({1, 1}, flows, {1});
  EXPECT_NEAR(shares[2], 0.8, 1e-9);
}

TEST(MaxMinShares, AFullDimensionStopsOnlyWhoUsesIt) {
  const auto shares =
      MaxMinShares({1}, {Flow(0, 1, {1, 0}), Flow(0, 1, {1, 0}), Flow(0, 1, {0, 1})}, {1, 1});
  EXPECT_NEAR(shares[0], 0.5, 1e-9);
  EXPECT_NEAR(shares[1], 0.5, 1e-9);
  EXPECT_NEAR(shares[2], 1, 1e-9);
}

TEST(MaxMinShares, BackgroundGetsWhatOthersLeave) {
  std::vector<FairFlow> flows = {Flow(0, 1, {1}), Flow(1, 1, {1})};
  EXPECT_NEAR(MaxMinShares({1, 0}, flows, {1})[1], 0, 1e-9);
  flows[0].demand = 0.7;
  EXPECT_NEAR(MaxMinShares({1, 0}, flows, {1})[1], 0.3, 1e-9);
}

v1::InspectTargetResponse Snapshot(double high_service, double low_service, double tenant_a,
                                   double tenant_b, uint64_t high_waiters = 5) {
  v1::InspectTargetResponse state;
  v1::ClassState* const high = state.add_classes();
  high->set_name("high");
  high->set_weight(3);
  high->set_waiters(high_waiters);
  high->set_service_total_seconds(high_service);
  v1::ClassState* const low = state.add_classes();
  low->set_name("low");
  low->set_weight(1);
  low->set_waiters(5);
  low->set_service_total_seconds(low_service);
  for (const auto& [tenant, service] : {std::pair("a", tenant_a), std::pair("b", tenant_b)}) {
    v1::FlowState* const flow = state.add_flows();
    flow->set_tenant(tenant);
    flow->set_priority("low");
    flow->set_weight(1);
    flow->set_waiters(1);
    flow->set_service_total_seconds(service);
  }
  return state;
}

TEST(MeasureFairness, IdealIsOne) {
  const Fairness fairness = MeasureFairness(Snapshot(1, 1, 0, 0), Snapshot(4, 2, 0.5, 0.5));
  EXPECT_NEAR(fairness.class_achievement.at("high"), 1, 1e-9);
  EXPECT_NEAR(fairness.class_achievement.at("low"), 1, 1e-9);
  EXPECT_NEAR(fairness.jain_index, 1, 1e-9);
}

TEST(MeasureFairness, SaysWhoLost) {
  const Fairness fairness = MeasureFairness(Snapshot(0, 0, 0, 0), Snapshot(2, 2, 1, 0));
  EXPECT_NEAR(fairness.class_achievement.at("high"), 2.0 / 3, 1e-9);
  EXPECT_NEAR(fairness.class_achievement.at("low"), 2, 1e-9);
  EXPECT_NEAR(fairness.jain_index, 0.5, 1e-9);
}

TEST(MeasureFairness, WhoHadNothingWaitingLosesNothing) {
  const Fairness fairness = MeasureFairness(Snapshot(0, 0, 0, 0, 0), Snapshot(1, 3, 1, 1, 0));
  EXPECT_EQ(fairness.class_achievement.count("high"), 0u);
  EXPECT_NEAR(fairness.class_achievement.at("low"), 1, 1e-9);
}

TEST(MeasureFairness, FirstLookSaysNothing) {
  const Fairness fairness = MeasureFairness({}, Snapshot(1, 3, 1, 1));
  EXPECT_TRUE(fairness.class_achievement.empty());
  EXPECT_EQ(fairness.jain_index, 1);
}

}  // namespace
}  // namespace fairgate
