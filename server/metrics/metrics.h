// Every metric that the server exports, one method per event. Names are part of the interface:
// tests/service/metrics_names.golden lists them.
//
// Labels are closed sets. Target names come from outside, so only the first targets_max get a label
// of their own; the rest share `other`. Tenants have a label only if the settings list them.
#ifndef FAIRGATE_SERVER_METRICS_METRICS_H_
#define FAIRGATE_SERVER_METRICS_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fairgate/v1/admin.pb.h"
#include "prometheus/registry.h"
#include "server/core/decision.h"
#include "server/core/request.h"
#include "server/metrics/fairness.h"

namespace fairgate {

struct MetricsOptions {
  size_t targets_max = 1000;
  std::vector<std::string> tenants;  // with labels of their own
};

// Thread-safe. Methods take no longer than a look-up in small maps.
class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void OnAdmit(const std::string& target, const std::string& tenant, const Decision& decision);
  // The call got a status instead of a decision.
  void OnAdmitError(const std::string& target, const absl::Status& status);
  void OnRelease(const std::string& target, const ReleaseReport& report);
  void OnReleaseError(const std::string& target, const absl::Status& status);

  // function: "decide", "configure" or "inspect"; how many questions it answered.
  void OnEvaluation(const std::string& function, size_t questions, absl::Duration took);
  void SetStoreUp(bool up);
  // Settlements and degraded grants kept for replay; `dropped` counts since the start.
  void SetReplayQueue(size_t length, uint64_t dropped);
  void SetPolicyDiffers(const std::string& target, bool differs);

  // State that was just inspected, and what was measured since the inspection before.
  void SetTarget(const v1::InspectTargetResponse& state, const Fairness& fairness);
  // State of targets that are none of these is shown no more.
  void KeepTargets(const std::vector<std::string>& targets);
  // Sum over the targets of the last round.
  void SetWaiters(uint64_t waiters);

  // What to expose.
  const std::shared_ptr<prometheus::Registry>& registry() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_METRICS_H_
