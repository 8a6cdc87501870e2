#include "server/metrics/metrics.h"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "server/metrics/label_names.h"
#include "server/version.h"

namespace fairgate {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

constexpr char kOther[] = "other";
// A policy has at most 64 classes and 16 dimensions; names that were removed keep their series.
constexpr size_t kClassesMax = 128;
constexpr size_t kDimensionsMax = 32;

const Histogram::BucketBoundaries& WaitBuckets() {
  static const auto* const buckets = new Histogram::BucketBoundaries{
      0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
  return *buckets;
}

std::string CodeName(const absl::Status& status) {
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

// outcome and reason of a decision: both from closed sets, so pointers stay good.
std::pair<const char*, const char*> Describe(const Decision& decision) {
  if (const auto* const grant = std::get_if<Grant>(&decision.outcome)) {
    return {"grant", grant->repeated ? "repeated" : "new"};
  }
  if (const auto* const defer = std::get_if<Defer>(&decision.outcome)) {
    return {"defer", defer->limited_by.empty() ? "none" : LayerName(defer->limited_by[0].layer)};
  }
  return {"reject", ReasonName(std::get<Reject>(decision.outcome).reason)};
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(MetricsOptions options)
      : options_(std::move(options)),
        listed_tenants_(options_.tenants.begin(), options_.tenants.end()) {
    AddGauge("fairgate_build_info", "Version of the server; always 1")
        .Add({{"version", std::string(kVersion)}})
        .Set(1);
  }

  Family<Counter>& AddCounter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_);
  }
  Family<Gauge>& AddGauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_);
  }
  Family<Histogram>& AddHistogram(const char* name, const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_);
  }

  // The label of a target. Callers hold mutex_. Targets are learnt only from answers that prove
  // that they exist, so that made-up names fill nothing.
  const std::string& TargetLabel(const std::string& target, bool exists) {
    static const auto* const other = new std::string(kOther);
    const auto found = targets_.find(target);
    if (found != targets_.end()) {
      return *found;
    }
    if (!exists || targets_.size() >= options_.targets_max) {
      return *other;
    }
    return *targets_.insert(target).first;
  }

  // Names of a target's classes or dimensions, the first `max` of them. Callers hold mutex_.
  const std::string& Bounded(std::map<std::string, std::set<std::string>>& names,
                             const std::string& target, const std::string& name, size_t max) {
    static const auto* const other = new std::string(kOther);
    std::set<std::string>& of_target = names[target];
    const auto found = of_target.find(name);
    if (found != of_target.end()) {
      return *found;
    }
    return of_target.size() < max ? *of_target.insert(name).first : *other;
  }
  const std::string& ClassLabel(const std::string& target, const std::string& name) {
    return Bounded(classes_, target, name, kClassesMax);
  }
  const std::string& DimensionLabel(const std::string& target, const std::string& name) {
    return Bounded(dimensions_, target, name, kDimensionsMax);
  }
  const std::string& TenantLabel(const std::string& tenant) const {
    static const auto* const other = new std::string(kOther);
    const auto found = listed_tenants_.find(tenant);
    return found == listed_tenants_.end() ? *other : *found;
  }

  // Series of the calls' own path, with mutex_ held. Labels are TargetLabel() and the like or
  // literals: they live as long as this does, so their addresses stand for them, and nothing is
  // built for a series that is there.
  Counter& AdmitCounter(const std::string& target, const std::string& priority, const char* outcome,
                        const char* reason) {
    Counter*& counter = admits_found_[{&target, &priority, outcome, reason}];
    if (counter == nullptr) {
      counter = &admit_outcomes_.Add(
          {{"target", target}, {"class", priority}, {"outcome", outcome}, {"reason", reason}});
    }
    return *counter;
  }
  Counter& ReleaseCounter(const std::string& target, const char* result) {
    Counter*& counter = releases_found_[{&target, result}];
    if (counter == nullptr) counter = &releases_.Add({{"target", target}, {"result", result}});
    return *counter;
  }
  Histogram& EstimateError(const std::string& target, const std::string& dimension) {
    Histogram*& histogram = estimate_errors_found_[{&target, &dimension}];
    if (histogram == nullptr) {
      histogram = &estimate_error_.Add(
          {{"target", target}, {"dimension", dimension}},
          Histogram::BucketBoundaries{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 10});
    }
    return *histogram;
  }
  struct EvaluationHistograms {
    Histogram* seconds = nullptr;
    Histogram* questions = nullptr;
  };
  EvaluationHistograms Evaluation(const std::string& function) {
    EvaluationHistograms& found = evaluations_found_[function];
    if (found.seconds == nullptr) {
      const Labels labels = {{"function", function}};
      found.seconds = &evaluation_seconds_.Add(
          labels, Histogram::BucketBoundaries{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                              0.025, 0.05, 0.25, 1});
      found.questions =
          &evaluation_questions_.Add(labels, Histogram::BucketBoundaries{1, 2, 4, 8, 16, 32});
    }
    return found;
  }

  // What the last look at a target set; with mutex_ held. A gauge that is set no more would go on
  // saying what was true once.
  using TargetGauges = std::map<Gauge*, Family<Gauge>*>;
  void ReplaceGauges(const std::string& target, TargetGauges gauges) {
    std::swap(target_gauges_[target], gauges);
    for (const auto& [gauge, family] : gauges) {
      if (target_gauges_[target].count(gauge) == 0) family->Remove(gauge);
    }
  }

  const MetricsOptions options_;
  const std::set<std::string> listed_tenants_;
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();

  // Families lock themselves.
  Family<Counter>& admit_outcomes_ =
      AddCounter("fairgate_admit_outcomes_total", "Answers to Admit");
  Histogram& defer_seconds_ =
      AddHistogram("fairgate_defer_seconds", "Retry delays that were answered")
          .Add({}, WaitBuckets());
  Histogram& projected_wait_seconds_ =
      AddHistogram("fairgate_projected_wait_seconds", "Projected waits that were answered")
          .Add({}, WaitBuckets());
  Histogram& forecast_error_seconds_ =
      AddHistogram("fairgate_forecast_error_seconds",
                   "Wait of a granted call less the wait projected at its first ask")
          .Add({}, Histogram::BucketBoundaries{-60, -10, -2.5, -1, -0.5, -0.25, -0.1, -0.05, -0.02,
                                               0, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60});
  Histogram& admits_per_grant_ =
      AddHistogram("fairgate_admits_per_grant", "Admit calls that a grant took")
          .Add({}, Histogram::BucketBoundaries{1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100});
  Family<Counter>& releases_ = AddCounter("fairgate_releases_total", "Answers to Release");
  Counter& usage_missing_ =
      AddCounter("fairgate_usage_missing_total", "Leases settled without usage in some dimension")
          .Add({});
  Family<Histogram>& estimate_error_ =
      AddHistogram("fairgate_estimate_error_ratio", "Charged amount by estimated amount");
  Family<Gauge>& cap_used_ =
      AddGauge("fairgate_cap_used_ratio", "Part of a dimension's capacity that is taken now");
  Family<Gauge>& class_achievement_ =
      AddGauge("fairgate_class_achievement_ratio",
               "Service of a backlogged class by its ideal share, since the last look");
  Family<Gauge>& jain_ = AddGauge("fairgate_fairness_jain_index",
                                  "Jain index of backlogged flows' service by ideal share");
  Family<Gauge>& leases_open_ = AddGauge("fairgate_leases_open", "Leases not settled yet");
  Counter& leases_expired_ =
      AddCounter("fairgate_leases_expired_total", "Leases ended by their life").Add({});
  Gauge& waiters_ = AddGauge("fairgate_waiters", "Calls that hold a place in line").Add({});
  Family<Histogram>& evaluation_seconds_ =
      AddHistogram("fairgate_evaluation_seconds", "Time for one evaluation in the store");
  Family<Histogram>& evaluation_questions_ =
      AddHistogram("fairgate_evaluation_questions", "Questions that shared an evaluation");
  Gauge& store_up_ = AddGauge("fairgate_store_up", "1 while the store answers").Add({});
  Family<Counter>& degraded_ = AddCounter("fairgate_degraded_answers_total",
                                          "Answers given while the store could not be asked");
  Gauge& replay_length_ =
      AddGauge("fairgate_replay_queue_length", "Entries kept until the store is back").Add({});
  Counter& replay_dropped_ =
      AddCounter("fairgate_replay_queue_dropped_total", "Entries dropped as the queue was full")
          .Add({});
  Family<Gauge>& policy_differs_ =
      AddGauge("fairgate_policy_differs_from_file", "1: the store's policy is not the file's");
  Family<Counter>& tenant_grants_ =
      AddCounter("fairgate_tenant_grants_total", "Grants by tenant, of the tenants listed");

  std::mutex mutex_;  // guards what follows
  uint64_t replay_dropped_seen_ = 0;
  std::set<std::string> targets_;
  std::map<std::string, TargetGauges> target_gauges_;
  std::map<std::string, std::set<std::string>> classes_;
  std::map<std::string, std::set<std::string>> dimensions_;
  std::map<std::array<const void*, 4>, Counter*> admits_found_;
  std::map<std::array<const void*, 2>, Counter*> releases_found_;
  std::map<std::array<const void*, 2>, Histogram*> estimate_errors_found_;
  std::map<std::string, EvaluationHistograms> evaluations_found_;
};

Metrics::Metrics(MetricsOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Metrics::~Metrics() = default;

void Metrics::OnAdmit(const std::string& target, const std::string& tenant,
                      const Decision& decision) {
  static const auto* const no_class = new std::string;
  const auto [outcome, reason] = Describe(decision);
  const std::string* label = nullptr;
  Counter* counter = nullptr;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = &impl_->TargetLabel(target, !decision.degraded);
    // A class that a degraded answer names may be made up.
    const std::string& priority =
        decision.degraded ? *no_class : impl_->ClassLabel(*label, decision.facts.priority);
    counter = &impl_->AdmitCounter(*label, priority, outcome, reason);
  }
  counter->Increment();
  if (decision.facts.leases_expired > 0) {
    impl_->leases_expired_.Increment(decision.facts.leases_expired);
  }
  if (decision.degraded) {
    impl_->degraded_.Add({{"target", *label}, {"outcome", outcome}}).Increment();
  }
  if (const auto* const defer = std::get_if<Defer>(&decision.outcome)) {
    impl_->defer_seconds_.Observe(absl::ToDoubleSeconds(defer->retry_delay));
    impl_->projected_wait_seconds_.Observe(absl::ToDoubleSeconds(defer->projected_wait));
  }
  const auto* const grant = std::get_if<Grant>(&decision.outcome);
  if (grant == nullptr || grant->repeated || decision.degraded) {
    return;
  }
  if (decision.facts.admits > 0) {
    impl_->admits_per_grant_.Observe(decision.facts.admits);
  }
  if (decision.facts.admits > 1) {
    impl_->forecast_error_seconds_.Observe(
        absl::ToDoubleSeconds(decision.facts.waited - decision.facts.first_projected));
  }
  if (!impl_->listed_tenants_.empty()) {
    impl_->tenant_grants_.Add({{"target", *label}, {"tenant", impl_->TenantLabel(tenant)}})
        .Increment();
  }
}

void Metrics::OnAdmitError(const std::string& target, const absl::Status& status) {
  std::string label;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = impl_->TargetLabel(target, false);
  }
  impl_->admit_outcomes_
      .Add({{"target", label}, {"class", ""}, {"outcome", "error"}, {"reason", CodeName(status)}})
      .Increment();
}

void Metrics::OnRelease(const std::string& target, const ReleaseReport& report) {
  const std::string* label = nullptr;
  Counter* counter = nullptr;
  std::vector<std::pair<Histogram*, double>> ratios;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = &impl_->TargetLabel(target, !report.degraded);
    counter = &impl_->ReleaseCounter(*label, ResultName(report.result));
    // Only what was settled by usage says something about estimates.
    if (report.result == ReleaseResult::kSettled && !report.usage_missing) {
      for (const auto& [dimension, estimated] : report.estimated) {
        for (const auto& [charged_dimension, charged] : report.charged) {
          if (charged_dimension == dimension && estimated > 0) {
            ratios.emplace_back(
                &impl_->EstimateError(*label, impl_->DimensionLabel(*label, dimension)),
                charged / estimated);
          }
        }
      }
    }
  }
  counter->Increment();
  if (report.usage_missing) {
    impl_->usage_missing_.Increment();
  }
  if (report.degraded) {
    impl_->degraded_.Add({{"target", *label}, {"outcome", "release"}}).Increment();
  }
  for (const auto& [histogram, ratio] : ratios) {
    histogram->Observe(ratio);
  }
}

void Metrics::OnReleaseError(const std::string& target, const absl::Status& status) {
  std::string label;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = impl_->TargetLabel(target, false);
  }
  impl_->releases_.Add({{"target", label}, {"result", CodeName(status)}}).Increment();
}

void Metrics::OnEvaluation(const std::string& function, size_t questions, absl::Duration took) {
  Impl::EvaluationHistograms histograms;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    histograms = impl_->Evaluation(function);
  }
  histograms.seconds->Observe(absl::ToDoubleSeconds(took));
  histograms.questions->Observe(static_cast<double>(questions));
}

void Metrics::SetStoreUp(bool up) { impl_->store_up_.Set(up ? 1 : 0); }

void Metrics::SetReplayQueue(size_t length, uint64_t dropped) {
  impl_->replay_length_.Set(static_cast<double>(length));
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  if (dropped > impl_->replay_dropped_seen_) {
    impl_->replay_dropped_.Increment(static_cast<double>(dropped - impl_->replay_dropped_seen_));
    impl_->replay_dropped_seen_ = dropped;
  }
}

void Metrics::SetPolicyDiffers(const std::string& target, bool differs) {
  std::string label;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = impl_->TargetLabel(target, true);
  }
  impl_->policy_differs_.Add({{"target", label}}).Set(differs ? 1 : 0);
}

void Metrics::SetTarget(const v1::InspectTargetResponse& state, const Fairness& fairness) {
  std::string label;
  std::vector<std::pair<std::string, double>> used;
  std::vector<std::pair<std::string, double>> achieved;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = impl_->TargetLabel(state.target(), true);
    if (label == kOther) {
      return;  // one series cannot tell the state of many
    }
    for (const v1::DimensionState& dimension : state.dimensions()) {
      if (dimension.capacity() > 0) {
        used.emplace_back(impl_->DimensionLabel(label, dimension.name()),
                          1 - dimension.available() / dimension.capacity());
      }
    }
    for (const auto& [priority, ratio] : fairness.class_achievement) {
      achieved.emplace_back(impl_->ClassLabel(label, priority), ratio);
    }
  }
  Impl::TargetGauges gauges;
  const auto set = [&gauges](Family<Gauge>& family, const Labels& labels, double value) {
    Gauge& gauge = family.Add(labels);
    gauge.Set(value);
    gauges.emplace(&gauge, &family);
  };
  for (const auto& [dimension, ratio] : used) {
    set(impl_->cap_used_, {{"target", label}, {"dimension", dimension}}, ratio);
  }
  for (const auto& [priority, ratio] : achieved) {
    set(impl_->class_achievement_, {{"target", label}, {"class", priority}}, ratio);
  }
  set(impl_->jain_, {{"target", label}}, fairness.jain_index);
  set(impl_->leases_open_, {{"target", label}}, static_cast<double>(state.leases_open()));
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->ReplaceGauges(label, std::move(gauges));
}

void Metrics::KeepTargets(const std::vector<std::string>& targets) {
  const std::set<std::string> kept(targets.begin(), targets.end());
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  std::vector<std::string> gone;
  for (const auto& [target, gauges] : impl_->target_gauges_) {
    if (kept.count(target) == 0) gone.push_back(target);
  }
  for (const std::string& target : gone) {
    impl_->ReplaceGauges(target, {});
    impl_->target_gauges_.erase(target);
  }
}

void Metrics::SetWaiters(uint64_t waiters) { impl_->waiters_.Set(static_cast<double>(waiters)); }

const std::shared_ptr<prometheus::Registry>& Metrics::registry() const { return impl_->registry_; }

}  // namespace fairgate
