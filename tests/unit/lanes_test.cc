#include "server/store/lanes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fairgate {
namespace {

Question Named(const std::string& name) { return {name, absl::InfiniteFuture(), {}}; }

std::vector<std::string> Names(const std::vector<Question>& batch) {
  std::vector<std::string> names;
  for (const Question& question : batch) names.push_back(question.argument);
  return names;
}

using Strings = std::vector<std::string>;

TEST(Lanes, ALoneQuestionNeverWaits) {
  Lanes lanes;
  EXPECT_EQ(Names(lanes.Add("t", Named("a"))), Strings{"a"});
  EXPECT_TRUE(lanes.Next("t").empty());
  EXPECT_EQ(Names(lanes.Add("t", Named("b"))), Strings{"b"});
}

TEST(Lanes, WhoComesMeanwhileGoesTogetherInOrder) {
  Lanes lanes;
  for (size_t i = 0; i < Lanes::kEvaluationsMax; ++i) {
    EXPECT_EQ(lanes.Add("t", Named("first")).size(), 1U);
  }
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(lanes.Add("t", Named(name)).empty());
  EXPECT_EQ(Names(lanes.Next("t")), (Strings{"a", "b", "c"}));
  EXPECT_TRUE(lanes.Next("t").empty());
}

TEST(Lanes, AnEvaluationHasItsSize) {
  Lanes lanes;
  for (size_t i = 0; i < Lanes::kEvaluationsMax; ++i) lanes.Add("t", Named("first"));
  for (size_t i = 0; i < Lanes::kQuestionsMax + 3; ++i) lanes.Add("t", Named("more"));
  EXPECT_EQ(lanes.Next("t").size(), Lanes::kQuestionsMax);
  EXPECT_EQ(lanes.Next("t").size(), 3U);
}

TEST(Lanes, TargetsDoNotWaitForEachOther) {
  Lanes lanes;
  for (size_t i = 0; i < Lanes::kEvaluationsMax + 1; ++i) lanes.Add("t", Named("one"));
  EXPECT_EQ(Names(lanes.Add("other", Named("a"))), Strings{"a"});
  EXPECT_TRUE(lanes.Next("other").empty());
  EXPECT_EQ(Names(lanes.Next("t")), Strings{"one"});
}

}  // namespace
}  // namespace fairgate
