#include "server/settings/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "server/core/policy.h"
#include "server/settings/policy_file.h"

namespace fairgate {
namespace {

absl::StatusOr<ParsedSettings> Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "fairgate-server");
  return ParseSettings(static_cast<int>(args.size()), args.data());
}

class SettingsTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::string path = testing::TempDir() + "/settings_test.yaml";
    std::ofstream(path) << text;
    return path;
  }
  std::string Error(const std::string& text) {
    const std::string path = Write(text);
    const auto parsed = Parse({"--config", path.c_str()});
    return parsed.ok() ? "" : std::string(parsed.status().message()).substr(path.size());
  }
};

TEST_F(SettingsTest, FlagsWinOverTheFile) {
  const std::string path = Write("listen: 127.0.0.1:1\nhold_max: 3s\npolicy_file: p.yaml\n");
  const auto parsed = Parse({"--config", path.c_str(), "--listen", "127.0.0.1:2"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->settings.listen, "127.0.0.1:2");
  EXPECT_EQ(parsed->settings.hold_max, absl::Seconds(3));
  EXPECT_NE(parsed->settings.policy_file, "p.yaml") << "relative to the settings file";
  EXPECT_EQ(parsed->settings.store, "embedded");
}

TEST_F(SettingsTest, FaultsAreNamedWithFileAndLine) {
  EXPECT_EQ(Error("listen: a:1\ncolour: red\n").substr(0, 28), ":2: colour: unknown setting;");
  EXPECT_EQ(Error("listen: a:1\nlisten: b:1\n"), ":2: listen: stands there twice");
  EXPECT_EQ(Error("store_timeout: soon\n"),
            ":1: store_timeout: must be a duration from 1ms to 10s, got \"soon\"");
  EXPECT_EQ(Error("\npolicy_apply: never\n"),
            ":2: policy_apply: must be seed or always, got \"never\"");
  EXPECT_EQ(Error("test_clock_file: x\n").substr(0, 36), ":1: test_clock_file: unknown setting");
  EXPECT_NE(Error("listen: [\n"), "");
}

TEST_F(SettingsTest, TheExampleIsGood) {
  const char* source = std::getenv("FAIRGATE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string path = std::string(source) + "/config/server.yaml";
  const auto parsed = Parse({"--config", path.c_str()});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(LoadPolicyFile(parsed->settings.policy_file).ok());
}

v1::TargetPolicy OneLimit() {
  v1::TargetPolicy policy;
  policy.set_name("t");
  auto* d = policy.add_dimensions();
  d->set_name("requests");
  d->set_limit(10);
  d->mutable_window()->set_seconds(60);
  policy.set_default_tenant_weight(3);
  policy.mutable_lease_ttl()->set_seconds(5);
  return policy;
}

// Here rather than in policy_test.cc: one case of the contract each.
TEST(PolicyMergeTest, AMaskedFieldThatIsNotGivenIsCleared) {
  v1::ConfigureRequest request;
  request.mutable_policy()->set_name("t");
  request.mutable_update_mask()->add_paths("default_tenant_weight");
  request.mutable_update_mask()->add_paths("lease_ttl");
  const auto merged = MergePolicy(OneLimit(), request);
  ASSERT_TRUE(merged.ok());
  EXPECT_FALSE(merged->has_lease_ttl());
  EXPECT_FALSE(merged->has_default_tenant_weight());
  EXPECT_TRUE(ValidatePolicy(*merged).ok()) << ValidatePolicy(*merged);
}

TEST(PolicyMergeTest, NothingGivenIsDroppedSilently) {
  v1::ConfigureRequest request;
  request.mutable_policy()->set_name("t");
  request.mutable_policy()->set_default_tenant_weight(7);
  request.mutable_remove()->add_tenants("x");
  const auto merged = MergePolicy(OneLimit(), request);
  EXPECT_TRUE(!merged.ok() || merged->default_tenant_weight() == 7);
}

TEST(PolicyTest, AWindowBelowAMillisecondIsNamedInTheError) {
  v1::TargetPolicy policy = OneLimit();
  policy.mutable_dimensions(0)->mutable_window()->set_seconds(0);
  policy.mutable_dimensions(0)->mutable_window()->set_nanos(500000);
  EXPECT_EQ(std::string(ValidatePolicy(policy).message()),
            "dimensions[requests].window: must be 0.001 s to 86400 s, got 0.0005 s");
}

TEST(PolicyTest, BurstFractionsFallWithTheWindow) {
  v1::TargetPolicy policy = OneLimit();
  const auto burst = [&](int64_t seconds, v1::WindowModel model) {
    policy.mutable_dimensions(0)->mutable_window()->set_seconds(seconds);
    policy.mutable_dimensions(0)->set_window_model(model);
    return CompilePolicy(policy)->dims[0].burst_fraction;
  };
  EXPECT_DOUBLE_EQ(burst(1, v1::WINDOW_MODEL_FIXED), 0.2);
  EXPECT_DOUBLE_EQ(burst(60, v1::WINDOW_MODEL_FIXED), 0.05);
  EXPECT_DOUBLE_EQ(burst(3600, v1::WINDOW_MODEL_SLIDING), 0.03);
  EXPECT_DOUBLE_EQ(burst(60, v1::WINDOW_MODEL_CONTINUOUS), 0.9);
}

}  // namespace
}  // namespace fairgate
