#include "server/metrics/families.h"

#include "server/version.h"

namespace fairgate {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Buckets = Histogram::BucketBoundaries;

Family<Counter>& AddCounter(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
Family<Gauge>& AddGauge(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
Family<Histogram>& AddHistogram(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

Buckets WaitBuckets() {
  return {0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
}

}  // namespace

Families::Families()
    : registry(std::make_shared<Registry>()),
      admit_outcomes(AddCounter(*registry, "fairgate_admit_outcomes_total", "Answers to Admit")),
      defer_seconds(
          AddHistogram(*registry, "fairgate_defer_seconds", "Retry delays that were answered")
              .Add({}, WaitBuckets())),
      projected_wait_seconds(AddHistogram(*registry, "fairgate_projected_wait_seconds",
                                          "Projected waits that were answered")
                                 .Add({}, WaitBuckets())),
      forecast_error_seconds(
          AddHistogram(*registry, "fairgate_forecast_error_seconds",
                       "Wait of a granted call less the wait projected at its first ask")
              .Add({}, Buckets{-60, -10, -2.5, -1, -0.5, -0.25, -0.1, -0.05, -0.02, 0, 0.02, 0.05,
                               0.1, 0.25, 0.5, 1, 2.5, 10, 60})),
      admits_per_grant(
          AddHistogram(*registry, "fairgate_admits_per_grant", "Admit calls that a grant took")
              .Add({}, Buckets{1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100})),
      releases(AddCounter(*registry, "fairgate_releases_total", "Answers to Release")),
      usage_missing(AddCounter(*registry, "fairgate_usage_missing_total",
                               "Leases settled without usage in some dimension")
                        .Add({})),
      estimate_error(AddHistogram(*registry, "fairgate_estimate_error_ratio",
                                  "Charged amount by estimated amount")),
      leases_expired(
          AddCounter(*registry, "fairgate_leases_expired_total", "Leases ended by their life")
              .Add({})),
      tenant_grants(AddCounter(*registry, "fairgate_tenant_grants_total",
                               "Grants by tenant, of the tenants listed")),
      cap_used(AddGauge(*registry, "fairgate_cap_used_ratio",
                        "Part of a dimension's capacity that is taken now")),
      class_achievement(
          AddGauge(*registry, "fairgate_class_achievement_ratio",
                   "Service of a backlogged class by its ideal share, since the last look")),
      jain(AddGauge(*registry, "fairgate_fairness_jain_index",
                    "Jain index of backlogged flows' service by ideal share")),
      leases_open(AddGauge(*registry, "fairgate_leases_open", "Leases not settled yet")),
      waiters(AddGauge(*registry, "fairgate_waiters", "Calls that hold a place in line").Add({})),
      policy_differs(AddGauge(*registry, "fairgate_policy_differs_from_file",
                              "1: the store's policy is not the file's")),
      evaluation_seconds(AddHistogram(*registry, "fairgate_evaluation_seconds",
                                      "Time for one evaluation in the store")),
      evaluation_questions(AddHistogram(*registry, "fairgate_evaluation_questions",
                                        "Questions that shared an evaluation")),
      store_up(AddGauge(*registry, "fairgate_store_up", "1 while the store answers").Add({})),
      degraded(AddCounter(*registry, "fairgate_degraded_answers_total",
                          "Answers given while the store could not be asked")),
      replay_length(AddGauge(*registry, "fairgate_replay_queue_length",
                             "Entries kept until the store is back")
                        .Add({})),
      replay_dropped(AddCounter(*registry, "fairgate_replay_queue_dropped_total",
                                "Entries dropped as the queue was full")
                         .Add({})) {
  AddGauge(*registry, "fairgate_build_info", "Version of the server; always 1")
      .Add({{"version", std::string(kVersion)}})
      .Set(1);
}

Histogram& Families::EstimateError(const std::string& target, const std::string& dimension) {
  return estimate_error.Add({{"target", target}, {"dimension", dimension}},
                            Buckets{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10});
}

Histogram& Families::EvaluationSeconds(const std::string& function) {
  return evaluation_seconds.Add(
      {{"function", function}},
      Buckets{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.25, 1});
}

Histogram& Families::EvaluationQuestions(const std::string& function) {
  return evaluation_questions.Add({{"function", function}}, Buckets{1, 2, 4, 8, 16, 32});
}

}  // namespace fairgate
