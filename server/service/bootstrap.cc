#include "server/service/bootstrap.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/core/decision.h"
#include "server/core/request.h"
#include "server/service/await.h"

namespace fairgate {
namespace {

constexpr char kSelfTestPrefix[] = "fairgate-selftest-";

absl::StatusOr<uint64_t> Write(AdmissionStore* store, const v1::TargetPolicy& policy,
                               uint64_t expected_version) {
  return Await<uint64_t>([&](AdmissionStore::Callback<uint64_t> done) {
    store->WritePolicy(policy, expected_version, std::move(done));
  });
}

absl::StatusOr<StoredPolicy> Read(AdmissionStore* store, const std::string& target) {
  return Await<StoredPolicy>([&](AdmissionStore::Callback<StoredPolicy> done) {
    store->ReadPolicy(target, std::move(done));
  });
}

absl::StatusOr<Decision> Ask(AdmissionStore* store, const AdmitQuery& query) {
  return Await<Decision>(
      [&](AdmissionStore::Callback<Decision> done) { store->Admit(query, std::move(done)); });
}

absl::Status Wrong(const std::string& what) {
  return absl::InternalError(absl::StrCat("self-test: ", what));
}

// Ten requests per hour, one at a time: the second call within the test must wait.
v1::TargetPolicy TestPolicy(const std::string& target) {
  v1::TargetPolicy policy;
  policy.set_name(target);
  v1::DimensionPolicy* const dimension = policy.add_dimensions();
  dimension->set_name("requests");
  dimension->set_limit(10);
  dimension->mutable_window()->set_seconds(3600);
  dimension->set_window_model(v1::WINDOW_MODEL_CONTINUOUS);
  dimension->set_burst_fraction(0.1);
  return policy;
}

absl::Status TestDecisions(AdmissionStore* store, const std::string& target) {
  AdmitQuery query;
  query.target = target;
  query.tenant = "selftest";
  query.request_id = "1";
  absl::StatusOr<Decision> first = Ask(store, query);
  if (!first.ok()) {
    return first.status();
  }
  if (!std::holds_alternative<Grant>(first->outcome)) {
    return Wrong("an idle target does not grant");
  }
  absl::StatusOr<Decision> again = Ask(store, query);
  if (!again.ok()) {
    return again.status();
  }
  const auto* const repeated = std::get_if<Grant>(&again->outcome);
  if (repeated == nullptr || !repeated->repeated) {
    return Wrong("the same question is not given the same grant");
  }
  query.request_id = "2";
  query.check_only = true;
  absl::StatusOr<Decision> second = Ask(store, query);
  if (!second.ok()) {
    return second.status();
  }
  if (!std::holds_alternative<Defer>(second->outcome)) {
    return Wrong("a spent target does not defer");
  }

  ReleaseQuery release;
  release.target = target;
  release.request_id = "1";
  release.outcome = CallOutcome::kNotSent;
  absl::StatusOr<ReleaseReport> released =
      Await<ReleaseReport>([&](AdmissionStore::Callback<ReleaseReport> done) {
        store->Release(release, std::move(done));
      });
  if (!released.ok()) {
    return released.status();
  }
  if (released->result != ReleaseResult::kSettled || released->refunded.empty()) {
    return Wrong("a call that was not sent is not refunded");
  }
  absl::StatusOr<v1::InspectTargetResponse> state = Await<v1::InspectTargetResponse>(
      [&](AdmissionStore::Callback<v1::InspectTargetResponse> done) {
        store->Inspect(target, 10, std::move(done));
      });
  if (!state.ok()) {
    return state.status();
  }
  if (state->leases_open() != 0) {
    return Wrong("a settled lease is still open");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SelfTest(AdmissionStore* store, const std::string& gate_id) {
  const std::string target = absl::StrCat(kSelfTestPrefix, gate_id);
  absl::StatusOr<uint64_t> version = Write(store, TestPolicy(target), 0);
  absl::Status status = version.status();
  if (version.ok()) {
    status = TestDecisions(store, target);
    const absl::StatusOr<uint64_t> deleted =
        Await<uint64_t>([&](AdmissionStore::Callback<uint64_t> done) {
          store->DeleteTarget(target, *version, std::move(done));
        });
    if (status.ok()) {
      status = deleted.status();
    }
  }
  if (status.ok() || absl::IsUnavailable(status)) {
    return status;
  }
  return absl::IsInternal(status) ? status : Wrong(std::string(status.message()));
}

bool IsSelfTestTarget(const std::string& target) {
  return absl::StartsWith(target, kSelfTestPrefix);
}

bool SamePolicy(const v1::TargetPolicy& a, const v1::TargetPolicy& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

absl::StatusOr<SeedReport> SeedPolicies(AdmissionStore* store,
                                        const std::vector<v1::TargetPolicy>& targets, bool always) {
  SeedReport report;
  for (const v1::TargetPolicy& policy : targets) {
    absl::StatusOr<StoredPolicy> stored = Read(store, policy.name());
    if (!stored.ok() && !absl::IsNotFound(stored.status())) {
      return stored.status();
    }
    if (stored.ok() && SamePolicy(stored->policy, policy)) {
      continue;
    }
    if (stored.ok() && !always) {
      report.differing.push_back(policy.name());
      continue;
    }
    const absl::StatusOr<uint64_t> written =
        Write(store, policy, stored.ok() ? stored->version : 0);
    if (written.ok()) {
      report.written.push_back(policy.name());
      continue;
    }
    if (!absl::IsAborted(written.status())) {
      return written.status();
    }
    // Another server was faster, most likely with the same file.
    stored = Read(store, policy.name());
    if (!stored.ok()) {
      return stored.status();
    }
    if (!SamePolicy(stored->policy, policy)) {
      report.differing.push_back(policy.name());
    }
  }
  return report;
}

}  // namespace fairgate
