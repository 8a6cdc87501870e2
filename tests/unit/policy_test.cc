#include "server/core/policy.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "server/settings/policy_file.h"

namespace fairgate {
namespace {

constexpr char kGood[] =
    "targets:\n"
    "  - name: llm\n"
    "    dimensions:\n"
    "      - {name: requests, limit: 600, window: 1m, window_model: continuous}\n"
    "      - {name: tokens, limit: 60000, window: 1m, sub_window: 1s}\n"
    "    classes:\n"
    "      - {name: p1, weight: 0.5}\n"
    "      - {name: p2, weight: 0.3, hard: true}\n"
    "      - {name: p3, weight: 0.2}\n";

v1::TargetPolicy Good() { return ParsePolicyFile(kGood, "f.yaml")->targets(0); }

std::string Error(const std::string& text) {
  const auto file = ParsePolicyFile(text, "f.yaml");
  return file.ok() ? "" : std::string(file.status().message());
}

TEST(PolicyFileTest, FaultsAreNamedWithFileAndLine) {
  EXPECT_EQ(Error("targets:\n  - name: a\n    colour: red\n").substr(0, 47),
            "f.yaml:3: targets[0].colour: unknown key; allow");
  EXPECT_EQ(
      Error("targets:\n  - name: a\n    dimensions:\n      - {name: r, limit: 5, window: 60}\n"),
      "f.yaml:4: targets[0].dimensions[0].window: must be a duration with a unit, for example "
      "250ms, 1s, 1m, 1h");
  EXPECT_EQ(
      Error("targets:\n  - name: a\n    dimensions:\n      - {name: r, limit: -5, window: 1s}\n"),
      "f.yaml:4: targets[a].dimensions[r].limit: must be 0 to 1e+12, got -5");
  EXPECT_EQ(Error(std::string(kGood) + "      - {name: p3, weight: -1}\n"),
            "f.yaml:10: targets[llm].classes[p3].name: \"p3\" stands there twice");
  EXPECT_EQ(Error(std::string(kGood) + "      - {name: p4, weight: -1}\n"),
            "f.yaml:10: targets[llm].classes[p4].weight: must be 0 to 1e+06, got -1");
  EXPECT_EQ(Error("targets:\n  - name: a\n    name: b\n"),
            "f.yaml:3: targets[0].name: stands there twice");
  EXPECT_EQ(Error("targets:\n  - name: a\n    discipline: fifo\n"),
            "f.yaml:3: targets[0].discipline: must be one of queue, buckets");
  EXPECT_NE(Error("targets: [\n"), "");
}

TEST(PolicyFileTest, TheExampleIsGood) {
  const char* source = std::getenv("FAIRGATE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const auto file = LoadPolicyFile(std::string(source) + "/config/policy.example.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->targets_size(), 2);
}

TEST(PolicyTest, CompilesWithDefaults) {
  const auto compiled = CompilePolicy(Good());
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->dims[0].model, "continuous");
  EXPECT_DOUBLE_EQ(compiled->dims[0].rate_fraction, 0.995);
  EXPECT_DOUBLE_EQ(compiled->dims[0].burst_fraction, 0.9);
  EXPECT_EQ(compiled->dims[1].model, "sliding");
  EXPECT_DOUBLE_EQ(compiled->dims[1].limit, 1000);
  EXPECT_EQ(compiled->dims[1].window_us, 1000000);
  EXPECT_EQ(compiled->default_class, "p3");
  EXPECT_DOUBLE_EQ(*compiled->classes[1].max_share, 0.3);
  EXPECT_EQ(compiled->lease_us, 60000000);
}

TEST(PolicyTest, EveryWindowModelHasAName) {
  const std::pair<v1::WindowModel, std::string> models[] = {
      {v1::WINDOW_MODEL_UNSPECIFIED, "sliding"},
      {v1::WINDOW_MODEL_CONTINUOUS, "continuous"},
      {v1::WINDOW_MODEL_FIXED, "fixed"},
      {v1::WINDOW_MODEL_SLIDING, "sliding"},
      {v1::WINDOW_MODEL_FIXED_LEARNT, "fixed_learnt"},
  };
  for (const auto& [model, name] : models) {
    v1::TargetPolicy policy = Good();
    policy.mutable_dimensions(0)->set_window_model(model);
    const auto compiled = CompilePolicy(policy);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->dims[0].model, name);
  }
}

TEST(PolicyTest, MergeTouchesWhatTheMaskNames) {
  v1::ConfigureRequest request;
  request.mutable_policy()->set_name("llm");
  auto* p1 = request.mutable_policy()->add_classes();
  p1->set_name("p1");
  p1->set_weight(0.9);
  request.mutable_update_mask()->add_paths("classes");
  request.mutable_remove()->add_classes("p2");
  const auto merged = MergePolicy(Good(), request);
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->dimensions_size(), 2);
  ASSERT_EQ(merged->classes_size(), 2);
  const auto changes = DiffPolicy(Good(), *merged);
  ASSERT_GE(changes.size(), 2U);
  EXPECT_EQ(changes[0].field(), "classes[p1].weight");
  EXPECT_EQ(changes[0].before(), "0.5");
  EXPECT_EQ(changes[0].after(), "0.9");
  EXPECT_TRUE(DiffPolicy(Good(), Good()).empty());
  request.mutable_update_mask()->add_paths("colour");
  EXPECT_EQ(MergePolicy(Good(), request).status().message(),
            "update_mask: TargetPolicy has no field \"colour\"");
}

}  // namespace
}  // namespace fairgate
