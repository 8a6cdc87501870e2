// What a policy may say.
#include "server/core/policy.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

using google::protobuf::Duration;

constexpr double kAmountMax = 1e12;
constexpr double kWeightMax = 1e6;
constexpr int64_t kMs = 1000, kSecond = 1000000, kHour = 3600 * kSecond, kDay = 24 * kHour;

int64_t Micros(const Duration& d) { return d.seconds() * kSecond + d.nanos() / 1000; }

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckNumber(const std::string& field, double value, double low, double high,
                         bool open_low) {
  if (std::isfinite(value) && value <= high && (open_low ? value > low : value >= low)) {
    return absl::OkStatus();
  }
  return Bad(field, ": must be ", open_low ? "above " : "", low, open_low ? ", at most " : " to ",
             high, ", got ", value);
}

absl::Status CheckDuration(const std::string& field, const Duration& d, int64_t low_us,
                           int64_t high_us) {
  // seconds first: a huge value must not overflow the product
  if (d.seconds() >= 0 && d.seconds() <= kDay / kSecond && d.nanos() >= 0 &&
      d.nanos() < 1000000000 && Micros(d) >= low_us && Micros(d) <= high_us) {
    return absl::OkStatus();
  }
  return Bad(field, ": must be ", static_cast<double>(low_us) / 1e6, " s to ",
             static_cast<double>(high_us) / 1e6, " s, got ",
             static_cast<double>(d.seconds()) + d.nanos() / 1e9, " s");
}

absl::Status CheckName(const std::string& field, const std::string& name,
                       std::set<std::string>* seen) {
  if (!IsValidName(name)) {
    return Bad(field, ".name: must be 1 to 128 bytes of UTF-8 without control characters");
  }
  if (!seen->insert(name).second) return Bad(field, ".name: \"", name, "\" stands there twice");
  return absl::OkStatus();
}

std::string Path(const char* list, const std::string& name) {
  return absl::StrCat(list, "[", name, "]");
}

absl::Status CheckLimit(const std::string& field, bool has_limit, double limit, bool has_window,
                        const Duration& window) {
  if (!has_limit) return Bad(field, ".limit: is required");
  if (auto s = CheckNumber(field + ".limit", limit, 0, kAmountMax, false); !s.ok()) return s;
  if (!has_window) return Bad(field, ".window: is required");
  return CheckDuration(field + ".window", window, kMs, kDay);
}

absl::Status CheckDimension(const v1::DimensionPolicy& d) {
  const std::string field = Path("dimensions", d.name());
  if (auto s = CheckLimit(field, d.has_limit(), d.limit(), d.has_window(), d.window()); !s.ok()) {
    return s;
  }
  if (!v1::WindowModel_IsValid(d.window_model())) return Bad(field, ".window_model: unknown");
  if (d.has_window_phase()) {
    if (d.window_model() != v1::WINDOW_MODEL_FIXED) {
      return Bad(field, ".window_phase: only with window_model fixed");
    }
    if (auto s = CheckDuration(field + ".window_phase", d.window_phase(), 0, Micros(d.window()));
        !s.ok()) {
      return s;
    }
  }
  if (d.has_sub_window()) {
    if (auto s = CheckDuration(field + ".sub_window", d.sub_window(), kMs, Micros(d.window()));
        !s.ok()) {
      return s;
    }
  }
  if (d.has_rate_fraction()) {
    if (auto s = CheckNumber(field + ".rate_fraction", d.rate_fraction(), 0, 1, true); !s.ok()) {
      return s;
    }
  }
  if (d.has_burst_fraction()) {
    return CheckNumber(field + ".burst_fraction", d.burst_fraction(), 0, 1, true);
  }
  return absl::OkStatus();
}

absl::Status CheckClasses(const v1::TargetPolicy& policy) {
  if (policy.classes_size() > 64) return Bad("classes: at most 64");
  std::set<std::string> names;
  for (const v1::ClassPolicy& c : policy.classes()) {
    const std::string field = Path("classes", c.name());
    if (auto s = CheckName(field, c.name(), &names); !s.ok()) return s;
    if (c.has_weight()) {
      if (auto s = CheckNumber(field + ".weight", c.weight(), 0, kWeightMax, false); !s.ok()) {
        return s;
      }
    }
    if (c.has_max_share()) {
      if (auto s = CheckNumber(field + ".max_share", c.max_share(), 0, 1, true); !s.ok()) return s;
    }
  }
  if (!policy.default_class().empty() && !names.contains(policy.default_class()) &&
      !(names.empty() && policy.default_class() == "default")) {
    return Bad("default_class: \"", policy.default_class(), "\" is not among the classes");
  }
  return absl::OkStatus();
}

absl::Status CheckTenants(const v1::TargetPolicy& policy, const std::set<std::string>& dimensions) {
  if (policy.tenants_size() > 10000) return Bad("tenants: at most 10000");
  std::set<std::string> names;
  for (const v1::TenantPolicy& t : policy.tenants()) {
    const std::string field = Path("tenants", t.name());
    if (auto s = CheckName(field, t.name(), &names); !s.ok()) return s;
    if (t.has_weight()) {
      if (auto s = CheckNumber(field + ".weight", t.weight(), 0, kWeightMax, true); !s.ok()) {
        return s;
      }
    }
    std::set<std::string> capped;
    for (const v1::TenantCap& cap : t.caps()) {
      const std::string cap_field = absl::StrCat(field, ".caps[", cap.dimension(), "]");
      if (!dimensions.contains(cap.dimension())) {
        return Bad(cap_field, ".dimension: the target has no such dimension");
      }
      if (!capped.insert(cap.dimension()).second) {
        return Bad(cap_field, ".dimension: stands there twice");
      }
      if (auto s =
              CheckLimit(cap_field, cap.has_limit(), cap.limit(), cap.has_window(), cap.window());
          !s.ok()) {
        return s;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsValidName(const std::string& name) {
  if (name.empty() || name.size() > 128) return false;
  size_t i = 0;
  while (i < name.size()) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c < 0x20 || c == 0x7f) return false;
    const size_t more = c < 0x80         ? 0
                        : (c >> 5) == 6  ? 1
                        : (c >> 4) == 14 ? 2
                        : (c >> 3) == 30 ? 3
                                         : 4;
    if (more == 4 || i + more >= name.size() + (more == 0 ? 1 : 0)) return false;
    uint32_t code = more == 0 ? c : c & (0x3fU >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(name[i + k]);
      if ((next >> 6) != 2) return false;
      code = code << 6 | (next & 0x3fU);
    }
    static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ||
        (code >= 0x80 && code < 0xa0)) {
      return false;  // overlong, surrogate, out of range, or a C1 control
    }
    i += more + 1;
  }
  return true;
}

absl::Status ValidatePolicy(const v1::TargetPolicy& policy) {
  if (!IsValidName(policy.name())) {
    return Bad("name: must be 1 to 128 bytes of UTF-8 without control characters");
  }
  if (policy.dimensions_size() < 1 || policy.dimensions_size() > 16) {
    return Bad("dimensions: must be 1 to 16, got ", policy.dimensions_size());
  }
  std::set<std::string> dimensions;
  for (const v1::DimensionPolicy& d : policy.dimensions()) {
    if (auto s = CheckName(Path("dimensions", d.name()), d.name(), &dimensions); !s.ok()) return s;
    if (auto s = CheckDimension(d); !s.ok()) return s;
  }
  if (auto s = CheckClasses(policy); !s.ok()) return s;
  if (auto s = CheckTenants(policy, dimensions); !s.ok()) return s;
  if (policy.has_default_tenant_weight()) {
    if (auto s = CheckNumber("default_tenant_weight", policy.default_tenant_weight(), 0, kWeightMax,
                             true);
        !s.ok()) {
      return s;
    }
  }
  if (!v1::Discipline_IsValid(policy.discipline())) return Bad("discipline: unknown");
  if (!v1::StoreLossMode_IsValid(policy.on_store_loss())) return Bad("on_store_loss: unknown");
  if (policy.has_max_defer()) {
    if (auto s = CheckDuration("max_defer", policy.max_defer(), kMs, kDay); !s.ok()) return s;
  }
  if (policy.has_lease_ttl()) {
    if (auto s = CheckDuration("lease_ttl", policy.lease_ttl(), kMs, kHour); !s.ok()) return s;
  }
  if (policy.has_id_retention()) {
    if (auto s = CheckDuration("id_retention", policy.id_retention(), kSecond, kDay); !s.ok()) {
      return s;
    }
  }
  if (policy.places_per_flow_max() > 100000) {
    return Bad("places_per_flow_max: must be 1 to 100000, got ", policy.places_per_flow_max());
  }
  return absl::OkStatus();
}

}  // namespace fairgate
