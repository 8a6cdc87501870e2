#include "server/service/bootstrap.h"

#include <future>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/fake_store.h"

namespace fairgate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

v1::TargetPolicy Policy(const std::string& name, double limit) {
  v1::TargetPolicy policy;
  policy.set_name(name);
  v1::DimensionPolicy* const dimension = policy.add_dimensions();
  dimension->set_name("requests");
  dimension->set_limit(limit);
  return policy;
}

double LimitOf(FakeStore& store, const std::string& target) {
  std::promise<double> limit;
  store.ReadPolicy(target, [&](absl::StatusOr<StoredPolicy> stored) {
    limit.set_value(stored.ok() ? stored->policy.dimensions(0).limit() : -1);
  });
  return limit.get_future().get();
}

size_t TargetCount(FakeStore& store) {
  std::promise<size_t> count;
  store.ListTargets([&](absl::StatusOr<std::vector<std::string>> names) {
    count.set_value(names.ok() ? names->size() : 0);
  });
  return count.get_future().get();
}

TEST(SeedPolicies, WritesWhatIsMissingAndKeepsWhatDiffers) {
  FakeStore store;
  store.Put(Policy("same", 1));
  store.Put(Policy("other", 2));
  const std::vector<v1::TargetPolicy> file = {Policy("same", 1), Policy("other", 3),
                                              Policy("new", 4)};
  const auto report = SeedPolicies(&store, file, /*always=*/false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->written, ElementsAre("new"));
  EXPECT_THAT(report->differing, ElementsAre("other"));
  EXPECT_EQ(LimitOf(store, "other"), 2);
  EXPECT_EQ(LimitOf(store, "new"), 4);
}

TEST(SeedPolicies, TheFileWinsWhenItIsToldSo) {
  FakeStore store;
  store.Put(Policy("other", 2));
  const auto report = SeedPolicies(&store, {Policy("other", 3)}, /*always=*/true);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->written, ElementsAre("other"));
  EXPECT_THAT(report->differing, IsEmpty());
  EXPECT_EQ(LimitOf(store, "other"), 3);
}

// Another server writes between this one's look and its writing.
class RacedStore : public FakeStore {
 public:
  explicit RacedStore(double limit) : limit_(limit) {}
  void WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                   Callback<uint64_t> done) override {
    Put(Policy(policy.name(), limit_));
    FakeStore::WritePolicy(policy, expected_version, std::move(done));
  }

 private:
  const double limit_;
};

TEST(SeedPolicies, AServerWithTheSameFileMayBeFaster) {
  RacedStore same(4);
  auto report = SeedPolicies(&same, {Policy("new", 4)}, false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->differing, IsEmpty());

  RacedStore another(5);
  report = SeedPolicies(&another, {Policy("new", 4)}, false);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->differing, ElementsAre("new"));
  EXPECT_EQ(LimitOf(another, "new"), 5);
}

class AwayStore : public FakeStore {
 public:
  void ReadPolicy(const std::string& /*target*/, Callback<StoredPolicy> done) override {
    done(absl::UnavailableError("away"));
  }
  void WritePolicy(const v1::TargetPolicy& /*policy*/, uint64_t /*expected_version*/,
                   Callback<uint64_t> done) override {
    done(absl::UnavailableError("away"));
  }
};

TEST(SeedPolicies, AStoreThatIsAwayIsSaid) {
  AwayStore store;
  EXPECT_TRUE(absl::IsUnavailable(SeedPolicies(&store, {Policy("t", 1)}, true).status()));
}

// What the scripts do for the self-test's target, with one answer of it changed.
struct Behaviour {
  bool grants = true, repeats = true, defers = true, refunds = true;
  bool fails = false;  // with kInternal
};

absl::Status SelfTestOf(const Behaviour& b, FakeStore* store) {
  int asked = 0;
  store->on_admit = [b, asked](const AdmitQuery& query) mutable -> absl::StatusOr<Decision> {
    if (b.fails) return absl::InternalError("script admit gave a malformed answer");
    Decision decision;
    if (query.check_only) {
      decision.outcome = b.defers ? decltype(decision.outcome)(Defer()) : Grant();
    } else if (!b.grants) {
      decision.outcome = Reject();
    } else {
      decision.outcome = Grant{{{"requests", 1}}, absl::Seconds(60), asked++ > 0 && b.repeats};
    }
    return decision;
  };
  store->on_release = [b](const ReleaseQuery&) -> absl::StatusOr<ReleaseReport> {
    ReleaseReport report;
    report.result = ReleaseResult::kSettled;
    if (b.refunds) report.refunded = {{"requests", 1}};
    return report;
  };
  return SelfTest(store, "gate");
}

TEST(SelfTest, PassesAndLeavesNothing) {
  FakeStore store;
  const absl::Status status = SelfTestOf({}, &store);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(TargetCount(store), 0U);
}

TEST(SelfTest, FindsScriptsThatDoSomethingElse) {
  const std::pair<Behaviour, const char*> faults[] = {
      {{.grants = false}, "does not grant"}, {{.repeats = false}, "not given the same grant"},
      {{.defers = false}, "does not defer"}, {{.refunds = false}, "not refunded"},
      {{.fails = true}, "malformed"},
  };
  for (const auto& [behaviour, what] : faults) {
    FakeStore store;
    const absl::Status status = SelfTestOf(behaviour, &store);
    EXPECT_TRUE(absl::IsInternal(status)) << what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_EQ(TargetCount(store), 0U) << "its target is taken away also after a failure";
  }
}

TEST(SelfTest, AStoreThatIsAwayProvesNothing) {
  AwayStore store;
  EXPECT_TRUE(absl::IsUnavailable(SelfTest(&store, "gate")));
}

TEST(SelfTest, ItsTargetsAreToldApart) {
  EXPECT_TRUE(IsSelfTestTarget("fairgate-selftest-gate"));
  EXPECT_FALSE(IsSelfTestTarget("openai-prod"));
}

}  // namespace
}  // namespace fairgate
