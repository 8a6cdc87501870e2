// Looks at the targets when somebody scrapes, at most once per interval.
#ifndef FAIRGATE_SERVER_METRICS_COLLECTOR_H_
#define FAIRGATE_SERVER_METRICS_COLLECTOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/metrics/metrics.h"
#include "server/store/admission_store.h"

namespace fairgate {

// A prometheus::Collectable without metrics of its own: a scrape makes it refresh the target gauges
// of Metrics. The refresh is asynchronous, so a scrape shows the look that the scrape before it
// asked for and never waits for the store.
class TargetCollector : public prometheus::Collectable {
 public:
  // Runs before each refresh, for gauges that others hold (the length of the replay queue).
  using Refresh = std::function<void()>;

  // Both must outlive the collector; call Stop() before the store goes.
  TargetCollector(AdmissionStore* store, Metrics* metrics, Refresh refresh,
                  std::chrono::seconds interval = std::chrono::seconds(5));
  ~TargetCollector() override;

  std::vector<prometheus::MetricFamily> Collect() const override;

  // No store call starts after this; answers that come later are dropped.
  void Stop();

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_COLLECTOR_H_
