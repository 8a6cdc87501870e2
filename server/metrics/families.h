// What the server exports: every metric's name, help text and buckets stand in families.cc.
#ifndef FAIRGATE_SERVER_METRICS_FAMILIES_H_
#define FAIRGATE_SERVER_METRICS_FAMILIES_H_

#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace fairgate {

// Families and series lock themselves. Those with labels are families; a series of a histogram is
// made by the methods below, which know its buckets.
struct Families {
  Families();

  prometheus::Histogram& EstimateError(const std::string& target, const std::string& dimension);
  prometheus::Histogram& EvaluationSeconds(const std::string& function);
  prometheus::Histogram& EvaluationQuestions(const std::string& function);

  const std::shared_ptr<prometheus::Registry> registry;

  // Admit and Release.
  prometheus::Family<prometheus::Counter>& admit_outcomes;
  prometheus::Histogram& defer_seconds;
  prometheus::Histogram& projected_wait_seconds;
  prometheus::Histogram& forecast_error_seconds;
  prometheus::Histogram& admits_per_grant;
  prometheus::Family<prometheus::Counter>& releases;
  prometheus::Counter& usage_missing;
  prometheus::Family<prometheus::Histogram>& estimate_error;
  prometheus::Counter& leases_expired;
  prometheus::Family<prometheus::Counter>& tenant_grants;

  // The state of targets.
  prometheus::Family<prometheus::Gauge>& cap_used;
  prometheus::Family<prometheus::Gauge>& class_achievement;
  prometheus::Family<prometheus::Gauge>& jain;
  prometheus::Family<prometheus::Gauge>& leases_open;
  prometheus::Gauge& waiters;
  prometheus::Family<prometheus::Gauge>& policy_differs;

  // The store.
  prometheus::Family<prometheus::Histogram>& evaluation_seconds;
  prometheus::Family<prometheus::Histogram>& evaluation_questions;
  prometheus::Gauge& store_up;
  prometheus::Family<prometheus::Counter>& degraded;
  prometheus::Gauge& replay_length;
  prometheus::Counter& replay_dropped;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_FAMILIES_H_
