#include "server/metrics/metrics.h"

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "server/metrics/bounded_labels.h"
#include "server/metrics/families.h"
#include "server/metrics/label_names.h"

namespace fairgate {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

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
  explicit Impl(const MetricsOptions& options) : labels_(options.targets_max, options.tenants) {}

  // Series of the calls' own path, with mutex_ held. Their labels are those of labels_ or literals:
  // they live as long as this does, so their addresses stand for them, and nothing is built for a
  // series that is there.
  Counter& AdmitCounter(const std::string& target, const std::string& priority, const char* outcome,
                        const char* reason) {
    Counter*& counter = admits_found_[{&target, &priority, outcome, reason}];
    if (counter == nullptr) {
      counter = &families_.admit_outcomes.Add(
          {{"target", target}, {"class", priority}, {"outcome", outcome}, {"reason", reason}});
    }
    return *counter;
  }
  Counter& ReleaseCounter(const std::string& target, const char* result) {
    Counter*& counter = releases_found_[{&target, result}];
    if (counter == nullptr) {
      counter = &families_.releases.Add({{"target", target}, {"result", result}});
    }
    return *counter;
  }
  Histogram& EstimateError(const std::string& target, const std::string& dimension) {
    Histogram*& histogram = estimate_errors_found_[{&target, &dimension}];
    if (histogram == nullptr) histogram = &families_.EstimateError(target, dimension);
    return *histogram;
  }
  struct EvaluationHistograms {
    Histogram* seconds = nullptr;
    Histogram* questions = nullptr;
  };
  EvaluationHistograms Evaluation(const std::string& function) {
    EvaluationHistograms& found = evaluations_found_[function];
    if (found.seconds == nullptr) {
      found.seconds = &families_.EvaluationSeconds(function);
      found.questions = &families_.EvaluationQuestions(function);
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

  // The label of a target that is named once, with mutex_ not held.
  std::string TargetLabel(const std::string& target, bool exists) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return labels_.Target(target, exists);
  }

  Families families_;

  std::mutex mutex_;      // guards what follows
  BoundedLabels labels_;  // but for what is const
  uint64_t replay_dropped_seen_ = 0;
  std::map<std::string, TargetGauges> target_gauges_;
  std::map<std::array<const void*, 4>, Counter*> admits_found_;
  std::map<std::array<const void*, 2>, Counter*> releases_found_;
  std::map<std::array<const void*, 2>, Histogram*> estimate_errors_found_;
  std::map<std::string, EvaluationHistograms> evaluations_found_;
};

Metrics::Metrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Metrics::~Metrics() = default;

void Metrics::OnAdmit(const std::string& target, const std::string& tenant,
                      const Decision& decision) {
  static const auto* const no_class = new std::string;
  const auto [outcome, reason] = Describe(decision);
  const std::string* label = nullptr;
  Counter* counter = nullptr;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = &impl_->labels_.Target(target, !decision.degraded);
    // A class that a degraded answer names may be made up.
    const std::string& priority =
        decision.degraded ? *no_class : impl_->labels_.Class(*label, decision.facts.priority);
    counter = &impl_->AdmitCounter(*label, priority, outcome, reason);
  }
  counter->Increment();
  if (decision.facts.leases_expired > 0) {
    impl_->families_.leases_expired.Increment(decision.facts.leases_expired);
  }
  if (decision.degraded) {
    impl_->families_.degraded.Add({{"target", *label}, {"outcome", outcome}}).Increment();
  }
  if (const auto* const defer = std::get_if<Defer>(&decision.outcome)) {
    impl_->families_.defer_seconds.Observe(absl::ToDoubleSeconds(defer->retry_delay));
    impl_->families_.projected_wait_seconds.Observe(absl::ToDoubleSeconds(defer->projected_wait));
  }
  const auto* const grant = std::get_if<Grant>(&decision.outcome);
  if (grant == nullptr || grant->repeated || decision.degraded) {
    return;
  }
  if (decision.facts.admits > 0) {
    impl_->families_.admits_per_grant.Observe(decision.facts.admits);
  }
  if (decision.facts.admits > 1) {
    impl_->families_.forecast_error_seconds.Observe(
        absl::ToDoubleSeconds(decision.facts.waited - decision.facts.first_projected));
  }
  if (impl_->labels_.lists_tenants()) {
    impl_->families_.tenant_grants
        .Add({{"target", *label}, {"tenant", impl_->labels_.Tenant(tenant)}})
        .Increment();
  }
}

void Metrics::OnAdmitError(const std::string& target, const absl::Status& status) {
  const std::string label = impl_->TargetLabel(target, false);
  impl_->families_.admit_outcomes
      .Add({{"target", label}, {"class", ""}, {"outcome", "error"}, {"reason", CodeName(status)}})
      .Increment();
}

void Metrics::OnRelease(const std::string& target, const ReleaseReport& report) {
  const std::string* label = nullptr;
  Counter* counter = nullptr;
  std::vector<std::pair<Histogram*, double>> ratios;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = &impl_->labels_.Target(target, !report.degraded);
    counter = &impl_->ReleaseCounter(*label, ResultName(report.result));
    // Only what was settled by usage says something about estimates.
    if (report.result == ReleaseResult::kSettled && !report.usage_missing) {
      for (const auto& [dimension, estimated] : report.estimated) {
        for (const auto& [charged_dimension, charged] : report.charged) {
          if (charged_dimension == dimension && estimated > 0) {
            ratios.emplace_back(
                &impl_->EstimateError(*label, impl_->labels_.Dimension(*label, dimension)),
                charged / estimated);
          }
        }
      }
    }
  }
  counter->Increment();
  if (report.usage_missing) {
    impl_->families_.usage_missing.Increment();
  }
  if (report.degraded) {
    impl_->families_.degraded.Add({{"target", *label}, {"outcome", "release"}}).Increment();
  }
  for (const auto& [histogram, ratio] : ratios) {
    histogram->Observe(ratio);
  }
}

void Metrics::OnReleaseError(const std::string& target, const absl::Status& status) {
  const std::string label = impl_->TargetLabel(target, false);
  impl_->families_.releases.Add({{"target", label}, {"result", CodeName(status)}}).Increment();
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

void Metrics::SetStoreUp(bool up) { impl_->families_.store_up.Set(up ? 1 : 0); }

void Metrics::SetReplayQueue(size_t length, uint64_t dropped) {
  impl_->families_.replay_length.Set(static_cast<double>(length));
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  if (dropped > impl_->replay_dropped_seen_) {
    impl_->families_.replay_dropped.Increment(
        static_cast<double>(dropped - impl_->replay_dropped_seen_));
    impl_->replay_dropped_seen_ = dropped;
  }
}

void Metrics::SetPolicyDiffers(const std::string& target, bool differs) {
  const std::string label = impl_->TargetLabel(target, true);
  impl_->families_.policy_differs.Add({{"target", label}}).Set(differs ? 1 : 0);
}

void Metrics::SetTarget(const v1::InspectTargetResponse& state, const Fairness& fairness) {
  std::string label;
  std::vector<std::pair<std::string, double>> used;
  std::vector<std::pair<std::string, double>> achieved;
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex_);
    label = impl_->labels_.Target(state.target(), true);
    if (label == BoundedLabels::Other()) {
      return;  // one series cannot tell the state of many
    }
    for (const v1::DimensionState& dimension : state.dimensions()) {
      if (dimension.capacity() > 0) {
        used.emplace_back(impl_->labels_.Dimension(label, dimension.name()),
                          1 - dimension.available() / dimension.capacity());
      }
    }
    for (const auto& [priority, ratio] : fairness.class_achievement) {
      achieved.emplace_back(impl_->labels_.Class(label, priority), ratio);
    }
  }
  Impl::TargetGauges gauges;
  const auto set = [&gauges](Family<Gauge>& family, const Labels& labels, double value) {
    Gauge& gauge = family.Add(labels);
    gauge.Set(value);
    gauges.emplace(&gauge, &family);
  };
  for (const auto& [dimension, ratio] : used) {
    set(impl_->families_.cap_used, {{"target", label}, {"dimension", dimension}}, ratio);
  }
  for (const auto& [priority, ratio] : achieved) {
    set(impl_->families_.class_achievement, {{"target", label}, {"class", priority}}, ratio);
  }
  set(impl_->families_.jain, {{"target", label}}, fairness.jain_index);
  set(impl_->families_.leases_open, {{"target", label}}, static_cast<double>(state.leases_open()));
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

void Metrics::SetWaiters(uint64_t waiters) {
  impl_->families_.waiters.Set(static_cast<double>(waiters));
}

const std::shared_ptr<prometheus::Registry>& Metrics::registry() const {
  return impl_->families_.registry;
}

}  // namespace fairgate
