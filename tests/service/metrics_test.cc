#include "server/metrics/metrics.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"

namespace fairgate {
namespace {

std::string Scrape(const Metrics& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.registry()->Collect());
}

Decision Granted(const std::string& priority) {
  Decision decision;
  decision.outcome = Grant{{{"tokens", 10}}, absl::Seconds(60), false};
  decision.facts.priority = priority;
  decision.facts.admits = 2;
  decision.facts.waited = absl::Milliseconds(300);
  decision.facts.first_projected = absl::Milliseconds(280);
  return decision;
}

// Touches every metric once.
void TouchAll(Metrics& metrics) {
  metrics.OnAdmit("t", "acme", Granted("high"));
  Decision deferred = Granted("low");
  Defer defer;
  defer.retry_delay = absl::Milliseconds(20);
  defer.limited_by = {{Layer::kClass, ""}};
  deferred.outcome = defer;
  metrics.OnAdmit("t", "acme", deferred);
  Decision degraded = Granted("made up");
  degraded.degraded = true;
  metrics.OnAdmit("t", "acme", degraded);
  metrics.OnAdmitError("t", absl::UnavailableError("x"));
  ReleaseReport report;
  report.result = ReleaseResult::kSettled;
  report.estimated = {{"tokens", 100}};
  report.charged = {{"tokens", 80}};
  metrics.OnRelease("t", report);
  report.usage_missing = true;
  metrics.OnRelease("t", report);
  metrics.OnEvaluation("decide", 3, absl::Microseconds(120));
  metrics.SetStoreUp(true);
  metrics.SetReplayQueue(3, 1);
  metrics.SetPolicyDiffers("t", true);
  v1::InspectTargetResponse state;
  state.set_target("t");
  state.set_leases_open(4);
  v1::DimensionState* const dimension = state.add_dimensions();
  dimension->set_name("tokens");
  dimension->set_capacity(100);
  dimension->set_available(25);
  Fairness fairness;
  fairness.class_achievement["high"] = 0.9;
  metrics.SetTarget(state, fairness);
  metrics.SetWaiters(7);
}

TEST(Metrics, NamesAreAsPublished) {
  MetricsOptions options;
  options.tenants = {"acme"};
  Metrics metrics(options);
  TouchAll(metrics);
  const std::string text = Scrape(metrics);
  std::set<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) == 0) {
      names.insert(line.substr(7));
    }
  }
  std::string found;
  for (const std::string& name : names) {
    found += name + "\n";
  }
  std::ifstream file(std::string(std::getenv("FAIRGATE_SOURCE_DIR")) +
                     "/tests/service/metrics_names.golden");
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(found, golden.str());
}

TEST(Metrics, CountsByOutcome) {
  Metrics metrics({});
  TouchAll(metrics);
  const std::string text = Scrape(metrics);
  for (
      const char* const line :
      {R"(fairgate_admit_outcomes_total{class="high",outcome="grant",reason="new",target="t"} 1)",
       R"(fairgate_admit_outcomes_total{class="low",outcome="defer",reason="class",target="t"} 1)",
       R"(fairgate_admit_outcomes_total{class="",outcome="error",reason="unavailable",target="t"} 1)",
       R"(fairgate_degraded_answers_total{outcome="grant",target="t"} 1)",
       R"(fairgate_releases_total{result="settled",target="t"} 2)",
       R"(fairgate_cap_used_ratio{dimension="tokens",target="t"} 0.75)",
       R"(fairgate_class_achievement_ratio{class="high",target="t"} 0.9)",
       "fairgate_usage_missing_total 1", "fairgate_waiters 7"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("made up"), std::string::npos);
}

TEST(Metrics, TargetsAreBoundedAndMadeUpOnesLearnNothing) {
  MetricsOptions options;
  options.targets_max = 2;
  Metrics metrics(options);
  for (int i = 0; i < 100; ++i) {
    metrics.OnAdmitError("made up " + std::to_string(i), absl::NotFoundError("x"));
  }
  for (const char* const target : {"a", "b", "c", "d"}) {
    metrics.OnAdmit(target, "acme", Granted("high"));
  }
  const std::string text = Scrape(metrics);
  EXPECT_EQ(text.find("made up"), std::string::npos);
  EXPECT_NE(text.find(R"(target="b")"), std::string::npos);
  EXPECT_EQ(text.find(R"(target="c")"), std::string::npos);
  EXPECT_NE(text.find(R"(outcome="grant",reason="new",target="other"} 2)"), std::string::npos);
  EXPECT_NE(text.find(R"(reason="not_found",target="other"} 100)"), std::string::npos) << text;
}

TEST(Metrics, TenantsOnlyIfListed) {
  MetricsOptions options;
  options.tenants = {"acme"};
  Metrics metrics(options);
  metrics.OnAdmit("t", "acme", Granted("high"));
  metrics.OnAdmit("t", "stranger", Granted("high"));
  const std::string text = Scrape(metrics);
  EXPECT_NE(text.find(R"(fairgate_tenant_grants_total{target="t",tenant="acme"} 1)"),
            std::string::npos);
  EXPECT_NE(text.find(R"(fairgate_tenant_grants_total{target="t",tenant="other"} 1)"),
            std::string::npos);
}

}  // namespace
}  // namespace fairgate
