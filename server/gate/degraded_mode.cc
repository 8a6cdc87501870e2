#include "server/gate/degraded_mode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

constexpr absl::Duration kGatesKept = absl::Minutes(1);
constexpr size_t kRememberedMax = 100000;  // degraded grants kept for the store's return

double CostIn(const AdmitQuery& query, const std::string& dimension) {
  for (const auto& [name, amount] : query.cost) {
    if (name == dimension) return amount;
  }
  return dimension == "requests" ? 1 : 0;
}

std::string KeyOf(const std::string& target, const std::string& request_id, uint32_t attempt) {
  return absl::StrCat(target.size(), ":", target, request_id, "#", attempt);
}

// The script would refuse these, and a grant of them could never be debited.
absl::Status CheckNames(const AdmitQuery& query, const CompiledPolicy& policy) {
  const auto has = [](const auto& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(), [&](const auto& e) { return e.name == name; });
  };
  if (!query.priority.empty() && !has(policy.classes, query.priority)) {
    return absl::InvalidArgumentError(
        absl::StrCat("priority: the target has no class \"", query.priority, "\""));
  }
  for (const auto& [name, amount] : query.cost) {
    if (!has(policy.dims, name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost[\"", name, "\"]: the target has no such dimension"));
    }
  }
  return absl::OkStatus();
}

bool IsListed(const std::string& tenant, const CompiledPolicy& policy) {
  return std::any_of(policy.tenants.begin(), policy.tenants.end(),
                     [&](const CompiledTenant& t) { return t.name == tenant; });
}

Defer MakeDefer(const AdmitQuery& query, const CompiledPolicy& policy,
                const LocalCaps::Answer& answer) {
  constexpr absl::Duration kGrain = absl::Milliseconds(1);
  Defer defer;
  defer.projected_wait = absl::Ceil(answer.wait, kGrain);
  const absl::Duration most = std::max(kGrain, absl::Microseconds(policy.max_defer_us));
  defer.retry_delay =
      absl::Ceil(std::clamp(std::max(answer.wait, query.timer_floor), kGrain, most), kGrain);
  defer.limited_by.push_back({Layer::kTarget, answer.limited_by});
  return defer;
}

}  // namespace

void DegradedMode::Learn(const StoredPolicy& stored) {
  auto compiled = CompilePolicy(stored.policy);
  if (!compiled.ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Target& target = targets_[stored.policy.name()];
  target.version = stored.version;
  target.policy = *std::move(compiled);
  target.mode = stored.policy.on_store_loss() == v1::STORE_LOSS_MODE_UNSPECIFIED
                    ? v1::STORE_LOSS_MODE_BOUNDED
                    : stored.policy.on_store_loss();
}

void DegradedMode::Forget(const std::string& target) {
  const std::lock_guard<std::mutex> lock(mutex_);
  targets_.erase(target);
}

uint64_t DegradedMode::KnownVersion(const std::string& target) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = targets_.find(target);
  return it == targets_.end() ? 0 : it->second.version;
}

void DegradedMode::SetGates(uint32_t gates, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  gates = std::max(gates, 1u);
  if (gates < gates_ && now - gates_seen_ < kGatesKept) return;
  gates_ = gates;
  gates_seen_ = now;
}

absl::StatusOr<Decision> DegradedMode::Admit(const AdmitQuery& query, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = targets_.find(query.target);
  if (it == targets_.end() || it->second.mode == v1::STORE_LOSS_MODE_CLOSED) {
    return absl::UnavailableError("the store cannot be reached");
  }
  Target& target = it->second;
  if (absl::Status status = CheckNames(query, target.policy); !status.ok()) return status;
  Decision decision;
  decision.request_id = query.request_id;
  decision.attempt = query.attempt;
  decision.degraded = true;
  decision.config_version = target.version;
  decision.facts.priority = query.priority.empty() ? target.policy.default_class : query.priority;
  if (target.policy.listed_only && !IsListed(query.tenant, target.policy)) {
    Reject reject;
    reject.reason = RejectReason::kTenantNotListed;
    reject.message = absl::StrCat("tenant \"", query.tenant, "\" is not listed");
    decision.outcome = std::move(reject);
    return decision;
  }
  const std::string key = KeyOf(query.target, query.request_id, query.attempt);
  const bool repeated = numbers_.contains(key);
  Grant grant;
  grant.lease_expires_in = absl::Microseconds(target.policy.lease_us);
  grant.repeated = repeated;
  std::vector<LocalCaps::Cost> costs;
  for (const CompiledDimension& d : target.policy.dims) {
    const double cost = CostIn(query, d.name);
    if (cost <= 0) continue;
    grant.debited.emplace_back(d.name, cost);
    if (repeated || target.mode == v1::STORE_LOSS_MODE_OPEN) continue;
    const double part = d.limit / gates_;
    if (part <= 0 || cost > d.limit) {
      Reject reject;
      reject.reason = part <= 0 ? RejectReason::kTargetDisabled : RejectReason::kCostExceedsCap;
      reject.dimension = d.name;
      reject.message = absl::StrCat("\"", d.name, "\" can hold ", d.limit, " at most");
      decision.outcome = std::move(reject);
      return decision;
    }
    costs.push_back({d.name, cost, part, part / (static_cast<double>(d.window_us) / 1e6)});
  }
  const LocalCaps::Answer answer = target.caps.Ask(key, costs, now);
  if (answer.wait > absl::ZeroDuration()) {
    Defer defer = MakeDefer(query, target.policy, answer);
    if (!query.check_only) target.caps.Promise(key, costs, now + defer.retry_delay);
    decision.outcome = std::move(defer);
    return decision;
  }
  if (!repeated && !query.check_only) {
    target.caps.Take(key, costs);
    Remember(query);
  }
  decision.outcome = std::move(grant);
  return decision;
}

std::vector<AdmitQuery> DegradedMode::Granted(uint64_t* cursor, size_t most,
                                              const std::set<std::string>& skipped) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<AdmitQuery> out;
  for (auto it = granted_.upper_bound(*cursor); it != granted_.end() && out.size() < most; ++it) {
    *cursor = it->first;
    if (!skipped.contains(it->second.target)) out.push_back(it->second);
  }
  return out;
}

void DegradedMode::Debited(const AdmitQuery& query) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = numbers_.find(KeyOf(query.target, query.request_id, query.attempt));
  if (it == numbers_.end()) return;
  granted_.erase(it->second);
  numbers_.erase(it);
}

bool DegradedMode::IsPending(const std::string& target, const std::string& request_id,
                             uint32_t attempt) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return numbers_.contains(KeyOf(target, request_id, attempt));
}

void DegradedMode::Remember(const AdmitQuery& query) {
  granted_.emplace(++last_number_, query);
  numbers_[KeyOf(query.target, query.request_id, query.attempt)] = last_number_;
  if (granted_.size() <= kRememberedMax) return;
  const AdmitQuery& oldest = granted_.begin()->second;
  numbers_.erase(KeyOf(oldest.target, oldest.request_id, oldest.attempt));
  granted_.erase(granted_.begin());
}

}  // namespace fairgate
