#include "server/gate/gate.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(500000);

// Answers at once, as told; `silent` keeps the questions for Answer().
class FakeStore final : public AdmissionStore {
 public:
  bool up = true;            // of Admit, Release and policies
  bool heartbeat_up = true;  // may live on another shard
  bool silent_admits = false;
  uint32_t gates = 1;
  int aborts = 0;  // WritePolicy fails so often before it works
  int policy_reads = 0;
  std::optional<absl::Duration> hold;  // Admit answers Defer with may_hold so long as hold_left > 0
  int hold_left = 0;
  std::map<std::string, StoredPolicy> policies;
  std::vector<AdmitQuery> admits;
  std::vector<std::string> log;  // "grant id", "release id"
  std::vector<Callback<Decision>> waiting;

  void Admit(const AdmitQuery& query, Callback<Decision> done) override {
    admits.push_back(query);
    if (silent_admits) {
      waiting.push_back(std::move(done));
      return;
    }
    if (!up) return done(absl::UnavailableError("away"));
    log.push_back((query.forced ? "force " : "grant ") + query.request_id);
    Decision decision;
    decision.request_id = query.request_id;
    const auto it = policies.find(query.target);
    decision.config_version = it == policies.end() ? 0 : it->second.version;
    if (hold.has_value() && hold_left-- > 0) {
      Defer defer;
      defer.retry_delay = *hold;
      decision.outcome = defer;
      decision.may_hold = query.max_hold >= *hold;
    }
    done(std::move(decision));
  }
  void Release(const ReleaseQuery& query, Callback<ReleaseReport> done) override {
    if (!up) return done(absl::UnavailableError("away"));
    log.push_back("release " + query.request_id);
    ReleaseReport report;
    report.result = ReleaseResult::kSettled;
    done(report);
  }
  void ReadPolicy(const std::string& target, Callback<StoredPolicy> done) override {
    ++policy_reads;
    if (!up) return done(absl::UnavailableError("away"));
    const auto it = policies.find(target);
    if (it == policies.end()) return done(absl::NotFoundError("none"));
    done(it->second);
  }
  void WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                   Callback<uint64_t> done) override {
    StoredPolicy& stored = policies[policy.name()];
    if (aborts > 0 || stored.version != expected_version) {
      --aborts;
      return done(absl::AbortedError("version"));
    }
    stored.policy = policy;
    done(++stored.version);
  }
  void DeleteTarget(const std::string& target, uint64_t, Callback<uint64_t> done) override {
    if (aborts > 0) {
      --aborts;
      return done(absl::AbortedError("version"));
    }
    policies.erase(target);
    done(0);
  }
  void Inspect(const std::string&, uint32_t, Callback<v1::InspectTargetResponse> done) override {
    done(absl::UnimplementedError(""));
  }
  void ListTargets(Callback<std::vector<std::string>> done) override {
    done(std::vector<std::string>());
  }
  void Heartbeat(const std::string&, absl::Duration, Callback<uint32_t> done) override {
    if (!heartbeat_up) return done(absl::UnavailableError("away"));
    done(gates);
  }
};

class GateTest : public testing::Test {
 protected:
  GateTest() { Put(10); }

  static v1::TargetPolicy Policy(double limit) {
    v1::TargetPolicy policy;
    policy.set_name("t");
    auto* d = policy.add_dimensions();
    d->set_name("requests");
    d->set_limit(limit);
    d->mutable_window()->set_seconds(60);
    return policy;
  }
  void Put(double limit) {
    StoredPolicy& stored = store_.policies["t"];
    stored.policy = Policy(limit);
    ++stored.version;
  }
  static AdmitQuery Call(const std::string& id) {
    AdmitQuery query;
    query.target = "t";
    query.tenant = "a";
    query.request_id = id;
    return query;
  }
  absl::StatusOr<Decision> Admit(const AdmitQuery& query) {
    absl::StatusOr<Decision> answer = absl::InternalError("not answered");
    gate_.Admit(query, [&](absl::StatusOr<Decision> d) { answer = std::move(d); });
    return answer;
  }
  absl::StatusOr<ReleaseReport> Release(const std::string& id) {
    ReleaseQuery query;
    query.target = "t";
    query.request_id = id;
    absl::StatusOr<ReleaseReport> answer = absl::InternalError("not answered");
    gate_.Release(query, [&](absl::StatusOr<ReleaseReport> r) { answer = std::move(r); });
    return answer;
  }
  absl::StatusOr<v1::ConfigureResponse> Configure(const v1::ConfigureRequest& request) {
    absl::StatusOr<v1::ConfigureResponse> answer = absl::InternalError("not answered");
    gate_.Configure(request,
                    [&](absl::StatusOr<v1::ConfigureResponse> r) { answer = std::move(r); });
    return answer;
  }
  int Grants(const std::string& prefix, int calls) {
    int grants = 0;
    for (int i = 0; i < calls; ++i) {
      const auto decision = Admit(Call(absl::StrCat(prefix, i)));
      grants += decision.ok() && std::holds_alternative<Grant>(decision->outcome);
    }
    return grants;
  }
  // Time passes in the order of what was asked for.
  void RunNext() {
    ASSERT_FALSE(later_.empty());
    auto [delay, task] = std::move(later_.front());
    later_.erase(later_.begin());
    now_ += delay;
    task();
  }
  static GateOptions Options(absl::Time* now) {
    GateOptions options;
    options.gate_id = "g";
    options.releases_kept_max = 3;
    options.now = [now] { return *now; };
    return options;
  }

  absl::Time now_ = kStart;
  std::vector<std::pair<absl::Duration, std::function<void()>>> later_;
  FakeStore store_;
  Gate gate_{&store_,
             [this](absl::Duration delay, std::function<void()> task) {
               later_.emplace_back(delay, std::move(task));
             },
             Options(&now_)};
};

TEST_F(GateTest, TheStoresAnswerIsTheAnswer) {
  const auto decision = Admit(Call("a"));
  ASSERT_TRUE(decision.ok());
  EXPECT_FALSE(decision->degraded);
  EXPECT_EQ(store_.policy_reads, 1);  // the policy is learnt for degraded mode
  ASSERT_TRUE(Admit(Call("b")).ok());
  EXPECT_EQ(store_.policy_reads, 1);
}

TEST_F(GateTest, C29DegradedIsBoundedAndReplayedInOrder) {
  store_.gates = 2;
  gate_.Beat();
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = store_.heartbeat_up = false;
  gate_.Beat();
  EXPECT_EQ(Grants("a", 20), 5);
  const auto queued = Release("a0");
  ASSERT_TRUE(queued.ok());
  EXPECT_EQ(queued->result, ReleaseResult::kQueued);
  EXPECT_TRUE(queued->degraded);
  store_.up = store_.heartbeat_up = true;
  store_.log.clear();
  gate_.Beat();
  while (!later_.empty()) RunNext();
  EXPECT_EQ(store_.log, (std::vector<std::string>{"force a0", "force a1", "force a2", "force a3",
                                                  "force a4", "release a0"}));
  EXPECT_EQ(gate_.kept_releases(), 0U);
}

TEST_F(GateTest, TheLogSaysOnceThatTheStoreIsAwayAndWhy) {
  store_.up = store_.heartbeat_up = false;
  testing::internal::CaptureStderr();
  (void)Admit(Call("a0"));
  (void)Release("x");
  gate_.Beat();
  const std::string away = testing::internal::GetCapturedStderr();
  EXPECT_EQ(away.find("store_away"), away.rfind("store_away")) << away;
  EXPECT_NE(away.find("reason=away"), std::string::npos) << away;
  store_.up = store_.heartbeat_up = true;
  testing::internal::CaptureStderr();
  gate_.Beat();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("store_back"), std::string::npos);
}

TEST_F(GateTest, AnAnsweredHeartbeatFillsNoPartWhileATargetsStoreIsAway) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;  // this target's shard only
  int grants = 0;
  for (int beat = 0; beat < 30; ++beat) {  // one minute
    grants += Grants(absl::StrCat("b", beat, "-"), 20);
    now_ += absl::Seconds(2);
    gate_.Beat();
  }
  EXPECT_LE(grants, 20) << "one window's worth and a minute's refill";
}

TEST_F(GateTest, AGrantThatWaitsForItsReplayIsStillTheSameGrant) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;
  ASSERT_EQ(Grants("a", 1), 1);
  gate_.Beat();  // the replay fails
  const auto again = Admit(Call("a0"));
  ASSERT_TRUE(again.ok());
  ASSERT_TRUE(std::holds_alternative<Grant>(again->outcome));
  EXPECT_TRUE(std::get<Grant>(again->outcome).repeated);
}

TEST_F(GateTest, AReleaseIsReplayedOnlyAfterItsGrant) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;
  ASSERT_EQ(Grants("a", 1), 1);
  ASSERT_TRUE(Release("a0").ok());
  store_.up = true;
  store_.silent_admits = true;  // the grant's replay is late
  store_.log.clear();
  gate_.Beat();
  EXPECT_TRUE(store_.log.empty()) << "released before the lease exists: " << store_.log[0];
}

TEST_F(GateTest, AReleaseBeforeTheReplayOfItsGrantIsKept) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;
  ASSERT_EQ(Grants("a", 1), 1);
  store_.up = true;
  store_.log.clear();
  EXPECT_EQ(Release("a0")->result, ReleaseResult::kQueued);
  gate_.Beat();
  while (!later_.empty()) RunNext();
  EXPECT_EQ(store_.log, (std::vector<std::string>{"force a0", "release a0"}));
  EXPECT_EQ(Release("a0")->result, ReleaseResult::kSettled);
}

TEST_F(GateTest, ReplayGoesInBatches) {
  Put(1000);
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;
  ASSERT_EQ(Grants("a", 1000), 1000);
  store_.silent_admits = true;
  store_.up = true;
  store_.admits.clear();
  gate_.Beat();
  EXPECT_LE(store_.admits.size(), 100U) << "all at once delay the decisions of the living";
  EXPECT_GE(store_.admits.size(), 1U);
  // answered late and out of the store's own time, the rest follows
  store_.silent_admits = false;
  for (auto& done : std::exchange(store_.waiting, {})) done(Decision());
  while (!later_.empty()) RunNext();
  EXPECT_EQ(store_.admits.size(), 1000U);
  EXPECT_EQ(store_.admits.back().request_id, "a999");
}

TEST_F(GateTest, KeptReleasesAreBounded) {
  store_.up = false;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Release(absl::StrCat("r", i)).ok());
  EXPECT_EQ(gate_.kept_releases(), 3U);
  EXPECT_EQ(gate_.dropped_releases(), 2U);
  store_.up = true;
  gate_.Beat();
  EXPECT_EQ(store_.log, (std::vector<std::string>{"release r2", "release r3", "release r4"}));
}

TEST_F(GateTest, HoldAsksAgainWhenDue) {
  store_.hold = absl::Seconds(2);
  store_.hold_left = 2;
  AdmitQuery query = Call("h");
  query.max_hold = absl::Hours(1);  // cut to the server's 10 s
  std::optional<Decision> answer;
  gate_.Admit(query, [&](absl::StatusOr<Decision> d) { answer = *std::move(d); });
  EXPECT_FALSE(answer.has_value());
  EXPECT_EQ(store_.admits[0].max_hold, absl::Seconds(10));
  EXPECT_FALSE(store_.admits[0].held);
  RunNext();
  EXPECT_FALSE(answer.has_value());
  EXPECT_EQ(store_.admits[1].max_hold, absl::Seconds(8));
  EXPECT_TRUE(store_.admits[1].held);
  RunNext();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::holds_alternative<Grant>(answer->outcome));
}

TEST_F(GateTest, HoldEndsWhenItIsUsedUp) {
  store_.hold = absl::Seconds(4);
  store_.hold_left = 100;
  AdmitQuery query = Call("h");
  query.max_hold = absl::Seconds(10);
  std::optional<Decision> answer;
  gate_.Admit(query, [&](absl::StatusOr<Decision> d) { answer = *std::move(d); });
  RunNext();
  RunNext();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::holds_alternative<Defer>(answer->outcome));
  EXPECT_TRUE(later_.empty());
}

TEST_F(GateTest, ParkedCallsAreAnsweredWithTheirDeferWhenTheServerStops) {
  store_.hold = absl::Seconds(4);
  store_.hold_left = 100;
  std::vector<Decision> answers;
  const auto admit = [&](const std::string& id) {
    AdmitQuery query = Call(id);
    query.max_hold = absl::Seconds(10);
    gate_.Admit(query, [&](absl::StatusOr<Decision> d) { answers.push_back(*std::move(d)); });
  };
  admit("a");
  admit("b");
  EXPECT_TRUE(answers.empty());
  gate_.StopHolding();
  admit("c");
  ASSERT_EQ(answers.size(), 3U);
  for (const Decision& answer : answers) {
    EXPECT_EQ(std::get<Defer>(answer.outcome).retry_delay, absl::Seconds(4));
  }
  while (!later_.empty()) RunNext();
  EXPECT_EQ(answers.size(), 3U);
  EXPECT_EQ(store_.admits.size(), 3U) << "asked for a call that is answered";
}

TEST_F(GateTest, TheDeadlineRunsWhileACallIsHeld) {
  store_.hold = absl::Seconds(2);
  store_.hold_left = 1;
  AdmitQuery query = Call("h");
  query.max_hold = absl::Seconds(10);
  query.deadline = absl::Seconds(5);
  gate_.Admit(query, [](absl::StatusOr<Decision>) {});
  RunNext();
  EXPECT_EQ(store_.admits[1].deadline, absl::Seconds(3));
}

TEST_F(GateTest, ValidateOnlyChangesNothingInDegradedModeEither) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  v1::ConfigureRequest request;
  *request.mutable_policy() = Policy(1000);
  request.set_validate_only(true);
  const auto response = Configure(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->changes_size(), 1);
  store_.up = false;
  EXPECT_EQ(Grants("a", 40), 10);
}

TEST_F(GateTest, ValidateOnlyDeleteForgetsNothing) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  v1::ConfigureRequest request;
  request.mutable_policy()->set_name("t");
  request.set_delete_target(true);
  request.set_validate_only(true);
  ASSERT_TRUE(Configure(request).ok());
  store_.up = false;
  EXPECT_EQ(Grants("a", 40), 10);
}

TEST_F(GateTest, ConfigureTriesAgainOnlyWithoutExpectedVersion) {
  v1::ConfigureRequest request;
  *request.mutable_policy() = Policy(20);
  store_.aborts = 4;
  ASSERT_TRUE(Configure(request).ok());
  *request.mutable_policy() = Policy(30);
  store_.aborts = 5;
  EXPECT_TRUE(absl::IsAborted(Configure(request).status()));
  store_.aborts = 1;
  request.set_expected_version(store_.policies["t"].version);
  EXPECT_TRUE(absl::IsAborted(Configure(request).status()));
  store_.aborts = 0;
  EXPECT_TRUE(Configure(request).ok());
}

TEST_F(GateTest, TheSamePolicyAgainWritesNothing) {
  v1::ConfigureRequest request;
  *request.mutable_policy() = Policy(10);
  const uint64_t version = store_.policies["t"].version;
  const auto response = Configure(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->changes_size(), 0);
  EXPECT_EQ(response->config_version(), version);
  EXPECT_EQ(store_.policies["t"].version, version);
}

TEST_F(GateTest, DegradedRefusesWhatTheTargetDoesNotKnow) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  store_.up = false;
  AdmitQuery query = Call("x");
  query.cost = {{"tokns", 5}};
  EXPECT_TRUE(absl::IsInvalidArgument(Admit(query).status()));
  query = Call("y");
  query.priority = "nobody";
  EXPECT_TRUE(absl::IsInvalidArgument(Admit(query).status()));
}

TEST_F(GateTest, ADeletedTargetIsForgotten) {
  ASSERT_TRUE(Admit(Call("before")).ok());
  v1::ConfigureRequest request;
  request.mutable_policy()->set_name("t");
  request.set_delete_target(true);
  ASSERT_TRUE(Configure(request).ok());
  store_.up = false;
  EXPECT_TRUE(absl::IsUnavailable(Admit(Call("x")).status()));
}

}  // namespace
}  // namespace fairgate
