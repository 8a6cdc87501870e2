// inspect, targets and health: what the gate and its store look like now.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"

namespace fairgate::cli {
namespace {

int Targets(const GlobalOptions& options) {
  Gate gate(options);
  v1::ListTargetsResponse response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  const grpc::Status status = gate.admin().ListTargets(&context, {}, &response);
  if (!status.ok()) return gate.Fail(status);
  if (options.json) {
    PrintJson(response);
    return kExitOk;
  }
  for (const std::string& target : response.targets()) std::printf("%s\n", target.c_str());
  if (response.targets().empty()) {
    std::fprintf(stderr, "No targets yet; `fairgate apply -f policy.yaml` makes them.\n");
  }
  return kExitOk;
}

void PrintTarget(const v1::InspectTargetResponse& target) {
  std::printf("target %s, policy version %llu%s\n", target.target().c_str(),
              static_cast<unsigned long long>(target.config_version()),
              target.differs_from_file() ? "  (DIFFERS from the gate's policy file)" : "");
  std::printf("%llu waiting, %llu leases open (%llu expired), %llu grants of %llu asks\n",
              static_cast<unsigned long long>(target.waiters()),
              static_cast<unsigned long long>(target.leases_open()),
              static_cast<unsigned long long>(target.leases_expired_total()),
              static_cast<unsigned long long>(target.grants_total()),
              static_cast<unsigned long long>(target.admits_total()));
  if (target.has_paused_for()) {
    std::printf("PAUSED by the provider for %s\n",
                ReadableDuration(FromProto(target.paused_for())).c_str());
  }
  std::printf("\n%-20s %14s %14s %14s %14s\n", "DIMENSION", "PER SECOND", "CAPACITY", "AVAILABLE",
              "WAITING");
  for (const v1::DimensionState& dimension : target.dimensions()) {
    std::printf("%-20s %14.6g %14.6g %14.6g %14.6g\n", dimension.name().c_str(),
                dimension.rate_per_second(), dimension.capacity(), dimension.available(),
                dimension.waiting());
  }
  std::printf("\n%-20s %8s %10s %10s %12s %14s\n", "CLASS", "WEIGHT", "WAITERS", "FLOWS", "GRANTS",
              "SERVICE (s)");
  for (const v1::ClassState& state : target.classes()) {
    std::printf("%-20s %8.4g %10llu %10llu %12llu %14.6g\n", state.name().c_str(), state.weight(),
                static_cast<unsigned long long>(state.waiters()),
                static_cast<unsigned long long>(state.flows_active()),
                static_cast<unsigned long long>(state.grants_total()),
                state.service_total_seconds());
  }
  std::printf("\n%-20s %-12s %8s %10s %12s %14s\n", "TENANT", "CLASS", "WEIGHT", "WAITERS",
              "GRANTS", "SERVICE (s)");
  for (const v1::FlowState& flow : target.flows()) {
    std::printf("%-20s %-12s %8.4g %10llu %12llu %14.6g\n", flow.tenant().c_str(),
                flow.priority().c_str(), flow.weight(),
                static_cast<unsigned long long>(flow.waiters()),
                static_cast<unsigned long long>(flow.grants_total()), flow.service_total_seconds());
  }
}

int Inspect(const GlobalOptions& options, const std::string& target, uint32_t flows_max) {
  if (target.empty()) return Targets(options);
  Gate gate(options);
  v1::InspectTargetRequest request;
  request.set_target(target);
  request.set_flows_max(flows_max);
  v1::InspectTargetResponse response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  const grpc::Status status = gate.admin().InspectTarget(&context, request, &response);
  if (!status.ok()) return gate.Fail(status);
  if (options.json) {
    PrintJson(response);
  } else {
    PrintTarget(response);
  }
  return kExitOk;
}

// grpc.health.v1.Health/Check. Its messages have one field each, which these wrappers encode alike;
// gRPC's own are not installed with its headers.
grpc::Status CheckHealth(Gate& gate, const std::string& service, int* serving) {
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::Int32Value response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value> stub(
      gate.channel());
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, call.get());
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  *serving = response.value();
  return status;
}

int Health(const GlobalOptions& options, const std::string& service) {
  Gate gate(options);
  int serving = 0;
  const grpc::Status status = CheckHealth(gate, service, &serving);
  if (!status.ok()) return gate.Fail(status);
  const std::string name = serving == 1   ? "SERVING"
                           : serving == 2 ? "NOT_SERVING"
                                          : absl::StrCat("UNKNOWN(", serving, ")");
  if (options.json) {
    google::protobuf::Struct json;
    (*json.mutable_fields())["status"].set_string_value(name);
    PrintJson(json);
  } else {
    std::printf("%s\n", name.c_str());
  }
  return serving == 1 ? kExitOk : kExitUnreachable;
}

}  // namespace

void AddInspect(Program& program) {
  CLI::App* targets = program.app.add_subcommand("targets", "List the targets");
  targets->callback([&program] { program.run = [&program] { return Targets(program.options); }; });

  struct Arguments {
    std::string target;
    uint32_t flows_max = 100;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* inspect =
      program.app.add_subcommand("inspect", "Show a target's caps, classes, tenants and waiters");
  inspect->add_option("target", arguments->target, "Without it, the targets are listed");
  inspect->add_option("--flows", arguments->flows_max, "How many tenants to list, waiting first")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  inspect->callback([&program, arguments] {
    program.run = [&program, arguments] {
      return Inspect(program.options, arguments->target, arguments->flows_max);
    };
  });
}

void AddHealth(Program& program) {
  const auto service = std::make_shared<std::string>();
  CLI::App* command = program.app.add_subcommand("health", "Ask whether the gate is serving");
  command->add_option("service", *service, "Name of a gRPC service; default: the whole server");
  command->footer("Exit codes: 0 serving, 3 not serving or not reachable.");
  command->callback([&program, service] {
    program.run = [&program, service] { return Health(program.options, *service); };
  });
}

}  // namespace fairgate::cli
