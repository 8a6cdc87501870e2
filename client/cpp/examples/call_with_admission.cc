// Calls something with a quota, with the gate's permission: call_with_admission [TARGET [TENANT]]
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "fairgate/client.h"

int main(int argc, char** argv) {
  const std::string target = argc > 1 ? argv[1] : "openai-prod";
  const std::string tenant = argc > 2 ? argv[2] : "acme";
  fairgate::client::Client gate({.address = "127.0.0.1:50051"});

  for (int call = 1; call <= 5; ++call) {
    fairgate::client::AdmitOptions question;
    question.target = target;
    question.tenant = tenant;
    absl::StatusOr<fairgate::client::Admission> admission =
        gate.AdmitWait(question, /*max_wait=*/absl::Seconds(30));
    if (!admission.ok()) {
      std::fprintf(stderr, "%s\n", admission.status().ToString().c_str());
      return 1;
    }
    if (!admission->may_call()) {
      std::fprintf(stderr, "call %d: not now. %s\n", call, admission->reject().message.c_str());
      continue;
    }
    absl::SleepFor(absl::Milliseconds(20));  // here goes the external call
    // Its real usage; what is not named stays charged as estimated.
    admission->Settle({{"requests", 1}});
    admission->Close();  // or leave the scope
    const auto& report = admission->report();
    std::printf("call %d: %s, %s\n", call, admission->degraded() ? "degraded" : "granted",
                report ? std::string(Name(report->result)).c_str() : "not settled");
  }
  return 0;
}
