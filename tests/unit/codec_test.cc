// What the scripts take and answer, through the codec's public functions alone.
#include "server/store/script_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <msgpack.hpp>
#include <random>
#include <string>

#include "server/store/packer.h"

namespace fairgate {
namespace {

msgpack::object_handle Unpack(const std::string& bytes) {
  size_t offset = 0;
  auto handle = msgpack::unpack(bytes.data(), bytes.size(), offset);
  EXPECT_EQ(offset, bytes.size());
  return handle;
}

std::map<std::string, msgpack::object> Fields(const msgpack::object_handle& handle) {
  return handle.get().as<std::map<std::string, msgpack::object>>();
}

AdmitQuery FullQuery() {
  AdmitQuery query;
  query.target = "t";
  query.tenant = "acme";
  query.priority = "high";
  query.cost = {{"requests", 1}, {"tokens", 1234.5678901234567}};
  query.upper_bound = true;
  query.request_id = std::string("wf\0/1", 5);
  query.attempt = 3;
  query.deadline = absl::Seconds(2);
  query.timer_floor = absl::Nanoseconds(1);
  query.max_hold = absl::Seconds(4);
  query.held = query.check_only = query.forced = true;
  return query;
}

TEST(CodecTest, AdmitSaysEverything) {
  const auto handle = Unpack(EncodeAdmit(FullQuery(), 17));
  const auto f = Fields(handle);
  EXPECT_EQ(f.at("tenant").as<std::string>(), "acme");
  EXPECT_EQ(f.at("class").as<std::string>(), "high");
  const auto cost = f.at("cost").as<std::map<std::string, double>>();
  EXPECT_EQ(cost.at("tokens"), 1234.5678901234567) << "every bit arrives";
  EXPECT_EQ(f.at("id").as<std::string>(), std::string("wf\0/1", 5));
  EXPECT_EQ(f.at("id").type, msgpack::type::STR) << "the store's decoder knows no bin";
  EXPECT_EQ(f.at("attempt").as<int>(), 3);
  EXPECT_EQ(f.at("deadline_us").as<int64_t>(), 2000000);
  EXPECT_EQ(f.at("timer_floor_us").as<int64_t>(), 1) << "rounded up";
  EXPECT_EQ(f.at("hold_us").as<int64_t>(), 4000000);
  for (const char* flag : {"bound", "held", "check", "force"}) EXPECT_TRUE(f.at(flag).as<bool>());
  EXPECT_EQ(f.at("clock_us").as<int64_t>(), 17);
}

TEST(CodecTest, AdmitLeavesOutWhatIsNotThere) {
  AdmitQuery query;
  query.tenant = "acme";
  const auto handle = Unpack(EncodeAdmit(query, std::nullopt));
  const auto f = Fields(handle);
  for (const char* absent :
       {"class", "deadline_us", "bound", "held", "check", "force", "clock_us"}) {
    EXPECT_FALSE(f.contains(absent)) << absent;
  }
}

TEST(CodecTest, ReleaseSaysEverything) {
  ReleaseQuery query;
  query.request_id = "id";
  query.attempt = 2;
  query.outcome = CallOutcome::kRateLimited;
  query.usage = {{"tokens", 0.1}};
  query.retry_after = absl::Milliseconds(1500);
  query.lease_ttl = absl::Seconds(90);
  query.rate_limits = {{"requests", {std::nullopt, absl::Seconds(12)}},
                       {"tokens", {0.0, absl::Nanoseconds(1)}}};
  const auto handle = Unpack(EncodeRelease(query, std::nullopt));
  const auto f = Fields(handle);
  EXPECT_EQ(f.at("action").as<std::string>(), "settle");
  EXPECT_EQ(f.at("outcome").as<std::string>(), "rate_limited");
  EXPECT_EQ((f.at("usage").as<std::map<std::string, double>>().at("tokens")), 0.1);
  EXPECT_EQ(f.at("retry_after_us").as<int64_t>(), 1500000);
  EXPECT_EQ(f.at("lease_us").as<int64_t>(), 90000000);
  using Told = std::map<std::string, std::map<std::string, double>>;
  EXPECT_EQ(f.at("rate_limits").as<Told>(),
            (Told{{"requests", {{"reset_us", 12e6}}},
                  {"tokens", {{"remaining", 0}, {"reset_us", 1}}}}));  // rounded up
  query.action = ReleaseAction::kWithdraw;
  const auto withdraw = Unpack(EncodeRelease(query, std::nullopt));
  EXPECT_EQ(Fields(withdraw).at("action").as<std::string>(), "withdraw");
  query.action = ReleaseAction::kExtend;
  const auto extend = Unpack(EncodeRelease(query, std::nullopt));
  EXPECT_EQ(Fields(extend).at("action").as<std::string>(), "extend");
}

TEST(CodecTest, ConfigureCarriesPolicyAndSource) {
  v1::TargetPolicy policy;
  policy.set_name("t");
  auto* d = policy.add_dimensions();
  d->set_name("requests");
  d->set_limit(60);
  d->mutable_window()->set_seconds(60);
  auto* tenant = policy.add_tenants();
  tenant->set_name("acme");
  tenant->set_weight(2.5);
  const std::string source = policy.SerializeAsString();
  const auto handle = Unpack(EncodeConfigure(*CompilePolicy(policy), source, 4, std::nullopt));
  const auto f = Fields(handle);
  EXPECT_EQ(f.at("source").as<std::string>(), source);
  EXPECT_EQ(f.at("expected_version").as<int>(), 4);
  const auto compiled = f.at("compiled").as<std::map<std::string, msgpack::object>>();
  const auto dims = compiled.at("dims").as<std::vector<std::map<std::string, msgpack::object>>>();
  ASSERT_EQ(dims.size(), 1U);
  EXPECT_EQ(dims[0].at("limit").as<double>(), 60);
  EXPECT_EQ(dims[0].at("window_us").as<int64_t>(), 60000000);
  using Tenants = std::map<std::string, std::map<std::string, msgpack::object>>;
  EXPECT_EQ(f.at("tenants").as<Tenants>().at("acme").at("weight").as<double>(), 2.5);
}

std::string GrantAnswer() {
  MapPacker map;
  map.Text("outcome", "grant");
  map.Map("debited", {{"requests", 1}, {"tokens", 0.1}});
  map.Integer("lease_us", 60000000);
  map.Flag("repeated", true);
  map.Integer("admits", 3);
  map.Integer("waited_us", 1500);
  map.Integer("first_us", 2500);
  map.Integer("version", 7);
  map.Text("class", "high");
  map.Integer("expired", 2);
  return map.Finish();
}

std::string Limits() {
  msgpack::sbuffer buffer;
  msgpack::pack(buffer, std::vector<std::vector<std::string>>{
                            {"target", "tokens"}, {"class", ""}, {"tenant"}});
  return {buffer.data(), buffer.size()};
}

std::string DeferAnswer(double delay_us = 12000) {
  MapPacker map;
  map.Text("outcome", "defer");
  map.Number("delay_us", delay_us);  // Lua packs whole numbers either way
  map.Integer("projected_us", 34000);
  map.Raw("limits", Limits());
  map.Integer("place", 4);
  map.Flag("hold", true);
  map.Integer("version", 7);
  map.Text("class", "high");
  return map.Finish();
}

std::string RejectAnswer(const std::string& reason = "deadline_unreachable") {
  MapPacker map;
  map.Text("outcome", "reject");
  map.Text("reason", reason);
  map.Text("message", "too late");
  map.Text("dimension", "tokens");
  map.Integer("earliest_us", 5000000);
  map.Integer("version", 7);
  map.Text("class", "high");
  return map.Finish();
}

TEST(CodecTest, AGrantIsRead) {
  const auto decision = DecodeAdmit(GrantAnswer());
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->config_version, 7U);
  EXPECT_FALSE(decision->degraded);
  EXPECT_EQ(decision->facts.priority, "high");
  EXPECT_EQ(decision->facts.admits, 3U);
  EXPECT_EQ(decision->facts.waited, absl::Microseconds(1500));
  const auto& grant = std::get<Grant>(decision->outcome);
  EXPECT_EQ(grant.lease_expires_in, absl::Seconds(60));
  EXPECT_TRUE(grant.repeated);
  std::map<std::string, double> debited(grant.debited.begin(), grant.debited.end());
  EXPECT_EQ(debited.at("tokens"), 0.1);
}

TEST(CodecTest, ADeferIsRead) {
  const auto decision = DecodeAdmit(DeferAnswer());
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_TRUE(decision->may_hold);
  const auto& defer = std::get<Defer>(decision->outcome);
  EXPECT_EQ(defer.retry_delay, absl::Milliseconds(12));
  EXPECT_EQ(defer.projected_wait, absl::Milliseconds(34));
  EXPECT_EQ(defer.place, 4U);
  ASSERT_EQ(defer.limited_by.size(), 3U);
  EXPECT_EQ(defer.limited_by[0].layer, Layer::kTarget);
  EXPECT_EQ(defer.limited_by[0].dimension, "tokens");
  EXPECT_EQ(defer.limited_by[2].layer, Layer::kTenant);
}

TEST(CodecTest, ARejectIsRead) {
  const std::map<std::string, RejectReason> reasons = {
      {"cost_exceeds_cap", RejectReason::kCostExceedsCap},
      {"target_disabled", RejectReason::kTargetDisabled},
      {"deadline_unreachable", RejectReason::kDeadlineUnreachable},
      {"already_settled", RejectReason::kAlreadySettled},
      {"superseded", RejectReason::kSuperseded},
      {"tenant_not_listed", RejectReason::kTenantNotListed}};
  for (const auto& [text, reason] : reasons) {
    const auto decision = DecodeAdmit(RejectAnswer(text));
    ASSERT_TRUE(decision.ok()) << text;
    const auto& reject = std::get<Reject>(decision->outcome);
    EXPECT_EQ(reject.reason, reason);
    EXPECT_EQ(reject.earliest, absl::Seconds(5));
    EXPECT_EQ(reject.dimension, "tokens");
  }
}

TEST(CodecTest, FailuresThatAreNoFaults) {
  MapPacker none;
  none.Text("outcome", "no_target");
  EXPECT_TRUE(absl::IsNotFound(DecodeAdmit(none.Finish()).status()));
  MapPacker invalid;
  invalid.Text("outcome", "invalid");
  invalid.Text("field", "cost[\"x\"]");
  invalid.Text("message", "no such dimension");
  const auto status = DecodeAdmit(invalid.Finish()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "cost[\"x\"]: no such dimension");
}

// A fault of ours must never read as a verdict.
TEST(CodecTest, WhatIsMalformedIsInternal) {
  const double inf = std::numeric_limits<double>::infinity();
  std::map<std::string, std::string> bad;
  bad["empty"] = "";
  bad["a nil"] = "\xc0";
  bad["an integer"] = "\x01";
  bad["a list"] = "\x91\x01";
  bad["no outcome"] = MapPacker().Finish();
  bad["trailing bytes"] = GrantAnswer() + "x";
  bad["never used byte"] = "\xc1";
  bad["an unknown reason"] = RejectAnswer("because");
  bad["a delay of 0"] = DeferAnswer(0);
  bad["a negative delay"] = DeferAnswer(-1000);
  bad["a broken delay"] = DeferAnswer(1500.5);
  bad["an endless delay"] = DeferAnswer(inf);
  bad["no number"] = DeferAnswer(std::nan(""));
  bad["beyond 2^53"] = DeferAnswer(1e17);
  MapPacker unknown;
  unknown.Text("outcome", "perhaps");
  bad["an unknown outcome"] = unknown.Finish();
  MapPacker number;
  number.Integer("outcome", 1);
  bad["a number as outcome"] = number.Finish();
  MapPacker bare;
  bare.Text("outcome", "grant");
  bad["a grant of nothing"] = bare.Finish();
  bad["a map far too long"] = "\xdf\xff\xff\xff\xff";
  bad["nested without end"] = std::string(100000, '\x91');
  for (const auto& [what, bytes] : bad) {
    const auto decision = DecodeAdmit(bytes);
    EXPECT_TRUE(absl::IsInternal(decision.status())) << what << ": " << decision.status();
    EXPECT_FALSE(DecodeRelease(bytes).ok()) << what;
    EXPECT_FALSE(DecodeConfigure(bytes).ok()) << what;
    EXPECT_FALSE(DecodeInspect(bytes).ok()) << what;
  }
}

TEST(CodecTest, EveryCutOfAnAnswerIsInternal) {
  for (const std::string& whole : {GrantAnswer(), DeferAnswer(), RejectAnswer()}) {
    ASSERT_TRUE(DecodeAdmit(whole).ok());
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_TRUE(absl::IsInternal(DecodeAdmit(whole.substr(0, size)).status())) << size;
    }
  }
}

TEST(CodecTest, FlippedBitsNeverCrash) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (const std::string& whole : {GrantAnswer(), DeferAnswer(), RejectAnswer()}) {
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = whole;
      for (auto flips = 1 + random() % 3; flips > 0; --flips) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
      }
      const auto decision = DecodeAdmit(bytes);
      if (!decision.ok()) continue;
      if (const auto* defer = std::get_if<Defer>(&decision->outcome)) {
        EXPECT_GE(defer->retry_delay, absl::Milliseconds(1)) << "seed " << seed;
      }
    }
  }
}

std::string ReleaseAnswer(const std::string& result) {
  MapPacker map;
  map.Text("result", result);
  map.Map("refunded", {{"tokens", -3.5}});
  map.Map("estimated", {{"tokens", 10}});
  map.Map("charged", {{"tokens", 13.5}});
  map.Integer("lease_us", 30000000);
  map.Integer("version", 7);
  map.Text("class", "high");
  map.Text("tenant", "acme");
  return map.Finish();
}

TEST(CodecTest, AReleaseIsRead) {
  const std::map<std::string, ReleaseResult> results = {
      {"settled", ReleaseResult::kSettled},   {"withdrawn", ReleaseResult::kWithdrawn},
      {"extended", ReleaseResult::kExtended}, {"already_settled", ReleaseResult::kAlreadySettled},
      {"expired", ReleaseResult::kExpired},   {"unknown", ReleaseResult::kUnknown}};
  for (const auto& [text, result] : results) {
    const auto report = DecodeRelease(ReleaseAnswer(text));
    ASSERT_TRUE(report.ok()) << text << ": " << report.status();
    EXPECT_EQ(report->result, result);
  }
  const auto report = DecodeRelease(ReleaseAnswer("settled"));
  ASSERT_EQ(report->refunded.size(), 1U);
  EXPECT_EQ(report->refunded[0].second, -3.5);
  EXPECT_TRUE(absl::IsInternal(DecodeRelease(ReleaseAnswer("queued")).status()))
      << "only the gate says so";
}

TEST(CodecTest, ConfigureIsRead) {
  const auto answer = [](const std::string& result) {
    MapPacker map;
    map.Text("result", result);
    map.Integer("version", 9);
    return DecodeConfigure(map.Finish());
  };
  EXPECT_EQ(*answer("ok"), 9U);
  EXPECT_TRUE(absl::IsAborted(answer("conflict").status()));
  EXPECT_TRUE(absl::IsInternal(answer("fine").status()));
}

}  // namespace
}  // namespace fairgate
