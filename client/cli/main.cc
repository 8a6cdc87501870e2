// fairgate: the command line of a gate.
#include <cstdio>
#include <exception>

#include "client/cli/commands.h"
#include "server/version.h"

namespace fairgate::cli {
namespace {

constexpr char kFooter[] = R"(
Examples:
  fairgate health                                   is the gate serving?
  fairgate apply -f config/policy.example.yaml      show what would change, ask, apply
  fairgate targets                                  which quotas does it guard?
  fairgate admit openai-prod acme --cost tokens=900 --id job7/1
                                                    may this call go now?
  fairgate release openai-prod job7/1 --actual tokens=640
                                                    it went, and used that much
  fairgate inspect openai-prod                      caps, classes, tenants, who waits
  fairgate load payments --tenants a,b --duration 10s drive it, and see the shares

Exit codes:
  0 granted, or the command did it     10 deferred     11 rejected
  2 bad usage or bad input   3 the gate cannot be reached or is not serving   1 anything else

Durations are written 500ms, 10s, 1m30s. `fairgate COMMAND --help` tells more.)";

int Main(int argc, char** argv) {
  Program program;
  CLI::App& app = program.app;
  app.set_version_flag("--version", std::string(kVersion));
  app.add_option("--gate", program.options.gate, "Address of the gate, host:port or unix:/path")
      ->envname("FAIRGATE_GATE")
      ->capture_default_str();
  app.add_option("--timeout", program.options.timeout, "How long to wait for an answer")
      ->capture_default_str();
  app.add_flag("--json", program.options.json, "Print JSON (field names of the protos)");
  app.require_subcommand(1);
  app.fallthrough();  // the options above may also stand after the command
  app.footer(kFooter);
  AddAdmit(program);
  AddRelease(program);
#ifdef FAIRGATE_CLI_APPLY
  AddApply(program);
#endif
  AddInspect(program);
  AddHealth(program);
  AddLoad(program);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  const auto timeout = ParseDuration("--timeout", program.options.timeout);
  if (!timeout.ok()) return Complain(std::string(timeout.status().message()), kExitUsage);
  return program.run();
}

}  // namespace
}  // namespace fairgate::cli

int main(int argc, char** argv) {
  try {
    return fairgate::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fairgate: %s\n", error.what());
    return fairgate::cli::kExitFailed;
  }
}
