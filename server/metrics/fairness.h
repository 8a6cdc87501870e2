// How fair a target was: pure functions over allocations and over two snapshots of its state.
#ifndef FAIRGATE_SERVER_METRICS_FAIRNESS_H_
#define FAIRGATE_SERVER_METRICS_FAIRNESS_H_

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "fairgate/v1/admin.pb.h"

namespace fairgate {

// One flow that wants service.
struct FairFlow {
  size_t class_index = 0;
  double weight = 1;  // inside its class, > 0
  // Part of each dimension's cap taken per unit of dominant share; the greatest entry is 1.
  std::vector<double> profile;
  // Most dominant share it can use, in the caps' unit.
  double demand = std::numeric_limits<double>::infinity();
};

// The weighted max-min allocation of dominant share (hierarchical DRF by water-filling): classes
// rise in proportion to class_weights, the flows of a class divide its rise by their weights; a
// flow stops when its demand is met or a dimension it uses is full, and what it leaves goes to its
// class first. Classes of weight 0 get what the others leave. `capacity` is how much there is of
// each dimension (1: one second of the cap). Answers one dominant share per flow.
std::vector<double> MaxMinShares(const std::vector<double>& class_weights,
                                 const std::vector<FairFlow>& flows,
                                 const std::vector<double>& capacity);

// What a target did between two snapshots, against the ideal for those who had work waiting.
struct Fairness {
  // Service had / ideal service, of classes with waiters in both snapshots.
  std::map<std::string, double> class_achievement;
  // Jain's index over the same ratio of the flows with waiters in both snapshots; 1 when fewer
  // than two had.
  double jain_index = 1;
};

// The ideal is the MaxMinShares of the service that was given in the interval, where who had
// nothing waiting wanted exactly what it got. Snapshots of different policies compare by name.
Fairness MeasureFairness(const v1::InspectTargetResponse& before,
                         const v1::InspectTargetResponse& after);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_FAIRNESS_H_
