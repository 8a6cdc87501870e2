#include "server/core/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

namespace fairgate {
namespace {

v1::AdmitRequest Good() {
  v1::AdmitRequest request;
  request.set_target("t");
  request.set_tenant("acme");
  return request;
}

std::string FirstField(const v1::AdmitRequest& request) {
  const auto result = ValidateAdmit(request);
  const auto* violations = std::get_if<std::vector<FieldViolation>>(&result);
  return violations == nullptr ? "" : violations->front().field;
}

TEST(ValidateTest, C10AmountsThatAreNoAmounts) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double amount : {-1.0, std::nan(""), inf, -inf, std::pow(2.0, 63)}) {
    v1::AdmitRequest request = Good();
    (*request.mutable_cost())["tokens"] = amount;
    EXPECT_EQ(FirstField(request), "cost[\"tokens\"]") << amount;
    v1::ReleaseRequest release;
    release.set_target("t");
    release.set_request_id("a");
    (*release.mutable_settle()->mutable_actual())["tokens"] = amount;
    EXPECT_TRUE(std::holds_alternative<std::vector<FieldViolation>>(ValidateRelease(release)));
  }
  v1::AdmitRequest zero = Good();
  (*zero.mutable_cost())["tokens"] = 0;
  EXPECT_EQ(FirstField(zero), "");
}

TEST(ValidateTest, NamesAndIds) {
  for (const std::string& name :
       {std::string(), std::string(129, 'a'), std::string("a\nb"), std::string("\xff"),
        std::string("\xc0\x80"), std::string("a\0b", 3), std::string("\xed\xa0\x80")}) {
    v1::AdmitRequest request = Good();
    request.set_tenant(name);
    EXPECT_EQ(FirstField(request), "tenant");
  }
  v1::AdmitRequest request = Good();
  request.set_tenant("Größe 東京");
  EXPECT_EQ(FirstField(request), "");
  request.set_request_id(std::string(257, 'x'));
  EXPECT_EQ(FirstField(request), "request_id");
  std::string wide;
  for (int i = 0; i < 85; ++i) wide += "東";
  request.set_request_id(wide);
  EXPECT_EQ(FirstField(request), "");
}

TEST(ValidateTest, DurationsInBounds) {
  v1::AdmitRequest request = Good();
  request.mutable_max_hold()->set_seconds(-1);
  EXPECT_EQ(FirstField(request), "max_hold");
  request = Good();
  request.mutable_timer_floor()->set_seconds(3601);
  EXPECT_EQ(FirstField(request), "timer_floor");
  request = Good();
  request.mutable_deadline()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(FirstField(request), "deadline");
  request = Good();
  request.mutable_deadline()->set_seconds(-5);
  EXPECT_EQ(FirstField(request), "") << "a deadline in the past is a question, not a fault";
}

TEST(ValidateTest, AnOmittedIdIsMade) {
  const auto a = std::get<AdmitQuery>(ValidateAdmit(Good()));
  const auto b = std::get<AdmitQuery>(ValidateAdmit(Good()));
  EXPECT_EQ(a.request_id.size(), 32U);
  EXPECT_NE(a.request_id, b.request_id);
  EXPECT_EQ(a.attempt, 1U);
}

TEST(ValidateTest, ReleaseNeedsAnAction) {
  v1::ReleaseRequest release;
  release.set_target("t");
  release.set_request_id("a");
  const auto result = ValidateRelease(release);
  EXPECT_EQ(std::get<std::vector<FieldViolation>>(result).front().field, "action");
}

TEST(ValidateTest, RateLimitsInBounds) {
  const auto check = [](const std::string& name, std::optional<double> remaining,
                        std::optional<int64_t> reset_s) -> std::string {
    v1::ReleaseRequest release;
    release.set_target("t");
    release.set_request_id("a");
    v1::RateLimitStatus& told = (*release.mutable_settle()->mutable_rate_limits())[name];
    if (remaining) told.set_remaining(*remaining);
    if (reset_s) told.mutable_reset()->set_seconds(*reset_s);
    const auto result = ValidateRelease(release);
    const auto* faults = std::get_if<std::vector<FieldViolation>>(&result);
    return faults ? faults->front().field : "";
  };
  EXPECT_EQ(check("tokens", 0, 86400), "");
  EXPECT_EQ(check("tokens", std::nullopt, std::nullopt), "");
  for (const double remaining : {-1.0, 1.1e12, std::nan("")}) {  // -1: a placeholder of some APIs
    EXPECT_EQ(check("tokens", remaining, 1), R"(settle.rate_limits["tokens"].remaining)");
  }
  EXPECT_EQ(check("tokens", 1, -1), R"(settle.rate_limits["tokens"].reset)");
  EXPECT_EQ(check("tokens", 1, 86401), R"(settle.rate_limits["tokens"].reset)");
  EXPECT_EQ(check("", 1, 1), "settle.rate_limits");
}

TEST(ValidateTest, MapsByDimensionAreShortAndComeOrdered) {
  v1::AdmitRequest admit = Good();
  v1::ReleaseRequest release;
  release.set_target("t");
  release.set_request_id("a");
  for (char name = 'p'; name >= 'a'; --name) {
    (*admit.mutable_cost())[std::string(1, name)] = 1;
    (*release.mutable_settle()->mutable_rate_limits())[std::string(1, name)].set_remaining(1);
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto asked = ValidateAdmit(admit);
  ASSERT_TRUE(std::holds_alternative<AdmitQuery>(asked));
  const Amounts& cost = std::get<AdmitQuery>(asked).cost;
  EXPECT_EQ(cost.size(), 16u);
  EXPECT_TRUE(std::is_sorted(cost.begin(), cost.end(), by_name));
  const auto released = ValidateRelease(release);
  ASSERT_TRUE(std::holds_alternative<ReleaseQuery>(released));
  const auto& told = std::get<ReleaseQuery>(released).rate_limits;
  EXPECT_EQ(told.size(), 16u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end(), by_name));

  (*admit.mutable_cost())["q"] = 1;
  EXPECT_EQ(FirstField(admit), "cost");
  (*release.mutable_settle()->mutable_rate_limits())["q"].set_remaining(1);
  const auto refused = ValidateRelease(release);
  const auto* faults = std::get_if<std::vector<FieldViolation>>(&refused);
  ASSERT_NE(faults, nullptr);
  EXPECT_EQ(faults->front().field, "settle.rate_limits");
}

}  // namespace
}  // namespace fairgate
