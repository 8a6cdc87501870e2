// The form of a policy that the decision reads, with every default filled in.
#include <algorithm>
#include <cmath>

#include "server/core/policy.h"

namespace fairgate {
namespace {

using google::protobuf::Duration;

constexpr int64_t kSecond = 1000000, kHour = 3600 * kSecond;

int64_t Micros(const Duration& d) { return d.seconds() * kSecond + d.nanos() / 1000; }

int64_t MicrosOr(bool has, const Duration& d, int64_t fallback) {
  return has ? Micros(d) : fallback;
}

// From `at_1s` for windows up to 1 s down to `at_60s` from 60 s on, along the window's logarithm.
double SpreadFraction(int64_t window_us, double at_1s, double at_60s) {
  const double seconds = std::clamp(static_cast<double>(window_us) / 1e6, 1.0, 60.0);
  return at_1s + (at_60s - at_1s) * std::log(seconds) / std::log(60.0);
}

CompiledDimension Compile(const v1::DimensionPolicy& d) {
  CompiledDimension out;
  out.name = d.name();
  out.limit = d.limit();
  out.window_us = Micros(d.window());
  if (d.has_sub_window()) {
    const int64_t sub = Micros(d.sub_window());
    out.limit *= static_cast<double>(sub) / static_cast<double>(out.window_us);
    out.window_us = sub;
  }
  out.phase_us = Micros(d.window_phase());
  double rate = 1, burst = 0;
  switch (d.window_model()) {
    case v1::WINDOW_MODEL_CONTINUOUS:
      out.model = "continuous";
      rate = 0.995;
      burst = 0.9;
      break;
    case v1::WINDOW_MODEL_FIXED:
      out.model = "fixed";
      burst = SpreadFraction(out.window_us, 0.2, 0.05);
      break;
    case v1::WINDOW_MODEL_FIXED_LEARNT:  // spread as what it is until the phase is known
      out.model = "fixed_learnt";
      burst = SpreadFraction(out.window_us, 0.2, 0.03);
      break;
    default:
      out.model = "sliding";
      burst = SpreadFraction(out.window_us, 0.2, 0.03);
  }
  out.rate_fraction = d.has_rate_fraction() ? d.rate_fraction() : rate;
  out.burst_fraction = d.has_burst_fraction() ? d.burst_fraction() : burst;
  return out;
}

void CompileClasses(const v1::TargetPolicy& policy, CompiledPolicy* out) {
  double sum = 0;
  for (const v1::ClassPolicy& c : policy.classes()) sum += c.has_weight() ? c.weight() : 1;
  for (const v1::ClassPolicy& c : policy.classes()) {
    CompiledClass k;
    k.name = c.name();
    k.weight = c.has_weight() ? c.weight() : 1;
    if (c.has_max_share()) k.max_share = c.max_share();
    if (c.hard() && sum > 0 && k.weight > 0) {
      k.max_share = std::min(k.max_share.value_or(1), k.weight / sum);
    }
    out->classes.push_back(std::move(k));
  }
  if (out->classes.empty()) out->classes.push_back({"default", 1, std::nullopt});
  out->default_class = policy.default_class();
  if (out->default_class.empty()) {
    const CompiledClass* least = &out->classes.front();
    for (const CompiledClass& c : out->classes) {
      if (c.weight <= least->weight) least = &c;
    }
    out->default_class = least->name;
  }
}

}  // namespace

absl::StatusOr<CompiledPolicy> CompilePolicy(const v1::TargetPolicy& policy) {
  if (absl::Status status = ValidatePolicy(policy); !status.ok()) return status;
  CompiledPolicy out;
  out.discipline = policy.discipline() == v1::DISCIPLINE_BUCKETS ? "buckets" : "queue";
  for (const v1::DimensionPolicy& d : policy.dimensions()) out.dims.push_back(Compile(d));
  CompileClasses(policy, &out);
  if (policy.has_default_tenant_weight()) out.default_weight = policy.default_tenant_weight();
  out.listed_only = policy.listed_tenants_only();
  out.max_defer_us = MicrosOr(policy.has_max_defer(), policy.max_defer(), 300 * kSecond);
  out.lease_us = MicrosOr(policy.has_lease_ttl(), policy.lease_ttl(), 60 * kSecond);
  out.retention_us = MicrosOr(policy.has_id_retention(), policy.id_retention(), kHour);
  out.places_max = policy.places_per_flow_max() > 0 ? policy.places_per_flow_max() : 1000;
  for (const v1::TenantPolicy& t : policy.tenants()) {
    CompiledTenant tenant{t.name(), t.has_weight() ? t.weight() : out.default_weight, {}};
    for (const v1::TenantCap& cap : t.caps()) {
      tenant.caps.push_back({cap.dimension(), cap.limit(), Micros(cap.window())});
    }
    out.tenants.push_back(std::move(tenant));
  }
  return out;
}

}  // namespace fairgate
