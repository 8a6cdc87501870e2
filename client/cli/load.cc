// load: drives a target with closed-loop workers that obey their defers, as well-behaved callers
// do.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"
#include "client/cli/load_report.h"

namespace fairgate::cli {
namespace {

constexpr int kWorkersMax = 2000;  // each is a thread

struct LoadArguments {
  std::string target;
  std::vector<std::string> tenants = {"a", "b"};
  std::vector<std::string> classes = {""};
  std::vector<std::string> cost, actual;
  int workers = 4;
  std::string duration = "10s", call_time = "20ms", timer_floor = "0s", hold = "0s";
};

struct Plan {
  v1::AdmitRequest question;
  v1::ReleaseRequest settlement;
  absl::Duration call_time;
  absl::Time end;
};

void SleepUntil(absl::Time wake, absl::Time end) {
  const absl::Duration nap = std::min(wake, end) - absl::Now();
  if (nap > absl::ZeroDuration()) absl::SleepFor(nap);
}

// Asks for one call until it is granted, rejected or the time is over. True: granted.
bool AskOnce(Gate& gate, const Plan& plan, const v1::AdmitRequest& question, FlowTally* tally,
             grpc::Status* failure) {
  const absl::Time first = absl::Now();
  while (absl::Now() < plan.end) {
    v1::AdmitResponse response;
    grpc::ClientContext context;
    gate.SetDeadline(context, FromProto(question.max_hold()));
    const grpc::Status status = gate.admission().Admit(&context, question, &response);
    ++tally->admits;
    if (!status.ok()) {
      ++tally->errors;
      *failure = status;
      SleepUntil(absl::Now() + absl::Milliseconds(100), plan.end);
      return false;
    }
    if (response.has_grant()) {
      ++tally->grants;
      if (response.degraded()) ++tally->degraded;
      tally->waits_s.push_back(absl::ToDoubleSeconds(absl::Now() - first));
      return true;
    }
    if (!response.has_defer()) {
      ++tally->rejects;
      SleepUntil(absl::Now() + absl::Milliseconds(100), plan.end);
      return false;
    }
    SleepUntil(absl::Now() + FromProto(response.defer().retry_delay()), plan.end);
  }
  // The end, while waiting: the place goes to somebody else.
  v1::ReleaseRequest withdrawal;
  withdrawal.set_target(question.target());
  withdrawal.set_request_id(question.request_id());
  withdrawal.mutable_withdraw();
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  (void)gate.admission().Release(&context, withdrawal, &response);
  return false;
}

void Work(Gate& gate, Plan plan, const std::string& id_prefix, FlowTally* tally,
          grpc::Status* failure) {
  for (uint64_t call = 1; absl::Now() < plan.end; ++call) {
    const std::string id = absl::StrCat(id_prefix, "/", call);
    plan.question.set_request_id(id);
    if (!AskOnce(gate, plan, plan.question, tally, failure)) continue;
    absl::SleepFor(plan.call_time);
    plan.settlement.set_request_id(id);
    v1::ReleaseResponse response;
    grpc::ClientContext context;
    gate.SetDeadline(context);
    const grpc::Status status = gate.admission().Release(&context, plan.settlement, &response);
    if (!status.ok()) {
      ++tally->errors;
      *failure = status;
    }
  }
}

int Load(const GlobalOptions& options, const LoadArguments& arguments) {
  const auto cost = ParseAmounts(arguments.cost);
  const auto actual = ParseAmounts(arguments.actual);
  const auto duration = ParseDuration("--duration", arguments.duration);
  const auto call_time = ParseDuration("--call-time", arguments.call_time);
  const auto timer_floor = ParseDuration("--timer-floor", arguments.timer_floor);
  const auto hold = ParseDuration("--hold", arguments.hold);
  for (const absl::Status& status : {cost.status(), actual.status(), duration.status(),
                                     call_time.status(), timer_floor.status(), hold.status()}) {
    if (!status.ok()) return Complain(std::string(status.message()), kExitUsage);
  }
  const size_t workers =
      arguments.tenants.size() * arguments.classes.size() * static_cast<size_t>(arguments.workers);
  if (workers > kWorkersMax) {
    return Complain(absl::StrCat(workers, " workers are too many; at most ", kWorkersMax),
                    kExitUsage);
  }

  Plan plan;
  plan.call_time = *call_time;
  plan.question.set_target(arguments.target);
  *plan.question.mutable_cost() = *cost;
  SetProto(*timer_floor, plan.question.mutable_timer_floor());
  SetProto(*hold, plan.question.mutable_max_hold());
  plan.settlement.set_target(arguments.target);
  plan.settlement.mutable_settle()->set_outcome(v1::CALL_OUTCOME_OK);
  *plan.settlement.mutable_settle()->mutable_actual() = actual->empty() ? *cost : *actual;

  Gate gate(options);
  // A wrong target or address is said at once, not as a table of errors.
  v1::AdmitRequest probe = plan.question;
  probe.set_tenant(arguments.tenants.front());
  probe.set_priority(arguments.classes.front());
  probe.clear_max_hold();
  probe.set_mode(v1::ADMIT_MODE_CHECK_ONLY);
  v1::AdmitResponse probed;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  const grpc::Status status = gate.admission().Admit(&context, probe, &probed);
  if (!status.ok()) return gate.Fail(status);

  struct Worker {
    std::pair<std::string, std::string> flow;
    FlowTally tally;
    grpc::Status failure;
    std::thread thread;
  };
  std::vector<Worker> running(workers);
  const absl::Time start = absl::Now();
  plan.end = start + *duration;
  size_t next = 0;
  for (const std::string& class_name : arguments.classes) {
    for (const std::string& tenant : arguments.tenants) {
      for (int i = 0; i < arguments.workers; ++i) {
        Worker& worker = running[next];
        worker.flow = {class_name, tenant};
        plan.question.set_tenant(tenant);
        plan.question.set_priority(class_name);
        const std::string prefix = absl::StrCat("load/", absl::ToUnixMicros(start), "/", next++);
        worker.thread = std::thread([&gate, plan, prefix, &worker] {
          Work(gate, plan, prefix, &worker.tally, &worker.failure);
        });
      }
    }
  }
  FlowTallies tallies;
  grpc::Status failure;
  for (Worker& worker : running) {
    worker.thread.join();
    tallies[worker.flow].Add(worker.tally);
    if (!worker.failure.ok()) failure = worker.failure;
  }
  // Grants come until the end; the last calls and settlements after it are not counted as time.
  if (options.json) {
    PrintJson(ToJson(tallies, *duration));
  } else {
    std::fputs(ToTable(tallies, *duration).c_str(), stdout);
  }
  return failure.ok() ? kExitOk : gate.Fail(failure);
}

}  // namespace

void AddLoad(Program& program) {
  const auto arguments = std::make_shared<LoadArguments>();
  CLI::App* command = program.app.add_subcommand(
      "load", "Drive a target with workers for a while, and show who got how much");
  command->add_option("target", arguments->target, "The target")->required();
  command->add_option("--tenants", arguments->tenants, "Names, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--classes", arguments->classes, "Names; default: the default class")
      ->delimiter(',');
  command->add_option("--workers", arguments->workers, "Workers (threads) per tenant and class")
      ->check(CLI::Range(1, kWorkersMax))
      ->capture_default_str();
  command->add_option("--cost", arguments->cost, "dimension=amount per call; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--actual", arguments->actual,
                   "dimension=amount that a call really uses; default: as --cost")
      ->allow_extra_args(false);
  command->add_option("--duration", arguments->duration, "How long")->capture_default_str();
  command->add_option("--call-time", arguments->call_time, "How long each granted call takes")
      ->capture_default_str();
  command->add_option("--timer-floor", arguments->timer_floor, "Shortest sleep of the callers")
      ->capture_default_str();
  command->add_option("--hold", arguments->hold, "The gate may hold answers that long")
      ->capture_default_str();
  command->footer(
      "It really spends the target's quota: use a target of its own.\n"
      "Example: fairgate load demo --tenants a,b --classes hot,batch --workers 8 --duration 10s");
  command->callback([&program, arguments] {
    program.run = [&program, arguments] { return Load(program.options, *arguments); };
  });
}

}  // namespace fairgate::cli
