// Policies as values: validation, merging, differences, and the form that the decision reads.
// Pure; the one place where defaults of TargetPolicy are filled in.
#ifndef FAIRGATE_SERVER_CORE_POLICY_H_
#define FAIRGATE_SERVER_CORE_POLICY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fairgate/v1/admission.pb.h"
#include "fairgate/v1/policy.pb.h"

namespace fairgate {

// Fields as in server/lua/README.md, "compiled as sent": sub-windows applied, defaults filled in.
struct CompiledDimension {
  std::string name;
  double limit = 0;  // units per window
  int64_t window_us = 0;
  std::string model;  // continuous, fixed, sliding
  int64_t phase_us = 0;
  double rate_fraction = 1;
  double burst_fraction = 1;
};

struct CompiledClass {
  std::string name;
  double weight = 1;
  std::optional<double> max_share;
};

struct CompiledTenantCap {
  std::string dimension;
  double limit = 0;
  int64_t window_us = 0;
};

struct CompiledTenant {
  std::string name;
  double weight = 1;
  std::vector<CompiledTenantCap> caps;
};

struct CompiledPolicy {
  std::string discipline;  // queue, buckets
  std::vector<CompiledDimension> dims;
  std::vector<CompiledClass> classes;
  std::string default_class;
  double default_weight = 1;
  bool listed_only = false;
  int64_t max_defer_us = 0;
  int64_t lease_us = 0;
  int64_t retention_us = 0;
  uint32_t places_max = 0;
  std::vector<CompiledTenant> tenants;
};

// kInvalidArgument "field.path: what is allowed, got what" for the first fault found.
absl::Status ValidatePolicy(const v1::TargetPolicy& policy);

// Of a valid policy; an invalid one gives ValidatePolicy's error.
absl::StatusOr<CompiledPolicy> CompilePolicy(const v1::TargetPolicy& policy);

// What a ConfigureRequest makes of the policy in force (empty when there is none): update_mask
// chooses top-level fields, repeated ones are merged by name, `remove` comes last. The result is
// not validated. kInvalidArgument: the mask names no field of TargetPolicy.
absl::StatusOr<v1::TargetPolicy> MergePolicy(const v1::TargetPolicy& current,
                                             const v1::ConfigureRequest& request);

// Field by field, by the names of repeated entries; empty when both say the same.
std::vector<v1::PolicyChange> DiffPolicy(const v1::TargetPolicy& before,
                                         const v1::TargetPolicy& after);

// 1 to 128 bytes of UTF-8 without control characters.
bool IsValidName(const std::string& name);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_CORE_POLICY_H_
