// The answers of server/store/script_codec.h.
#include "server/store/script_codec.h"

#include <cmath>
#include <msgpack.hpp>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/duration.pb.h"

namespace fairgate {
namespace {

constexpr double kIntegerMax = 9007199254740992.0;  // 2^53: beyond it Lua cannot count

// A map of an answer. Remembers the first thing that was wrong; readers go on with zeros.
class Reader {
 public:
  Reader(const msgpack::object& object, bool* ok) : object_(object), ok_(ok) {
    if (object.type != msgpack::type::MAP && !EmptyArray(object)) *ok_ = false;
  }

  const msgpack::object* Find(std::string_view key) const {
    if (object_.type != msgpack::type::MAP) return nullptr;
    for (uint32_t i = 0; i < object_.via.map.size; ++i) {
      const msgpack::object_kv& pair = object_.via.map.ptr[i];
      if (pair.key.type == msgpack::type::STR &&
          std::string_view(pair.key.via.str.ptr, pair.key.via.str.size) == key) {
        return pair.val.type == msgpack::type::NIL ? nullptr : &pair.val;
      }
    }
    return nullptr;
  }
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  std::string Text(std::string_view key, bool required = true) const {
    const msgpack::object* found = Find(key);
    if (found == nullptr) {
      if (required) *ok_ = false;
      return "";
    }
    return AsText(*found);
  }
  std::string AsText(const msgpack::object& object) const {
    if (object.type != msgpack::type::STR) {
      *ok_ = false;
      return "";
    }
    return std::string(object.via.str.ptr, object.via.str.size);
  }
  double Number(std::string_view key, bool required = true) const {
    const msgpack::object* found = Find(key);
    if (found == nullptr) {
      if (required) *ok_ = false;
      return 0;
    }
    return AsNumber(*found);
  }
  double AsNumber(const msgpack::object& object) const {
    double value = 0;
    switch (object.type) {
      case msgpack::type::POSITIVE_INTEGER:
        return static_cast<double>(object.via.u64);
      case msgpack::type::NEGATIVE_INTEGER:
        return static_cast<double>(object.via.i64);
      case msgpack::type::FLOAT32:
      case msgpack::type::FLOAT64:
        value = object.via.f64;
        break;
      default:
        *ok_ = false;
    }
    if (!std::isfinite(value)) *ok_ = false;
    return std::isfinite(value) ? value : 0;
  }
  int64_t Integer(std::string_view key, bool required = true) const {
    const double value = Number(key, required);
    if (value != std::floor(value) || std::abs(value) > kIntegerMax) {
      *ok_ = false;
      return 0;
    }
    return static_cast<int64_t>(value);
  }
  uint64_t Count(std::string_view key, bool required = true) const {
    const int64_t value = Integer(key, required);
    if (value < 0) *ok_ = false;
    return value < 0 ? 0 : static_cast<uint64_t>(value);
  }
  absl::Duration Micros(std::string_view key, bool required = true) const {
    return absl::Microseconds(Integer(key, required));
  }
  bool Flag(std::string_view key) const {
    const msgpack::object* found = Find(key);
    if (found == nullptr) return false;
    if (found->type != msgpack::type::BOOLEAN) *ok_ = false;
    return found->type == msgpack::type::BOOLEAN && found->via.boolean;
  }
  Amounts Map(std::string_view key, bool required = true) const {
    Amounts amounts;
    const msgpack::object* found = Find(key);
    if (found == nullptr) {
      if (required) *ok_ = false;
      return amounts;
    }
    if (EmptyArray(*found)) return amounts;
    if (found->type != msgpack::type::MAP) {
      *ok_ = false;
      return amounts;
    }
    for (uint32_t i = 0; i < found->via.map.size; ++i) {
      const msgpack::object_kv& pair = found->via.map.ptr[i];
      amounts.emplace_back(AsText(pair.key), AsNumber(pair.val));
    }
    return amounts;
  }
  // Lua's empty table may be a map or an array.
  std::vector<const msgpack::object*> List(std::string_view key) const {
    std::vector<const msgpack::object*> list;
    const msgpack::object* found = Find(key);
    if (found != nullptr && found->type == msgpack::type::ARRAY) {
      for (uint32_t i = 0; i < found->via.array.size; ++i) {
        list.push_back(&found->via.array.ptr[i]);
      }
    } else if (found == nullptr || found->type != msgpack::type::MAP || found->via.map.size != 0) {
      *ok_ = false;
    }
    return list;
  }

 private:
  static bool EmptyArray(const msgpack::object& object) {
    return object.type == msgpack::type::ARRAY && object.via.array.size == 0;
  }

  const msgpack::object& object_;
  bool* ok_;
};

absl::Status Malformed(std::string_view script) {
  return absl::InternalError(
      absl::StrCat("script ", std::string(script), " gave a malformed answer"));
}

// Parses one answer and hands it to `read`, which fills a T or returns a failure.
template <typename T, typename Read>
absl::StatusOr<T> Decode(std::string_view script, std::string_view bytes, Read read) {
  msgpack::object_handle handle;
  try {
    size_t offset = 0;
    handle = msgpack::unpack(bytes.data(), bytes.size(), offset, nullptr, nullptr,
                             msgpack::unpack_limit(100000, 100000, 16u << 20, 0, 0, 16));
    if (offset != bytes.size()) return Malformed(script);
  } catch (const std::exception&) {
    return Malformed(script);
  }
  bool ok = true;
  const Reader reader(handle.get(), &ok);
  if (!ok) return Malformed(script);
  absl::StatusOr<T> result = read(reader, &ok);
  if (!ok) return Malformed(script);
  return result;
}

// The failures that all scripts share; OK: go on.
absl::Status CommonFailure(const Reader& reader, std::string_view verdict) {
  if (verdict == "no_target") return absl::NotFoundError("no such target");
  if (verdict == "invalid") {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.Text("field"), ": ", reader.Text("message")));
  }
  return absl::OkStatus();
}

// An enum by its spelling; marks the answer as malformed when it has none.
template <typename E>
E Parse(std::string_view text, std::initializer_list<std::pair<std::string_view, E>> spellings,
        bool* ok) {
  for (const auto& [spelling, value] : spellings) {
    if (text == spelling) return value;
  }
  *ok = false;
  return spellings.begin()->second;
}

Outcome ReadOutcome(const Reader& reader, std::string_view verdict, Decision* decision, bool* ok) {
  if (verdict == "grant") {
    decision->facts.admits = static_cast<uint32_t>(reader.Count("admits", false));
    decision->facts.waited = reader.Micros("waited_us", false);
    decision->facts.first_projected = reader.Micros("first_us", false);
    return Grant{reader.Map("debited"), reader.Micros("lease_us"), reader.Flag("repeated")};
  }
  if (verdict == "defer") {
    Defer defer;
    defer.retry_delay = reader.Micros("delay_us");
    defer.projected_wait = reader.Micros("projected_us");
    defer.place = reader.Count("place", false);
    if (defer.retry_delay < absl::Milliseconds(1)) *ok = false;
    for (const msgpack::object* limit : reader.List("limits")) {
      if (limit->type != msgpack::type::ARRAY || limit->via.array.size < 1 ||
          limit->via.array.size > 2) {
        *ok = false;
        break;
      }
      const msgpack::object* parts = limit->via.array.ptr;
      defer.limited_by.push_back(
          {Parse<Layer>(
               reader.AsText(parts[0]),
               {{"target", Layer::kTarget}, {"class", Layer::kClass}, {"tenant", Layer::kTenant}},
               ok),
           limit->via.array.size == 2 ? reader.AsText(parts[1]) : ""});
    }
    decision->may_hold = reader.Flag("hold");
    return defer;
  }
  if (verdict != "reject") *ok = false;
  Reject reject;
  reject.reason = Parse<RejectReason>(reader.Text("reason"),
                                      {{"cost_exceeds_cap", RejectReason::kCostExceedsCap},
                                       {"target_disabled", RejectReason::kTargetDisabled},
                                       {"deadline_unreachable", RejectReason::kDeadlineUnreachable},
                                       {"already_settled", RejectReason::kAlreadySettled},
                                       {"superseded", RejectReason::kSuperseded},
                                       {"tenant_not_listed", RejectReason::kTenantNotListed}},
                                      ok);
  reject.message = reader.Text("message");
  reject.dimension = reader.Text("dimension", false);
  if (reader.Has("earliest_us")) reject.earliest = reader.Micros("earliest_us");
  return reject;
}

void SetDuration(int64_t us, google::protobuf::Duration* to) {
  to->set_seconds(us / 1000000);
  to->set_nanos(static_cast<int32_t>(us % 1000000) * 1000);
}

}  // namespace

absl::StatusOr<Decision> DecodeAdmit(std::string_view bytes) {
  return Decode<Decision>(
      "admit", bytes, [](const Reader& reader, bool* ok) -> absl::StatusOr<Decision> {
        const std::string verdict = reader.Text("outcome");
        if (absl::Status status = CommonFailure(reader, verdict); !status.ok()) return status;
        Decision decision;
        decision.config_version = reader.Count("version");
        decision.facts.priority = reader.Text("class", false);
        decision.facts.leases_expired = static_cast<uint32_t>(reader.Count("expired", false));
        decision.outcome = ReadOutcome(reader, verdict, &decision, ok);
        return decision;
      });
}

absl::StatusOr<ReleaseReport> DecodeRelease(std::string_view bytes) {
  return Decode<ReleaseReport>(
      "release", bytes, [](const Reader& reader, bool* ok) -> absl::StatusOr<ReleaseReport> {
        const std::string verdict = reader.Text("result");
        if (absl::Status status = CommonFailure(reader, verdict); !status.ok()) return status;
        ReleaseReport report;
        report.result = Parse<ReleaseResult>(verdict,
                                             {{"settled", ReleaseResult::kSettled},
                                              {"withdrawn", ReleaseResult::kWithdrawn},
                                              {"extended", ReleaseResult::kExtended},
                                              {"already_settled", ReleaseResult::kAlreadySettled},
                                              {"expired", ReleaseResult::kExpired},
                                              {"unknown", ReleaseResult::kUnknown}},
                                             ok);
        for (auto& [name, amount] : reader.Map("refunded", false)) {
          if (amount != 0) report.refunded.emplace_back(name, amount);
        }
        report.lease_expires_in = reader.Micros("lease_us", false);
        report.config_version = reader.Count("version", false);
        report.priority = reader.Text("class", false);
        report.tenant = reader.Text("tenant", false);
        report.estimated = reader.Map("estimated", false);
        report.charged = reader.Map("charged", false);
        report.usage_missing = reader.Flag("usage_missing");
        return report;
      });
}

absl::StatusOr<uint64_t> DecodeConfigure(std::string_view bytes) {
  return Decode<uint64_t>(
      "configure", bytes, [](const Reader& reader, bool* ok) -> absl::StatusOr<uint64_t> {
        const std::string verdict = reader.Text("result");
        if (absl::Status status = CommonFailure(reader, verdict); !status.ok()) return status;
        const uint64_t version = reader.Count("version");
        if (verdict == "conflict") {
          return absl::AbortedError(absl::StrCat("the version in force is ", version));
        }
        if (verdict != "ok") *ok = false;
        return version;
      });
}

absl::StatusOr<v1::InspectTargetResponse> DecodeInspect(std::string_view bytes) {
  using Response = v1::InspectTargetResponse;
  return Decode<Response>(
      "inspect", bytes, [](const Reader& reader, bool* ok) -> absl::StatusOr<Response> {
        const std::string verdict = reader.Text("result");
        if (absl::Status status = CommonFailure(reader, verdict); !status.ok()) return status;
        if (verdict != "ok") *ok = false;
        Response to;
        to.set_config_version(reader.Count("version"));
        if (!to.mutable_policy()->ParseFromString(reader.Text("source"))) *ok = false;
        to.set_target(to.policy().name());
        for (const msgpack::object* object : reader.List("dims")) {
          const Reader from(*object, ok);
          v1::DimensionState* dim = to.add_dimensions();
          dim->set_name(from.Text("name"));
          dim->set_rate_per_second(from.Number("rate_per_second"));
          dim->set_capacity(from.Number("capacity"));
          dim->set_available(from.Number("available"));
          dim->set_waiting(from.Number("waiting"));
          dim->set_debited_total(from.Number("debited_total"));
          dim->set_refunded_total(from.Number("refunded_total"));
        }
        for (const msgpack::object* object : reader.List("classes")) {
          const Reader from(*object, ok);
          v1::ClassState* state = to.add_classes();
          state->set_name(from.Text("name"));
          state->set_weight(from.Number("weight"));
          state->set_start_tag(from.Number("start_tag"));
          state->set_virtual_time(from.Number("virtual_time"));
          state->set_waiters(from.Count("waiters"));
          state->set_flows_active(from.Count("flows_active"));
          state->set_grants_total(from.Count("grants_total"));
          state->set_service_total_seconds(from.Number("service_seconds"));
        }
        for (const msgpack::object* object : reader.List("flows")) {
          const Reader from(*object, ok);
          v1::FlowState* flow = to.add_flows();
          flow->set_tenant(from.Text("tenant"));
          flow->set_priority(from.Text("class"));
          flow->set_weight(from.Number("weight"));
          flow->set_start_tag(from.Number("start_tag"));
          flow->set_waiters(from.Count("waiters"));
          flow->set_grants_total(from.Count("grants_total"));
          flow->set_service_total_seconds(from.Number("service_seconds"));
          SetDuration(from.Integer("lateness_us", false), flow->mutable_timer_lateness());
          for (const auto& [name, ratio] : from.Map("ratio", false)) {
            (*flow->mutable_estimate_ratio())[name] = ratio;
          }
        }
        to.set_virtual_time(reader.Number("virtual_time"));
        to.set_waiters(reader.Count("waiters"));
        to.set_leases_open(reader.Count("leases_open"));
        to.set_leases_expired_total(reader.Count("leases_expired_total"));
        to.set_grants_total(reader.Count("grants_total"));
        to.set_admits_total(reader.Count("admits_total"));
        const int64_t paused = reader.Integer("paused_us", false);
        if (paused > 0) SetDuration(paused, to.mutable_paused_for());
        return to;
      });
}

}  // namespace fairgate
