// apply: brings a policy file's targets to the gate, after showing what would change.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/commands.h"
#include "server/settings/policy_file.h"

namespace fairgate::cli {
namespace {

struct ApplyArguments {
  std::string file;
  bool dry_run = false;
  bool yes = false;
};

// What would happen to one target.
struct Plan {
  v1::TargetPolicy policy;
  uint64_t version = 0;  // that the difference was taken against
  v1::ConfigureResponse preview;
};

// The version in force; 0 when there is no such target.
grpc::Status ReadVersion(Gate& gate, const std::string& target, uint64_t* version) {
  v1::InspectTargetRequest request;
  request.set_target(target);
  request.set_flows_max(1);
  v1::InspectTargetResponse response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  grpc::Status status = gate.admin().InspectTarget(&context, request, &response);
  *version = response.config_version();
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return grpc::Status::OK;
  return status;
}

// Version 0 in a request means "whatever is there", so a new target is asked for as such.
v1::ConfigureRequest MakeRequest(const Plan& plan) {
  v1::ConfigureRequest request;
  *request.mutable_policy() = plan.policy;
  request.set_expected_version(plan.version);
  request.set_create_only(plan.version == 0);
  return request;
}

grpc::Status Preview(Gate& gate, Plan* plan) {
  grpc::Status status = ReadVersion(gate, plan->policy.name(), &plan->version);
  if (!status.ok()) return status;
  v1::ConfigureRequest request = MakeRequest(*plan);
  request.set_validate_only(true);
  grpc::ClientContext context;
  gate.SetDeadline(context);
  return gate.admission().Configure(&context, request, &plan->preview);
}

void PrintPlan(std::FILE* out, const Plan& plan) {
  std::fprintf(out, "target %s: %s\n", plan.policy.name().c_str(),
               plan.preview.changes().empty() ? "no change"
               : plan.version == 0            ? "new"
                                              : "changes");
  for (const v1::PolicyChange& change : plan.preview.changes()) {
    if (change.before().empty()) {
      std::fprintf(out, "  + %s: %s\n", change.field().c_str(), change.after().c_str());
    } else if (change.after().empty()) {
      std::fprintf(out, "  - %s: %s\n", change.field().c_str(), change.before().c_str());
    } else {
      std::fprintf(out, "  ~ %s: %s -> %s\n", change.field().c_str(), change.before().c_str(),
                   change.after().c_str());
    }
  }
}

bool Confirmed() {
  std::fprintf(stderr, "Apply? [y/N] ");
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

int Apply(const GlobalOptions& options, const ApplyArguments& arguments) {
  const absl::StatusOr<v1::PolicyFile> file = LoadPolicyFile(arguments.file);
  if (!file.ok()) return Complain(std::string(file.status().message()), kExitUsage);

  Gate gate(options);
  // With --json the document is alone on stdout, and people read stderr.
  std::FILE* const out = options.json ? stderr : stdout;
  std::vector<Plan> plans;
  bool changes = false;
  for (const v1::TargetPolicy& policy : file->targets()) {
    Plan plan{.policy = policy, .version = 0, .preview = {}};
    const grpc::Status status = Preview(gate, &plan);
    if (!status.ok()) {
      std::fprintf(stderr, "target %s:\n", policy.name().c_str());
      return gate.Fail(status);
    }
    PrintPlan(out, plan);
    changes = changes || !plan.preview.changes().empty();
    plans.push_back(std::move(plan));
  }

  if (arguments.dry_run || !changes) {
    if (options.json) {
      for (const Plan& plan : plans) PrintJson(plan.preview);
    }
    return kExitOk;
  }
  if (!arguments.yes) {
    if (isatty(STDIN_FILENO) == 0) {
      return Complain("nothing was applied: say --yes when there is nobody to ask", kExitUsage);
    }
    if (!Confirmed()) return Complain("nothing was applied", kExitFailed);
  }
  for (const Plan& plan : plans) {
    if (plan.preview.changes().empty()) {
      if (options.json) PrintJson(plan.preview);
      continue;
    }
    v1::ConfigureResponse response;
    grpc::ClientContext context;
    gate.SetDeadline(context);
    const grpc::Status status = gate.admission().Configure(&context, MakeRequest(plan), &response);
    if (!status.ok()) {
      // What changed since the difference was shown is not overwritten unseen.
      std::fprintf(stderr, "target %s was not applied:\n", plan.policy.name().c_str());
      return gate.Fail(status);
    }
    if (options.json) {
      PrintJson(response);
    } else {
      std::printf("target %s: version %llu in force\n", plan.policy.name().c_str(),
                  static_cast<unsigned long long>(response.config_version()));
    }
  }
  return kExitOk;
}

}  // namespace

void AddApply(Program& program) {
  const auto arguments = std::make_shared<ApplyArguments>();
  CLI::App* command =
      program.app.add_subcommand("apply", "Show what a policy file changes, and apply it");
  command->add_option("-f,--file", arguments->file, "The policy file (YAML)")->required();
  CLI::Option* dry_run =
      command->add_flag("--dry-run", arguments->dry_run, "Only show what would change");
  command->add_flag("-y,--yes", arguments->yes, "Do not ask")->excludes(dry_run);
  command->footer(
      "Each target of the file replaces the gate's policy of that name as a whole; targets that\n"
      "the file does not name stay. With --json, one document per target.\n"
      "Example: fairgate apply -f config/policy.example.yaml --dry-run");
  command->callback([&program, arguments] {
    program.run = [&program, arguments] { return Apply(program.options, *arguments); };
  });
}

}  // namespace fairgate::cli
