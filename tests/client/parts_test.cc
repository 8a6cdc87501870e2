// The parts of the C++ client that need no gate. tests/conformance has what all clients share.
#include <gtest/gtest.h>

#include <string>

#include "fairgate/response.h"
#include "fairgate/tokens.h"

namespace fairgate::client {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1786136370);  // 2026-08-07T20:59:30Z

std::optional<absl::Duration> WaitOf(const std::string& text) {
  return SettlementOf({.status = 429, .headers = {{"Retry-After", text}}}, {}, kNow).retry_after;
}

TEST(RetryAfterTest, ReadsSpansNumbersAndDates) {
  EXPECT_EQ(WaitOf(" 1h2m3.5s "), absl::Hours(1) + absl::Minutes(2) + absl::Milliseconds(3500));
  EXPECT_EQ(WaitOf("0.0004"), absl::ZeroDuration());
  EXPECT_EQ(WaitOf("2d"), absl::Hours(24));
  EXPECT_EQ(WaitOf("1786136400"), absl::Seconds(30));
  EXPECT_EQ(WaitOf("1786136400500"), absl::Milliseconds(30500));
  EXPECT_EQ(WaitOf("2026-08-07T21:00:00.25Z"), absl::Milliseconds(30250));
  EXPECT_EQ(WaitOf("2026-08-07T21:00:00"), absl::Seconds(30));
  EXPECT_EQ(WaitOf("Friday, 07-Aug-26 21:00:00 GMT"), absl::Seconds(30));
  EXPECT_EQ(WaitOf("Fri Aug  7 21:00:00 2026"), absl::Seconds(30));
  EXPECT_EQ(WaitOf("Fri, 07 Aug 2026 23:00:00 +0200"), absl::Seconds(30));
}

TEST(RetryAfterTest, WhatIsNoWaitIsNone) {
  for (const char* text : {"", "-1", "+1", "1e3", "0x10", "1.", ".5", "5 s", "5x", "s", "ms", "nan",
                           "inf", "infinite-future", "infinite-past", "tomorrow", "5s5"}) {
    EXPECT_FALSE(WaitOf(text)) << text;
  }
}

TEST(ResponseTest, WhatIsNoJsonObjectTellsNothing) {
  for (const char* body : {"", "null", "[]", "{", "\"usage\"", "{\"usage\": [1]}",
                           "{\"usage\": {\"total_tokens\": \"5\"}}", "{\"usage\": {}} x", "\xff"}) {
    const Settlement settlement = SettlementOf({.status = 200, .body = body}, DefaultUsage(), kNow);
    EXPECT_EQ(settlement.outcome, CallOutcome::kOk);
    EXPECT_TRUE(settlement.actual.empty()) << body;
  }
}

TEST(ResponseTest, DeepJsonTellsNothing) {
  const std::string body = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_TRUE(SettlementOf({.status = 200, .body = body}, DefaultUsage(), kNow).actual.empty());
  EXPECT_TRUE(
      SettlementOf({.status = 200, .body = "{\"usage\": " + body + "}"}, DefaultUsage(), kNow)
          .actual.empty());
}

TEST(TokensTest, LongBodies) {
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(EstimateTokens("{\"prompt\": \"" + text + "\"}"), 1 << 18);
  std::string list = "\"abcd\"";
  for (int i = 1; i < 10000; ++i) list += ",\"abcd\"";
  EXPECT_EQ(EstimateTokens("{\"input\": [" + list + "]}"), 10000);
}

TEST(ResponseTest, FirstEventOfAStream) {
  const Settlement settlement = SettlementOf(
      {.body = R"({"type": "message_start", "message": {"usage": {"input_tokens": 25}}})"},
      {{"input_tokens", Usage::kInputTokens}}, kNow);
  EXPECT_EQ(settlement.outcome, CallOutcome::kOk);
  EXPECT_EQ(settlement.actual.at("input_tokens"), 25);
}

TEST(TokensTest, TextThatIsNoObjectIsAPrompt) {
  EXPECT_EQ(EstimateTokens("abcde"), 2);
  EXPECT_EQ(EstimateTokens("[\"ab\"]"), 2);
  EXPECT_EQ(EstimateTokens(""), 0);
}

TEST(TokensTest, CountsWithATokenizer) {
  Estimator estimator;
  estimator.count = [](absl::string_view text) { return static_cast<int64_t>(text.size()); };
  estimator.output = 7;
  EXPECT_EQ(estimator.Tokens(R"({"input": ["ab", "cde"], "n": 2})"), 5 + 14);
  EXPECT_EQ(estimator.Tokens(R"({"prompt": "ab", "max_tokens": -1, "n": 1.5})"), 2 + 7);
}

}  // namespace
}  // namespace fairgate::client
