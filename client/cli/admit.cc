// admit and release: the two questions of the API, by hand.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands.h"

namespace fairgate::cli {
namespace {

struct AdmitArguments {
  std::string target, tenant, priority, id;
  std::vector<std::string> cost;
  uint32_t attempt = 1;
  std::string deadline, timer_floor, hold;
  bool upper_bound = false, check = false, wait = false;
};

// Fills an optional duration field. False: a complaint was printed.
bool SetDuration(const std::string& option, const std::string& text,
                 google::protobuf::Duration* (*field)(v1::AdmitRequest*),
                 v1::AdmitRequest* request) {
  if (text.empty()) return true;
  const auto duration = ParseDuration(option, text);
  if (!duration.ok()) {
    Complain(std::string(duration.status().message()), kExitUsage);
    return false;
  }
  SetProto(*duration, field(request));
  return true;
}

std::string FormatLimits(const v1::Defer& defer) {
  std::string text;
  for (const v1::Limit& limit : defer.limited_by()) {
    const char* layer = limit.layer() == v1::LAYER_TARGET   ? "target"
                        : limit.layer() == v1::LAYER_CLASS  ? "class"
                        : limit.layer() == v1::LAYER_TENANT ? "tenant"
                                                            : "unknown";
    absl::StrAppend(&text, text.empty() ? "" : ", ", layer, limit.dimension().empty() ? "" : "/",
                    limit.dimension());
  }
  return text;
}

void PrintAnswer(const v1::AdmitResponse& response) {
  const char* degraded = response.degraded() ? "  DEGRADED: the store could not be asked" : "";
  if (response.has_grant()) {
    const v1::Grant& grant = response.grant();
    std::printf("GRANT   id %s attempt %u: debited %s, lease ends in %s%s%s\n",
                response.request_id().c_str(), response.attempt(),
                FormatAmounts(grant.debited()).c_str(),
                ReadableDuration(FromProto(grant.lease_expires_in())).c_str(),
                grant.repeated() ? " (given before)" : "", degraded);
  } else if (response.has_defer()) {
    const v1::Defer& defer = response.defer();
    std::printf(
        "DEFER   id %s attempt %u: ask again in %s, turn expected in %s, place %llu, "
        "limited by %s%s\n",
        response.request_id().c_str(), response.attempt(),
        ReadableDuration(FromProto(defer.retry_delay())).c_str(),
        ReadableDuration(FromProto(defer.projected_wait())).c_str(),
        static_cast<unsigned long long>(defer.place()), FormatLimits(defer).c_str(), degraded);
  } else {
    const v1::Reject& reject = response.reject();
    std::printf("REJECT  id %s attempt %u: %s: %s%s\n", response.request_id().c_str(),
                response.attempt(),
                ReadableEnum(v1::RejectReason_Name(reject.reason()), "REJECT_REASON_").c_str(),
                reject.message().c_str(), degraded);
  }
}

int Admit(const GlobalOptions& options, const AdmitArguments& arguments) {
  v1::AdmitRequest request;
  request.set_target(arguments.target);
  request.set_tenant(arguments.tenant);
  request.set_priority(arguments.priority);
  request.set_request_id(arguments.id);
  request.set_attempt(arguments.attempt);
  const auto cost = ParseAmounts(arguments.cost);
  if (!cost.ok()) return Complain(std::string(cost.status().message()), kExitUsage);
  *request.mutable_cost() = *cost;
  if (arguments.upper_bound) request.set_cost_kind(v1::COST_KIND_UPPER_BOUND);
  if (arguments.check) request.set_mode(v1::ADMIT_MODE_CHECK_ONLY);
  const bool durations_ok =
      SetDuration(
          "--deadline", arguments.deadline,
          [](v1::AdmitRequest* r) { return r->mutable_deadline(); }, &request) &&
      SetDuration(
          "--timer-floor", arguments.timer_floor,
          [](v1::AdmitRequest* r) { return r->mutable_timer_floor(); }, &request) &&
      SetDuration(
          "--hold", arguments.hold, [](v1::AdmitRequest* r) { return r->mutable_max_hold(); },
          &request);
  if (!durations_ok) return kExitUsage;

  Gate gate(options);
  const absl::Time start = absl::Now();
  while (true) {
    v1::AdmitResponse response;
    grpc::ClientContext context;
    gate.SetDeadline(context, FromProto(request.max_hold()));
    const grpc::Status status = gate.admission().Admit(&context, request, &response);
    if (!status.ok()) return gate.Fail(status);
    const bool again = arguments.wait && !arguments.check && response.has_defer();
    if (!options.json) {
      PrintAnswer(response);
      std::fflush(stdout);
    } else if (!again) {
      PrintJson(response);
    }
    if (response.has_grant()) return kExitOk;
    if (response.has_reject()) return kExitRejected;
    if (!response.has_defer()) return Complain("the gate answered nothing", kExitFailed);
    if (!again) return kExitDeferred;
    request.set_request_id(response.request_id());  // keeps the place
    absl::SleepFor(FromProto(response.defer().retry_delay()));
    if (!arguments.deadline.empty()) {
      const absl::Duration whole = ParseDuration("--deadline", arguments.deadline).value();
      SetProto(whole - (absl::Now() - start), request.mutable_deadline());
    }
  }
}

struct ReleaseArguments {
  std::string target, id;
  uint32_t attempt = 1;
  std::vector<std::string> actual;
  std::string outcome = "ok", retry_after, extend;
  bool withdraw = false;
};

v1::CallOutcome ToOutcome(const std::string& name) {
  if (name == "ok") return v1::CALL_OUTCOME_OK;
  if (name == "rate_limited") return v1::CALL_OUTCOME_RATE_LIMITED;
  if (name == "server_error") return v1::CALL_OUTCOME_SERVER_ERROR;
  if (name == "timeout") return v1::CALL_OUTCOME_TIMEOUT;
  if (name == "not_sent") return v1::CALL_OUTCOME_NOT_SENT;
  return v1::CALL_OUTCOME_UNSPECIFIED;
}

int Release(const GlobalOptions& options, const ReleaseArguments& arguments) {
  v1::ReleaseRequest request;
  request.set_target(arguments.target);
  request.set_request_id(arguments.id);
  request.set_attempt(arguments.attempt);
  const auto amounts = ParseAmounts(arguments.actual);
  if (!amounts.ok()) return Complain(std::string(amounts.status().message()), kExitUsage);
  if (arguments.withdraw) {
    request.mutable_withdraw();
  } else if (!arguments.extend.empty()) {
    const auto life = ParseDuration("--extend", arguments.extend);
    if (!life.ok()) return Complain(std::string(life.status().message()), kExitUsage);
    SetProto(*life, request.mutable_extend()->mutable_lease_ttl());
    *request.mutable_extend()->mutable_used_so_far() = *amounts;
  } else {
    v1::Settle* settle = request.mutable_settle();
    settle->set_outcome(ToOutcome(arguments.outcome));
    *settle->mutable_actual() = *amounts;
    if (!arguments.retry_after.empty()) {
      const auto retry_after = ParseDuration("--retry-after", arguments.retry_after);
      if (!retry_after.ok()) {
        return Complain(std::string(retry_after.status().message()), kExitUsage);
      }
      SetProto(*retry_after, settle->mutable_retry_after());
    }
  }

  Gate gate(options);
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  gate.SetDeadline(context);
  const grpc::Status status = gate.admission().Release(&context, request, &response);
  if (!status.ok()) return gate.Fail(status);
  if (options.json) {
    PrintJson(response);
  } else {
    std::printf("%s  refunded %s\n",
                ReadableEnum(v1::ReleaseResult_Name(response.result()), "RELEASE_RESULT_").c_str(),
                FormatAmounts(response.refunded()).c_str());
  }
  const bool nothing_done = response.result() == v1::RELEASE_RESULT_UNKNOWN ||
                            response.result() == v1::RELEASE_RESULT_EXPIRED;
  return nothing_done ? kExitFailed : kExitOk;
}

}  // namespace

void AddAdmit(Program& program) {
  const auto arguments = std::make_shared<AdmitArguments>();
  CLI::App* command = program.app.add_subcommand("admit", "Ask whether a call may go now");
  command->add_option("target", arguments->target, "The quota to ask for")->required();
  command->add_option("tenant", arguments->tenant, "Who asks")->required();
  command->add_option("--class,--priority", arguments->priority,
                      "Priority class; default: the target's");
  command->add_option("--cost", arguments->cost, "dimension=amount; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--id", arguments->id,
                      "Request id: keeps the place when asking again, and names the lease. "
                      "Default: the gate makes one");
  command->add_option("--attempt", arguments->attempt, "Which sending of the request this is")
      ->capture_default_str();
  command->add_option("--deadline", arguments->deadline, "Time left until the work is useless");
  command->add_option("--timer-floor", arguments->timer_floor, "Shortest sleep you can do");
  command->add_option("--hold", arguments->hold, "The gate may hold the answer that long");
  command->add_flag("--upper-bound", arguments->upper_bound,
                    "The cost is a bound (reservation), not an estimate");
  command->add_flag("--check", arguments->check, "Only say what the answer would be");
  command->add_flag("--wait", arguments->wait, "Sleep and ask again until granted or rejected");
  command->footer(
      "Exit codes: 0 granted, 10 deferred, 11 rejected, 2 bad input, 3 no gate.\n"
      "Example: fairgate admit openai-prod acme --cost tokens=900 --id job7/1 --wait");
  command->callback([&program, arguments] {
    program.run = [&program, arguments] { return Admit(program.options, *arguments); };
  });
}

void AddRelease(Program& program) {
  const auto arguments = std::make_shared<ReleaseArguments>();
  CLI::App* command =
      program.app.add_subcommand("release", "Settle, withdraw or extend what was admitted");
  command->add_option("target", arguments->target, "The quota that was asked for")->required();
  command->add_option("id", arguments->id, "The request id")->required();
  command->add_option("--attempt", arguments->attempt, "Which sending of the request")
      ->capture_default_str();
  command
      ->add_option("--actual", arguments->actual,
                   "dimension=amount really used; what is not named stays charged as estimated")
      ->allow_extra_args(false);
  command->add_option("--outcome", arguments->outcome, "How the call ended")
      ->check(
          CLI::IsMember({"ok", "rate_limited", "server_error", "timeout", "not_sent", "unknown"}))
      ->capture_default_str();
  command->add_option("--retry-after", arguments->retry_after,
                      "With rate_limited: how long the provider asks to wait");
  CLI::Option* withdraw =
      command->add_flag("--withdraw", arguments->withdraw, "Give up the place in line");
  command->add_option("--extend", arguments->extend, "Keep the lease for that long from now")
      ->excludes(withdraw);
  command->footer("Example: fairgate release openai-prod job7/1 --actual tokens=640");
  command->callback([&program, arguments] {
    program.run = [&program, arguments] { return Release(program.options, *arguments); };
  });
}

}  // namespace fairgate::cli
