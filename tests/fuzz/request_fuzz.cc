// Requests off the wire: whatever passes the checks is a value that everybody behind may trust.
#include <google/protobuf/stubs/logging.h>

#include <cmath>

#include "fairgate/v1/admission.pb.h"
#include "server/core/policy.h"
#include "server/core/validate.h"
#include "server/store/script_codec.h"
#include "tests/fuzz/target.h"

namespace fairgate {
namespace {

void CheckAmounts(const Amounts& amounts) {
  for (const auto& [name, amount] : amounts) {
    FUZZ_REQUIRE(IsValidName(name));
    FUZZ_REQUIRE(std::isfinite(amount) && amount >= 0);
  }
}

void Admit(const std::string& bytes) {
  v1::AdmitRequest request;
  if (!request.ParseFromString(bytes)) return;
  const auto checked = ValidateAdmit(request);
  if (const auto* faults = std::get_if<1>(&checked)) {
    FUZZ_REQUIRE(!faults->empty());
    return;
  }
  const AdmitQuery& query = std::get<0>(checked);
  FUZZ_REQUIRE(IsValidName(query.target) && IsValidName(query.tenant));
  FUZZ_REQUIRE(!query.request_id.empty() && query.attempt >= 1);
  FUZZ_REQUIRE(query.max_hold >= absl::ZeroDuration() && query.timer_floor >= absl::ZeroDuration());
  CheckAmounts(query.cost);
  FUZZ_REQUIRE(!EncodeAdmit(query, 1).empty());
}

void Release(const std::string& bytes) {
  v1::ReleaseRequest request;
  if (!request.ParseFromString(bytes)) return;
  const auto checked = ValidateRelease(request);
  const auto* query = std::get_if<0>(&checked);
  if (query == nullptr) return;
  FUZZ_REQUIRE(IsValidName(query->target) && !query->request_id.empty() && query->attempt >= 1);
  FUZZ_REQUIRE(query->retry_after >= absl::ZeroDuration());
  CheckAmounts(query->usage);
  FUZZ_REQUIRE(!EncodeRelease(*query, 1).empty());
}

void Configure(const std::string& bytes) {
  v1::ConfigureRequest request;
  if (!request.ParseFromString(bytes)) return;
  const auto merged = MergePolicy(v1::TargetPolicy(), request);
  if (!merged.ok() || !ValidatePolicy(*merged).ok()) return;
  const auto compiled = CompilePolicy(*merged);
  FUZZ_REQUIRE(compiled.ok());
  for (const CompiledDimension& d : compiled->dims) {
    FUZZ_REQUIRE(std::isfinite(d.limit) && d.limit >= 0 && d.window_us > 0);
  }
  FUZZ_REQUIRE(!compiled->classes.empty());
  FUZZ_REQUIRE(DiffPolicy(*merged, *merged).empty());
  FUZZ_REQUIRE(!EncodeConfigure(*compiled, merged->SerializeAsString(), 1, 1).empty());
}

}  // namespace
}  // namespace fairgate

std::vector<std::string> FuzzSeeds() {
  fairgate::v1::AdmitRequest admit;
  admit.set_target("openai");
  admit.set_tenant("acme");
  admit.set_priority("high");
  admit.set_request_id("wf/1");
  (*admit.mutable_cost())["tokens"] = 120.5;
  admit.mutable_deadline()->set_seconds(30);
  admit.mutable_max_hold()->set_nanos(5000000);
  fairgate::v1::ReleaseRequest release;
  release.set_target("openai");
  release.set_request_id("wf/1");
  release.mutable_settle()->set_outcome(fairgate::v1::CALL_OUTCOME_OK);
  fairgate::v1::ConfigureRequest configure;
  configure.mutable_policy()->set_name("openai");
  auto* dimension = configure.mutable_policy()->add_dimensions();
  dimension->set_name("tokens");
  dimension->set_limit(60000);
  dimension->mutable_window()->set_seconds(60);
  configure.mutable_policy()->add_classes()->set_name("high");
  configure.mutable_policy()->add_tenants()->set_name("acme");
  const auto kind = [](char method, const std::string& bytes) { return method + bytes; };
  return {kind(0, admit.SerializeAsString()), kind(1, release.SerializeAsString()),
          kind(2, configure.SerializeAsString())};
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each name that is no UTF-8
  return 0;
}

// The first byte chooses the method.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      fairgate::Admit(bytes);
      break;
    case 1:
      fairgate::Release(bytes);
      break;
    default:
      fairgate::Configure(bytes);
  }
  return 0;
}
