// Policy files: a good one compiles, a bad one is refused with its place.
#include "server/core/policy.h"
#include "server/settings/policy_file.h"
#include "tests/fuzz/target.h"

std::vector<std::string> FuzzSeeds() {
  return {
      R"(targets:
  - name: openai-prod
    dimensions:
      - {name: requests, limit: 500, window: 1m, window_model: sliding}
      - name: tokens
        limit: 6e4
        window: 1m30s
        sub_window: 250ms
    classes:
      - {name: interactive, weight: 6, max_share: 0.5}
      - {name: batch, weight: 0, hard: true}
    tenants:
      - name: acme
        weight: 2.5
        caps: [{dimension: tokens, limit: 10, window: 1s}]
    on_store_loss: bounded
    max_defer: 5m
)",
      R"(targets: [&t {name: "a\n\u00e9", dimensions: [{name: r, limit: 0, window: 1s}]}, *t])"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto file = fairgate::ParsePolicyFile(text, "f.yaml");
  if (!file.ok()) {
    FUZZ_REQUIRE(absl::IsInvalidArgument(file.status()));
    FUZZ_REQUIRE(file.status().message().substr(0, 6) == "f.yaml");
    return 0;
  }
  for (const auto& target : file->targets()) {
    FUZZ_REQUIRE(fairgate::CompilePolicy(target).ok());
  }
  return 0;
}
