// What `fairgate load` measured, and its table.
#ifndef FAIRGATE_CLIENT_CLI_LOAD_REPORT_H_
#define FAIRGATE_CLIENT_CLI_LOAD_REPORT_H_

#include <google/protobuf/struct.pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace fairgate::cli {

struct FlowTally {
  uint64_t admits = 0;
  uint64_t grants = 0;
  uint64_t rejects = 0;
  uint64_t degraded = 0;
  uint64_t errors = 0;
  std::vector<double> waits_s;  // from the first ask to the grant, seconds

  void Add(const FlowTally& other);
};

// By class and tenant.
using FlowTallies = std::map<std::pair<std::string, std::string>, FlowTally>;

// The value that the given part (0 to 1) of the values does not exceed (nearest rank); 0 for none.
double Quantile(std::vector<double> values, double part);

// Rows per class and per flow with grants per second, share, calls per grant and waits, and Jain's
// index over the tenants of each class (grants, not weighted).
google::protobuf::Struct ToJson(const FlowTallies& tallies, absl::Duration elapsed);
std::string ToTable(const FlowTallies& tallies, absl::Duration elapsed);

}  // namespace fairgate::cli

#endif  // FAIRGATE_CLIENT_CLI_LOAD_REPORT_H_
