// The questions of server/store/script_codec.h.
#include <string>
#include <string_view>
#include <vector>

#include "server/store/packer.h"
#include "server/store/script_codec.h"

namespace fairgate {
namespace {

std::string_view OutcomeText(CallOutcome outcome) {
  switch (outcome) {
    case CallOutcome::kOk:
      return "ok";
    case CallOutcome::kRateLimited:
      return "rate_limited";
    case CallOutcome::kServerError:
      return "server_error";
    case CallOutcome::kTimeout:
      return "timeout";
    case CallOutcome::kNotSent:
      return "not_sent";
    case CallOutcome::kUnknown:
      break;
  }
  return "unknown";
}

void PackClock(TestClock clock, MapPacker* map) {
  if (clock.has_value()) map->Integer("clock_us", *clock);
}

// Up: who asks for 1 ns waits 1 us.
int64_t CeilMicros(absl::Duration duration) {
  return absl::ToInt64Microseconds(absl::Ceil(duration, absl::Microseconds(1)));
}

std::string PackRateLimits(const ReleaseQuery& query) {
  MapPacker limits;
  for (const auto& [name, told] : query.rate_limits) {
    MapPacker entry;
    if (told.remaining.has_value()) entry.Number("remaining", *told.remaining);
    if (told.reset.has_value()) entry.Integer("reset_us", CeilMicros(*told.reset));
    limits.Raw(name, entry.Finish());
  }
  return limits.Finish();
}

}  // namespace

std::string EncodeAdmit(const AdmitQuery& query, TestClock clock) {
  MapPacker map;
  map.Text("ask", "admit");
  map.Text("tenant", query.tenant);
  if (!query.priority.empty()) map.Text("class", query.priority);
  map.Map("cost", query.cost);
  map.Flag("bound", query.upper_bound);
  map.Text("id", query.request_id);
  if (query.attempt != 1) map.Integer("attempt", query.attempt);
  if (query.deadline.has_value()) {
    map.Integer("deadline_us", absl::ToInt64Microseconds(*query.deadline));
  }
  if (query.timer_floor > absl::ZeroDuration()) {
    map.Integer("timer_floor_us", CeilMicros(query.timer_floor));
  }
  if (query.max_hold > absl::ZeroDuration()) {
    map.Integer("hold_us", absl::ToInt64Microseconds(query.max_hold));
  }
  map.Flag("held", query.held);
  map.Flag("check", query.check_only);
  map.Flag("force", query.forced);
  PackClock(clock, &map);
  return map.Finish();
}

std::string EncodeRelease(const ReleaseQuery& query, TestClock clock) {
  MapPacker map;
  map.Text("ask", "release");
  map.Text("id", query.request_id);
  map.Integer("attempt", query.attempt);
  map.Text("action", query.action == ReleaseAction::kSettle     ? "settle"
                     : query.action == ReleaseAction::kWithdraw ? "withdraw"
                                                                : "extend");
  map.Text("outcome", OutcomeText(query.outcome));
  map.Map("usage", query.usage);
  map.Integer("retry_after_us", CeilMicros(query.retry_after));
  if (!query.rate_limits.empty()) map.Raw("rate_limits", PackRateLimits(query));
  if (query.lease_ttl.has_value()) map.Integer("lease_us", CeilMicros(*query.lease_ttl));
  PackClock(clock, &map);
  return map.Finish();
}

std::string EncodeInspect(uint32_t flows_max, TestClock clock) {
  MapPacker map;
  map.Integer("flows_max", flows_max);
  PackClock(clock, &map);
  return map.Finish();
}

std::string EncodeDelete(uint64_t expected_version, TestClock clock) {
  MapPacker map;
  map.Flag("delete", true);
  map.Integer("expected_version", static_cast<int64_t>(expected_version));
  PackClock(clock, &map);
  return map.Finish();
}

std::string EncodeConfigure(const CompiledPolicy& policy, const std::string& source,
                            uint64_t expected_version, TestClock clock) {
  std::vector<std::string> dims, classes;
  for (const CompiledDimension& d : policy.dims) {
    MapPacker w;
    w.Text("name", d.name);
    w.Number("limit", d.limit);
    w.Integer("window_us", d.window_us);
    w.Text("model", d.model);
    w.Integer("phase_us", d.phase_us);
    w.Number("rate_fraction", d.rate_fraction);
    w.Number("burst_fraction", d.burst_fraction);
    dims.push_back(w.Finish());
  }
  for (const CompiledClass& c : policy.classes) {
    MapPacker w;
    w.Text("name", c.name);
    w.Number("weight", c.weight);
    if (c.max_share) w.Number("max_share", *c.max_share);
    classes.push_back(w.Finish());
  }
  MapPacker tenants;
  for (const CompiledTenant& t : policy.tenants) {
    std::vector<std::string> caps;
    for (const CompiledTenantCap& cap : t.caps) {
      MapPacker w;
      w.Text("dimension", cap.dimension);
      w.Number("limit", cap.limit);
      w.Integer("window_us", cap.window_us);
      caps.push_back(w.Finish());
    }
    MapPacker w;
    w.Number("weight", t.weight);
    if (!caps.empty()) w.Raw("caps", MapPacker::Array(caps));
    tenants.Raw(t.name, w.Finish());
  }
  MapPacker compiled;
  compiled.Text("discipline", policy.discipline);
  compiled.Raw("dims", MapPacker::Array(dims));
  compiled.Raw("classes", MapPacker::Array(classes));
  compiled.Text("default_class", policy.default_class);
  compiled.Number("default_weight", policy.default_weight);
  compiled.Flag("listed_only", policy.listed_only);
  compiled.Integer("max_defer_us", policy.max_defer_us);
  compiled.Integer("lease_us", policy.lease_us);
  compiled.Integer("retention_us", policy.retention_us);
  compiled.Integer("places_max", policy.places_max);
  MapPacker writer;
  writer.Integer("expected_version", static_cast<int64_t>(expected_version));
  writer.Text("source", source);
  writer.Raw("compiled", compiled.Finish());
  writer.Raw("tenants", tenants.Finish());
  PackClock(clock, &writer);
  return writer.Finish();
}

}  // namespace fairgate
