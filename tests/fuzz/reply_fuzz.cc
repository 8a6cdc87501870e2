// Answers of the decision functions: what is malformed is a fault, and what passes can be told to
// a caller.
#include "server/service/proto_convert.h"
#include "server/store/packer.h"
#include "server/store/script_codec.h"
#include "tests/fuzz/target.h"

std::vector<std::string> FuzzSeeds() {
  using fairgate::MapPacker;
  MapPacker grant;
  grant.Text("outcome", "grant");
  grant.Map("debited", {{"requests", 1}, {"tokens", 0.1}});
  grant.Integer("lease_us", 60000000);
  grant.Flag("repeated", true);
  grant.Integer("version", 7);
  grant.Text("class", "high");
  MapPacker defer;
  defer.Text("outcome", "defer");
  defer.Number("delay_us", 12000);
  defer.Integer("projected_us", 34000);
  defer.Raw("limits", "\x91\x92\xa6target\xa6tokens");
  defer.Integer("place", 4);
  defer.Flag("hold", true);
  defer.Integer("version", 7);
  MapPacker reject;
  reject.Text("outcome", "reject");
  reject.Text("reason", "deadline_unreachable");
  reject.Text("message", "too late");
  reject.Integer("earliest_us", 5000000);
  reject.Integer("version", 7);
  MapPacker release;
  release.Text("result", "settled");
  release.Map("refunded", {{"tokens", -3.5}});
  release.Map("charged", {{"tokens", 13.5}});
  MapPacker configured;
  configured.Text("result", "ok");
  configured.Integer("version", 9);
  return {grant.Finish(), defer.Finish(), reject.Finish(), release.Finish(), configured.Finish()};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto decision = fairgate::DecodeAdmit(bytes);
  if (decision.ok()) {
    const auto response = fairgate::ToProto(*decision);
    FUZZ_REQUIRE(response.outcome_case() != fairgate::v1::AdmitResponse::OUTCOME_NOT_SET);
    if (response.has_defer()) {
      const auto& delay = response.defer().retry_delay();
      FUZZ_REQUIRE(delay.seconds() > 0 || (delay.seconds() == 0 && delay.nanos() >= 1000000));
    }
  }
  const auto report = fairgate::DecodeRelease(bytes);
  if (report.ok()) (void)fairgate::ToProto(*report);
  (void)fairgate::DecodeConfigure(bytes);
  (void)fairgate::DecodeInspect(bytes);
  return 0;
}
