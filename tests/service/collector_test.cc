#include "server/metrics/collector.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "tests/service/fake_store.h"

namespace fairgate {
namespace {

constexpr int kFlowsAsked = 1000;  // the fake answers so many waiters per target

std::string Scrape(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

bool WaitFor(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

class CollectorTest : public testing::Test {
 protected:
  CollectorTest() {
    for (const char* name : {"a", "b"}) {
      v1::TargetPolicy policy;
      policy.set_name(name);
      store_.Put(policy);
    }
  }
  ~CollectorTest() override { store_.Stop(); }

  bool ShowsBoth() const {
    return Scrape(metrics_).find("fairgate_waiters " + std::to_string(2 * kFlowsAsked)) !=
           std::string::npos;
  }

  FakeStore store_;
  Metrics metrics_{{}};
};

TEST_F(CollectorTest, AScrapeAsksAndALaterOneShows) {
  TargetCollector collector(&store_, &metrics_, {}, std::chrono::seconds(0));
  EXPECT_TRUE(collector.Collect().empty());
  EXPECT_TRUE(WaitFor([&] { return ShowsBoth(); })) << Scrape(metrics_);
  collector.Stop();
}

TEST_F(CollectorTest, ScrapesOftenerThanTheIntervalDoNotAsk) {
  std::atomic<int> rounds{0};
  TargetCollector collector(
      &store_, &metrics_, [&] { ++rounds; }, std::chrono::seconds(3600));
  for (int i = 0; i < 5; ++i) collector.Collect();
  EXPECT_TRUE(WaitFor([&] { return ShowsBoth(); }));
  collector.Collect();
  EXPECT_EQ(rounds, 1);
  collector.Stop();
}

TEST_F(CollectorTest, ARoundUnderWayIsNotJoinedByAnother) {
  store_.delay = absl::Milliseconds(50);
  std::atomic<int> rounds{0};
  TargetCollector collector(
      &store_, &metrics_, [&] { ++rounds; }, std::chrono::seconds(0));
  for (int i = 0; i < 5; ++i) collector.Collect();
  EXPECT_EQ(rounds, 1);
  EXPECT_TRUE(WaitFor([&] { return ShowsBoth(); }));
  collector.Collect();
  EXPECT_EQ(rounds, 2) << "it ended, and the next one may begin";
  collector.Stop();
}

TEST_F(CollectorTest, ADeletedTargetIsShownNoMore) {
  TargetCollector collector(&store_, &metrics_, {}, std::chrono::seconds(0));
  const auto shows = [&](const char* target) {
    return Scrape(metrics_).find(std::string("fairgate_leases_open{target=\"") + target) !=
           std::string::npos;
  };
  collector.Collect();
  EXPECT_TRUE(WaitFor([&] { return ShowsBoth() && shows("a") && shows("b"); }));
  store_.DeleteTarget("a", 1, [](absl::StatusOr<uint64_t>) {});
  EXPECT_TRUE(WaitFor([&] {
    collector.Collect();
    return !shows("a");
  }));
  EXPECT_TRUE(shows("b"));
  collector.Stop();
}

TEST_F(CollectorTest, AfterStopAnswersAreDroppedAndNobodyIsAsked) {
  store_.delay = absl::Milliseconds(50);
  std::atomic<int> rounds{0};
  {
    TargetCollector collector(
        &store_, &metrics_, [&] { ++rounds; }, std::chrono::seconds(0));
    collector.Collect();
    collector.Stop();
    collector.Collect();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(Scrape(metrics_).find("fairgate_waiters 2"), std::string::npos);
}

}  // namespace
}  // namespace fairgate
