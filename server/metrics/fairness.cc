#include "server/metrics/fairness.h"

#include <algorithm>
#include <utility>

#include "server/core/jain_index.h"

namespace fairgate {
namespace {

constexpr double kTiny = 1e-12;

// Raises all flows of the classes in `rising` until each has stopped.
void Fill(const std::vector<double>& weights, const std::vector<FairFlow>& flows,
          const std::vector<bool>& rising, std::vector<double>& left, std::vector<double>& share) {
  std::vector<bool> active(flows.size());
  for (size_t i = 0; i < flows.size(); ++i) {
    active[i] = rising[flows[i].class_index] && flows[i].weight > 0;
  }
  // Every round stops at least one flow.
  for (size_t round = 0; round < flows.size() + left.size(); ++round) {
    std::vector<double> class_sum(weights.size(), 0);
    for (size_t i = 0; i < flows.size(); ++i) {
      for (size_t d = 0; active[i] && d < left.size(); ++d) {
        if (flows[i].profile[d] > 0 && left[d] <= kTiny) {
          active[i] = false;
        }
      }
      if (active[i] && flows[i].demand - share[i] <= kTiny) {
        active[i] = false;
      }
      if (active[i]) {
        class_sum[flows[i].class_index] += flows[i].weight;
      }
    }
    std::vector<double> speed(flows.size(), 0);
    std::vector<double> drain(left.size(), 0);
    double step = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < flows.size(); ++i) {
      if (!active[i]) {
        continue;
      }
      const size_t k = flows[i].class_index;
      speed[i] = weights[k] * flows[i].weight / class_sum[k];
      step = std::min(step, (flows[i].demand - share[i]) / speed[i]);
      for (size_t d = 0; d < left.size(); ++d) {
        drain[d] += speed[i] * flows[i].profile[d];
      }
    }
    for (size_t d = 0; d < left.size(); ++d) {
      if (drain[d] > 0) {
        step = std::min(step, left[d] / drain[d]);
      }
    }
    if (step == std::numeric_limits<double>::infinity()) {
      return;
    }
    for (size_t i = 0; i < flows.size(); ++i) {
      share[i] += speed[i] * step;
    }
    for (size_t d = 0; d < left.size(); ++d) {
      left[d] = std::max(0.0, left[d] - drain[d] * step);
    }
  }
}

// MaxMinShares of one resource, `total`.
std::vector<double> Divide(const std::vector<double>& class_weights,
                           const std::vector<FairFlow>& flows, double total) {
  return MaxMinShares(class_weights, flows, {total});
}

}  // namespace

std::vector<double> MaxMinShares(const std::vector<double>& class_weights,
                                 const std::vector<FairFlow>& flows,
                                 const std::vector<double>& capacity) {
  std::vector<double> left = capacity;
  std::vector<double> share(flows.size(), 0);
  std::vector<bool> weighted(class_weights.size());
  std::vector<bool> background(class_weights.size());
  std::vector<double> weights = class_weights;
  for (size_t k = 0; k < class_weights.size(); ++k) {
    weighted[k] = class_weights[k] > 0;
    background[k] = !weighted[k];
    if (background[k]) {
      weights[k] = 1;
    }
  }
  Fill(weights, flows, weighted, left, share);
  Fill(weights, flows, background, left, share);
  return share;
}

Fairness MeasureFairness(const v1::InspectTargetResponse& before,
                         const v1::InspectTargetResponse& after) {
  Fairness fairness;

  std::map<std::string, const v1::ClassState*> classes_before;
  for (const v1::ClassState& state : before.classes()) {
    classes_before[state.name()] = &state;
  }
  std::vector<double> weights;
  std::vector<FairFlow> class_flows;
  std::vector<double> had;
  std::map<std::string, size_t> class_indexes;
  double total = 0;
  for (const v1::ClassState& state : after.classes()) {
    const auto old = classes_before.find(state.name());
    const double service_before =
        old == classes_before.end() ? 0 : old->second->service_total_seconds();
    // Refunds can exceed the grants of a short interval.
    const double service = std::max(0.0, state.service_total_seconds() - service_before);
    const bool backlogged =
        state.waiters() > 0 && old != classes_before.end() && old->second->waiters() > 0;
    class_indexes[state.name()] = weights.size();
    FairFlow flow;
    flow.class_index = weights.size();
    flow.profile = {1};
    if (!backlogged) {
      flow.demand = service;
    }
    weights.push_back(state.weight());
    class_flows.push_back(std::move(flow));
    had.push_back(service);
    total += service;
  }
  const std::vector<double> class_ideal = Divide(weights, class_flows, total);
  for (const auto& [name, k] : class_indexes) {
    const bool backlogged = class_flows[k].demand == std::numeric_limits<double>::infinity();
    if (backlogged && class_ideal[k] > kTiny) {
      fairness.class_achievement[name] = had[k] / class_ideal[k];
    }
  }

  // The same over the flows that both snapshots list with waiters. Others are left out rather than
  // guessed: a snapshot lists only the first flows.
  std::map<std::pair<std::string, std::string>, const v1::FlowState*> flows_before;
  for (const v1::FlowState& state : before.flows()) {
    flows_before[{state.priority(), state.tenant()}] = &state;
  }
  std::vector<FairFlow> flows;
  std::vector<double> flow_had;
  double flow_total = 0;
  for (const v1::FlowState& state : after.flows()) {
    const auto old = flows_before.find({state.priority(), state.tenant()});
    const auto k = class_indexes.find(state.priority());
    if (old == flows_before.end() || k == class_indexes.end() || state.waiters() == 0 ||
        old->second->waiters() == 0) {
      continue;
    }
    FairFlow flow;
    flow.class_index = k->second;
    flow.weight = state.weight();
    flow.profile = {1};
    flows.push_back(std::move(flow));
    flow_had.push_back(
        std::max(0.0, state.service_total_seconds() - old->second->service_total_seconds()));
    flow_total += flow_had.back();
  }
  const std::vector<double> flow_ideal = Divide(weights, flows, flow_total);
  std::vector<double> achievements;
  for (size_t i = 0; i < flows.size(); ++i) {
    if (flow_ideal[i] > kTiny) {
      achievements.push_back(flow_had[i] / flow_ideal[i]);
    }
  }
  fairness.jain_index = JainIndex(achievements);
  return fairness;
}

}  // namespace fairgate
