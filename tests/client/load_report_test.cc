#include "client/cli/load_report.h"

#include <gtest/gtest.h>

namespace fairgate::cli {
namespace {

TEST(LoadReportTest, QuantileIsTheNearestRank) {
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.95), 4);
  EXPECT_EQ(Quantile({9}, 0), 9);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

TEST(LoadReportTest, RowsHoldRatesSharesAndCalls) {
  FlowTallies tallies;
  tallies[{"hot", "a"}] = {.admits = 60, .grants = 30, .waits_s = {0.1}};
  tallies[{"hot", "b"}] = {.admits = 10, .grants = 10, .waits_s = {0.2}};
  const auto json = ToJson(tallies, absl::Seconds(10));
  const auto& flow = json.fields().at("flows").list_value().values(0).struct_value().fields();
  EXPECT_EQ(flow.at("tenant").string_value(), "a");
  EXPECT_DOUBLE_EQ(flow.at("grants_per_second").number_value(), 3);
  EXPECT_DOUBLE_EQ(flow.at("share").number_value(), 0.75);
  EXPECT_DOUBLE_EQ(flow.at("calls_per_grant").number_value(), 2);
  const auto& hot = json.fields().at("classes").list_value().values(0).struct_value().fields();
  EXPECT_DOUBLE_EQ(hot.at("jain").number_value(), 0.8);
  EXPECT_NE(ToTable(tallies, absl::Seconds(10)).find("75.0%"), std::string::npos);
}

}  // namespace
}  // namespace fairgate::cli
