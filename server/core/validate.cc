#include "server/core/validate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/policy.h"

namespace fairgate {
namespace {

constexpr double kAmountMax = 1e12;
constexpr uint32_t kAttemptMax = 1000000;
constexpr size_t kIdBytesMax = 256;
constexpr int kDimensionsMax = 16;
constexpr char kNameRule[] = "must be 1 to 128 bytes of UTF-8 without control characters";

std::string MakeId() {
  thread_local std::mt19937_64 random{[] {
    std::random_device device;  // a single word as seed would leave 64 of the 128 bits
    std::seed_seq seed{device(), device(), device(), device(),
                       device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad16), absl::Hex(random(), absl::kZeroPad16));
}

// Collects faults; each check names its field.
class Checker {
 public:
  std::vector<FieldViolation> violations;

  void Fail(std::string field, std::string description) {
    violations.push_back({std::move(field), std::move(description)});
  }
  void Name(const char* field, const std::string& value) {
    if (!IsValidName(value)) Fail(field, kNameRule);
  }
  void Id(const std::string& value) {
    // the same letters as a name, but longer
    bool good = !value.empty() && value.size() <= kIdBytesMax;
    for (size_t i = 0; good && i < value.size();) {
      size_t n = std::min<size_t>(100, value.size() - i);
      while (i + n < value.size() && n > 0 && (value[i + n] & 0xc0) == 0x80) --n;
      good = n > 0 && IsValidName(value.substr(i, n));
      i += n;
    }
    if (!good) {
      Fail("request_id", "must be 1 to 256 bytes of UTF-8 without control characters");
    }
  }
  uint32_t Attempt(uint32_t attempt) {
    if (attempt > kAttemptMax) {
      Fail("attempt", absl::StrCat("must be at most ", kAttemptMax, ", got ", attempt));
    }
    return std::max(attempt, 1u);
  }
  template <typename Map>
  Amounts Costs(const std::string& field, const Map& map) {
    Amounts out;
    EachDimension(field, map,
                  [&](const std::string& entry, const std::string& name, double amount) {
                    if (Amount(entry, amount)) out.emplace_back(name, amount);
                  });
    return out;
  }
  template <typename Map>
  std::vector<std::pair<std::string, RateLimitStatus>> RateLimits(const std::string& field,
                                                                  const Map& map) {
    std::vector<std::pair<std::string, RateLimitStatus>> out;
    EachDimension(
        field, map,
        [&](const std::string& entry, const std::string& name, const v1::RateLimitStatus& status) {
          RateLimitStatus& told = out.emplace_back(name, RateLimitStatus{}).second;
          if (status.has_remaining() &&
              Amount(absl::StrCat(entry, ".remaining"), status.remaining())) {
            told.remaining = status.remaining();
          }
          if (status.has_reset()) {
            told.reset = Wait(absl::StrCat(entry, ".reset"), status.reset(), absl::ZeroDuration(),
                              absl::Hours(24));
          }
        });
    return out;
  }
  bool Amount(const std::string& field, double amount) {
    const bool good = std::isfinite(amount) && amount >= 0 && amount <= kAmountMax;
    if (!good) Fail(field, absl::StrCat("must be 0 to 1e12, got ", amount));
    return good;
  }
  absl::Duration Wait(const std::string& field, const google::protobuf::Duration& d,
                      absl::Duration low, absl::Duration high) {
    if (const absl::Duration value = ToDuration(field, d); value >= low && value <= high) {
      return value;
    }
    if (violations.empty() || violations.back().field != field) {
      Fail(field, absl::StrCat("must be ", absl::FormatDuration(low), " to ",
                               absl::FormatDuration(high), ", got ", d.seconds(), " s"));
    }
    return absl::ZeroDuration();
  }
  absl::Duration ToDuration(const std::string& field, const google::protobuf::Duration& d) {
    constexpr int64_t kSecondsMax = 315576000000;  // of google.protobuf.Duration
    if (d.seconds() < -kSecondsMax || d.seconds() > kSecondsMax || d.nanos() <= -1000000000 ||
        d.nanos() >= 1000000000 || (d.seconds() > 0 && d.nanos() < 0) ||
        (d.seconds() < 0 && d.nanos() > 0)) {
      Fail(field, "is no valid google.protobuf.Duration");
      return absl::ZeroDuration();
    }
    return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
  }

 private:
  // take(field of the entry, dimension, value) for each entry that names a dimension, in the order
  // of the names: a protobuf map's own order differs from process to process.
  template <typename Map, typename Take>
  void EachDimension(const std::string& field, const Map& map, const Take& take) {
    if (map.size() > kDimensionsMax) {
      Fail(field, absl::StrCat("must have at most ", kDimensionsMax, " entries"));
      return;
    }
    std::vector<const typename Map::value_type*> ordered;
    ordered.reserve(map.size());
    for (const auto& entry : map) ordered.push_back(&entry);
    std::sort(ordered.begin(), ordered.end(),
              [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* entry : ordered) {
      const auto& [name, value] = *entry;
      if (IsValidName(name)) {
        take(absl::StrCat(field, "[\"", name, "\"]"), name, value);
      } else {
        Fail(field, absl::StrCat("a dimension's name ", kNameRule));
      }
    }
  }
};

}  // namespace

std::variant<AdmitQuery, std::vector<FieldViolation>> ValidateAdmit(
    const v1::AdmitRequest& request) {
  Checker check;
  AdmitQuery query;
  check.Name("target", request.target());
  check.Name("tenant", request.tenant());
  if (!request.priority().empty()) check.Name("priority", request.priority());
  query.cost = check.Costs("cost", request.cost());
  if (!v1::CostKind_IsValid(request.cost_kind())) {
    check.Fail("cost_kind", "is no known value");
  }
  if (!v1::AdmitMode_IsValid(request.mode())) check.Fail("mode", "is no known value");
  query.request_id = request.request_id();
  if (query.request_id.empty()) {
    query.request_id = MakeId();
  } else {
    check.Id(query.request_id);
  }
  query.attempt = check.Attempt(request.attempt());
  if (request.has_deadline()) query.deadline = check.ToDuration("deadline", request.deadline());
  const absl::Duration hour = absl::Hours(1);
  if (request.has_timer_floor()) {
    query.timer_floor =
        check.Wait("timer_floor", request.timer_floor(), absl::ZeroDuration(), hour);
  }
  if (request.has_max_hold()) {
    query.max_hold = check.Wait("max_hold", request.max_hold(), absl::ZeroDuration(), hour);
  }
  if (!check.violations.empty()) return std::move(check.violations);
  query.target = request.target();
  query.tenant = request.tenant();
  query.priority = request.priority();
  query.upper_bound = request.cost_kind() == v1::COST_KIND_UPPER_BOUND;
  query.check_only = request.mode() == v1::ADMIT_MODE_CHECK_ONLY;
  return query;
}

std::variant<ReleaseQuery, std::vector<FieldViolation>> ValidateRelease(
    const v1::ReleaseRequest& request) {
  Checker check;
  ReleaseQuery query;
  check.Name("target", request.target());
  check.Id(request.request_id());
  query.attempt = check.Attempt(request.attempt());
  switch (request.action_case()) {
    case v1::ReleaseRequest::kSettle: {
      const v1::Settle& settle = request.settle();
      query.action = ReleaseAction::kSettle;
      query.usage = check.Costs("settle.actual", settle.actual());
      if (!v1::CallOutcome_IsValid(settle.outcome())) {
        check.Fail("settle.outcome", "is no known value");
      } else {
        query.outcome = static_cast<CallOutcome>(settle.outcome());
      }
      if (settle.has_retry_after()) {
        query.retry_after = check.Wait("settle.retry_after", settle.retry_after(),
                                       absl::ZeroDuration(), absl::Hours(24));
      }
      query.rate_limits = check.RateLimits("settle.rate_limits", settle.rate_limits());
      break;
    }
    case v1::ReleaseRequest::kWithdraw:
      query.action = ReleaseAction::kWithdraw;
      break;
    case v1::ReleaseRequest::kExtend:
      query.action = ReleaseAction::kExtend;
      query.usage = check.Costs("extend.used_so_far", request.extend().used_so_far());
      if (request.extend().has_lease_ttl()) {
        query.lease_ttl = check.Wait("extend.lease_ttl", request.extend().lease_ttl(),
                                     absl::Milliseconds(1), absl::Hours(1));
      }
      break;
    case v1::ReleaseRequest::ACTION_NOT_SET:
      check.Fail("action", "one of settle, withdraw, extend is required");
  }
  if (!check.violations.empty()) return std::move(check.violations);
  query.target = request.target();
  query.request_id = request.request_id();
  return query;
}

static_assert(static_cast<int>(CallOutcome::kNotSent) == v1::CALL_OUTCOME_NOT_SENT &&
              static_cast<int>(CallOutcome::kRateLimited) == v1::CALL_OUTCOME_RATE_LIMITED);

}  // namespace fairgate
