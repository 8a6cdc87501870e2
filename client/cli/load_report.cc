#include "client/cli/load_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_format.h"
#include "server/core/jain_index.h"

namespace fairgate::cli {
namespace {

struct ClassTally {
  FlowTally sum;
  std::vector<double> grants;  // of each tenant
};

struct Totals {
  FlowTally all;
  std::map<std::string, ClassTally> classes;
};

Totals Sum(const FlowTallies& tallies) {
  Totals totals;
  for (const auto& [flow, tally] : tallies) {
    totals.all.Add(tally);
    ClassTally& of_class = totals.classes[flow.first];
    of_class.sum.Add(tally);
    of_class.grants.push_back(static_cast<double>(tally.grants));
  }
  return totals;
}

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

struct Row {
  double per_second, share, calls_per_grant, p50, p95;
};

Row MakeRow(const FlowTally& tally, uint64_t grants_total, absl::Duration elapsed) {
  const double grants = static_cast<double>(tally.grants);
  return {.per_second = Ratio(grants, absl::ToDoubleSeconds(elapsed)),
          .share = Ratio(grants, static_cast<double>(grants_total)),
          .calls_per_grant = Ratio(static_cast<double>(tally.admits), grants),
          .p50 = Quantile(tally.waits_s, 0.5),
          .p95 = Quantile(tally.waits_s, 0.95)};
}

void AppendRow(std::string* text, const std::string& class_name, const std::string& tenant,
               const FlowTally& tally, const Row& row) {
  absl::StrAppendFormat(text, "%-12s %-16s %10.2f %6.1f%% %9.2f %9.0fms %9.0fms %8d %7d\n",
                        class_name, tenant, row.per_second, 100 * row.share, row.calls_per_grant,
                        1000 * row.p50, 1000 * row.p95, tally.rejects, tally.errors);
}

google::protobuf::Struct RowToJson(const FlowTally& tally, const Row& row) {
  google::protobuf::Struct json;
  auto& fields = *json.mutable_fields();
  fields["admits"].set_number_value(static_cast<double>(tally.admits));
  fields["grants"].set_number_value(static_cast<double>(tally.grants));
  fields["rejects"].set_number_value(static_cast<double>(tally.rejects));
  fields["degraded"].set_number_value(static_cast<double>(tally.degraded));
  fields["errors"].set_number_value(static_cast<double>(tally.errors));
  fields["grants_per_second"].set_number_value(row.per_second);
  fields["share"].set_number_value(row.share);
  fields["calls_per_grant"].set_number_value(row.calls_per_grant);
  fields["wait_p50_seconds"].set_number_value(row.p50);
  fields["wait_p95_seconds"].set_number_value(row.p95);
  return json;
}

}  // namespace

void FlowTally::Add(const FlowTally& other) {
  admits += other.admits;
  grants += other.grants;
  rejects += other.rejects;
  degraded += other.degraded;
  errors += other.errors;
  waits_s.insert(waits_s.end(), other.waits_s.begin(), other.waits_s.end());
}

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  const size_t index = std::min(static_cast<size_t>(std::max(rank, 1.0)) - 1, values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

google::protobuf::Struct ToJson(const FlowTallies& tallies, absl::Duration elapsed) {
  const Totals totals = Sum(tallies);
  google::protobuf::Struct json;
  auto& fields = *json.mutable_fields();
  fields["elapsed_seconds"].set_number_value(absl::ToDoubleSeconds(elapsed));
  *fields["total"].mutable_struct_value() =
      RowToJson(totals.all, MakeRow(totals.all, totals.all.grants, elapsed));
  auto* classes = fields["classes"].mutable_list_value();
  for (const auto& [name, tally] : totals.classes) {
    google::protobuf::Struct row =
        RowToJson(tally.sum, MakeRow(tally.sum, totals.all.grants, elapsed));
    (*row.mutable_fields())["class"].set_string_value(name);
    (*row.mutable_fields())["jain"].set_number_value(JainIndex(tally.grants));
    *classes->add_values()->mutable_struct_value() = row;
  }
  auto* flows = fields["flows"].mutable_list_value();
  for (const auto& [flow, tally] : tallies) {
    google::protobuf::Struct row = RowToJson(tally, MakeRow(tally, totals.all.grants, elapsed));
    (*row.mutable_fields())["class"].set_string_value(flow.first);
    (*row.mutable_fields())["tenant"].set_string_value(flow.second);
    *flows->add_values()->mutable_struct_value() = row;
  }
  return json;
}

std::string ToTable(const FlowTallies& tallies, absl::Duration elapsed) {
  const Totals totals = Sum(tallies);
  std::string text =
      absl::StrFormat("%-12s %-16s %10s %7s %9s %11s %11s %8s %7s\n", "CLASS", "TENANT", "GRANTS/S",
                      "SHARE", "CALLS/GR", "WAIT P50", "WAIT P95", "REJECTS", "ERRORS");
  for (const auto& [flow, tally] : tallies) {
    AppendRow(&text, flow.first.empty() ? "(default)" : flow.first, flow.second, tally,
              MakeRow(tally, totals.all.grants, elapsed));
  }
  text += "\n";
  for (const auto& [name, tally] : totals.classes) {
    AppendRow(&text, name.empty() ? "(default)" : name, "(all)", tally.sum,
              MakeRow(tally.sum, totals.all.grants, elapsed));
  }
  AppendRow(&text, "(all)", "(all)", totals.all, MakeRow(totals.all, totals.all.grants, elapsed));
  text += "\nJain's index over the tenants of a class (grants, 1 = equal):";
  for (const auto& [name, tally] : totals.classes) {
    absl::StrAppendFormat(&text, " %s %.4f", name.empty() ? "(default)" : name,
                          JainIndex(tally.grants));
  }
  text += "\n";
  if (totals.all.degraded > 0) {
    absl::StrAppendFormat(&text, "%d grants were DEGRADED.\n", totals.all.degraded);
  }
  return text;
}

}  // namespace fairgate::cli
