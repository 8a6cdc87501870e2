#include "server/app.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "prometheus/exposer.h"
#include "server/core/log.h"
#include "server/gate/gate.h"
#include "server/metrics/collector.h"
#include "server/metrics/metrics.h"
#include "server/service/admin_service.h"
#include "server/service/admission_service.h"
#include "server/service/bootstrap.h"
#include "server/service/health_service.h"
#include "server/service/timer_thread.h"
#include "server/settings/policy_file.h"
#include "server/store/valkey_store.h"
#include "server/valkey/address.h"
#include "server/valkey/embedded_server.h"
#include "server/version.h"

namespace fairgate {
namespace {

constexpr int kProofsMax = 5;

// Tells servers of one store apart: alive at the same time, on any host.
std::string MakeGateId() {
  std::random_device random;
  return absl::StrCat(absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

// Tests only: the file holds the time as text, in microseconds.
std::optional<int64_t> ReadTestClock(const std::string& file) {
  std::ifstream in(file);
  int64_t now_us = 0;
  if (in >> now_us) return now_us;
  return std::nullopt;
}

// "host:0" with the port that was really taken.
std::string WithPort(const std::string& listen, int port) {
  return absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

}  // namespace

// In the order of the start; members that stand lower use those above and go first.
struct App::Parts {
  const std::string gate_id = MakeGateId();
  std::unique_ptr<EmbeddedServer> embedded;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<ValkeyStore> store;
  std::unique_ptr<TimerThread> timers;
  std::unique_ptr<Gate> gate;
  std::unique_ptr<AdmissionService> admission;
  std::unique_ptr<AdminService> admin;
  HealthService health{
      {v1::AdmissionService::service_full_name(), v1::AdminService::service_full_name()}};
  std::unique_ptr<grpc::Server> server;
  std::shared_ptr<TargetCollector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;

  std::string address;
  std::string metrics_address;
  std::atomic<bool> faulty{false};  // a script failed; the self-test must pass again
  bool proven = false;
  bool seeded = false;
  int proofs = 0;
  unsigned ticks = 0;
};

App::App(Settings settings) : settings_(std::move(settings)), parts_(std::make_unique<Parts>()) {}

App::~App() { Stop(); }

const std::string& App::address() const { return parts_->address; }
const std::string& App::metrics_address() const { return parts_->metrics_address; }

absl::Status App::Start() {
  absl::Status status = ReadPolicyFile();
  if (status.ok()) {
    status = StartStore();
  }
  if (status.ok()) {
    status = Prove();
    // A remote store may come later; without our own nothing works.
    if (absl::IsUnavailable(status) && parts_->embedded == nullptr) {
      LogWarning("store_away_at_start",
                 {{"decisions", "degraded"}, {"error", std::string(status.message())}});
      status = absl::OkStatus();
    }
  }
  if (status.ok()) {
    status = Seed();
    if (absl::IsUnavailable(status) && parts_->embedded == nullptr) {
      status = absl::OkStatus();
    }
  }
  if (status.ok()) {
    StartGate();
    status = StartServer();
  }
  if (status.ok()) {
    status = StartExposer();
  }
  if (!status.ok()) {
    Stop();
  }
  return status;
}

absl::Status App::ReadPolicyFile() {
  if (settings_.policy_file.empty()) {
    return absl::OkStatus();
  }
  absl::StatusOr<v1::PolicyFile> file = LoadPolicyFile(settings_.policy_file);
  if (!file.ok()) {
    return absl::InvalidArgumentError(file.status().message());
  }
  file_policies_.assign(file->targets().begin(), file->targets().end());
  return absl::OkStatus();
}

absl::Status App::StartStore() {
  Parts& parts = *parts_;
  absl::StatusOr<ValkeyAddress> address = ParseValkeyAddress(settings_.store);
  if (!address.ok()) {
    return address.status();
  }
  if (address->embedded) {
    absl::StatusOr<std::unique_ptr<EmbeddedServer>> started =
        EmbeddedServer::Start(settings_.state_dir);
    if (!started.ok()) {
      return started.status();
    }
    parts.embedded = *std::move(started);
    *address = parts.embedded->address();
  }
  MetricsOptions metrics;
  metrics.tenants = settings_.metrics_tenants;
  parts.metrics = std::make_unique<Metrics>(std::move(metrics));
  Metrics* const counted = parts.metrics.get();
  ValkeyStoreOptions options;
  options.on_evaluation = [counted](std::string_view function, size_t questions, double seconds) {
    counted->OnEvaluation(std::string(function), questions, absl::Seconds(seconds));
  };
  options.on_change = [counted](bool up) { counted->SetStoreUp(up); };
  options.address = *std::move(address);
  options.timeout = settings_.store_timeout;
  if (!settings_.test_clock_file.empty()) {
    options.clock = [file = settings_.test_clock_file] { return ReadTestClock(file); };
  }
  parts.store = std::make_unique<ValkeyStore>(std::move(options));
  // A first connection takes a moment; one that takes longer is a store that is away.
  parts.store->WaitConnected(absl::Seconds(5));
  return absl::OkStatus();
}

void App::StartGate() {
  Parts& parts = *parts_;
  parts.timers = std::make_unique<TimerThread>();
  GateOptions options;
  options.gate_id = parts.gate_id;
  options.hold_max = settings_.hold_max;
  parts.gate = std::make_unique<Gate>(
      parts.store.get(),
      [timers = parts.timers.get()](absl::Duration delay, std::function<void()> task) {
        timers->RunAfter(delay, std::move(task));
      },
      std::move(options));
  for (const v1::TargetPolicy& policy : file_policies_) {
    parts.gate->LearnPolicy(policy);
  }
  parts.gate->Beat();
}

absl::Status App::Prove() {
  absl::Status status;
  // Evaluations have a short limit that a cold or busy machine may pass: only lasting silence
  // counts. Each try has a target of its own, as the one before may have left one behind.
  for (int i = 0; status.ok() && i < kProofsMax; ++i) {
    status = fairgate::SelfTest(parts_->store.get(),
                                absl::StrCat(parts_->gate_id, "-", ++parts_->proofs));
    if (!absl::IsUnavailable(status)) {
      break;
    }
    if (i + 1 < kProofsMax) {
      status = absl::OkStatus();
    }
  }
  parts_->proven = status.ok();
  return status;
}

absl::Status App::Seed() {
  const absl::StatusOr<SeedReport> report =
      SeedPolicies(parts_->store.get(), file_policies_, settings_.policy_apply_always);
  if (!report.ok()) {
    return report.status();
  }
  parts_->seeded = true;
  for (const std::string& target : report->written) {
    LogInfo("policy_written", {{"target", target}, {"file", settings_.policy_file}});
  }
  for (const v1::TargetPolicy& policy : file_policies_) {
    parts_->metrics->SetPolicyDiffers(policy.name(), false);
  }
  for (const std::string& target : report->differing) {
    parts_->metrics->SetPolicyDiffers(target, true);
    LogWarning("policy_differs",
               {{"target", target},
                {"file", settings_.policy_file},
                {"in_force", "store"},
                {"hint", "see `fairgate apply -f` or start with --policy-apply=always"}});
  }
  return absl::OkStatus();
}

absl::Status App::StartServer() {
  Parts& parts = *parts_;
  parts.admission = std::make_unique<AdmissionService>(
      parts.gate.get(), parts.metrics.get(),
      [&parts](const absl::Status& status) {
        if (!parts.faulty.exchange(true)) {
          LogError("script_failed",
                   {{"serving", "false"}, {"error", std::string(status.message())}});
          parts.health.SetServing(false);
        }
      },
      settings_.completion_queue_threads);
  parts.admin =
      std::make_unique<AdminService>(parts.store.get(), [this](const v1::TargetPolicy& in_store) {
        for (const v1::TargetPolicy& policy : file_policies_) {
          if (policy.name() == in_store.name()) {
            return !SamePolicy(policy, in_store);
          }
        }
        return false;
      });

  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(settings_.listen, grpc::InsecureServerCredentials(), &port);
  // Two servers on one port would share its calls and hide a mistake.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  parts.admission->Register(&builder);
  builder.RegisterService(parts.admin.get());
  builder.RegisterService(&parts.health);
  // For the rare calls; more threads come when all are busy.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  parts.server = builder.BuildAndStart();
  if (parts.server == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", settings_.listen, ": is the port taken?"));
  }
  parts.health.SetServing(true);
  parts.admission->Start();
  parts.address = WithPort(settings_.listen, port);
  return absl::OkStatus();
}

absl::Status App::StartExposer() {
  if (settings_.metrics_listen.empty()) {
    return absl::OkStatus();
  }
  Parts& parts = *parts_;
  try {
    parts.exposer = std::make_unique<prometheus::Exposer>(settings_.metrics_listen, 1);
  } catch (const std::exception& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot expose metrics on ", settings_.metrics_listen, ": ", error.what()));
  }
  parts.collector =
      std::make_shared<TargetCollector>(parts.store.get(), parts.metrics.get(), [&parts] {
        parts.metrics->SetReplayQueue(parts.gate->kept_releases(), parts.gate->dropped_releases());
      });
  // The collector first, so that one scrape starts the look before it reads the gauges.
  parts.exposer->RegisterCollectable(parts.collector);
  parts.exposer->RegisterCollectable(parts.metrics->registry());
  const std::vector<int> ports = parts.exposer->GetListeningPorts();
  parts.metrics_address = WithPort(settings_.metrics_listen, ports.empty() ? 0 : ports.front());
  return absl::OkStatus();
}

void App::Upkeep() {
  Parts& parts = *parts_;
  if (++parts.ticks % 2 == 0) {
    parts.gate->Beat();  // every 2 s
  }
  if (parts.proven && parts.seeded && !parts.faulty) {
    return;
  }
  if (!parts.proven || parts.faulty) {
    const absl::Status status = Prove();
    if (status.ok()) {
      if (parts.faulty.exchange(false)) {
        LogInfo("self_test_passed", {{"serving", "true"}});
      }
      parts.health.SetServing(true);
    } else if (!absl::IsUnavailable(status)) {
      if (!parts.faulty.exchange(true)) {
        LogError("self_test_failed",
                 {{"serving", "false"}, {"error", std::string(status.message())}});
      }
      parts.health.SetServing(false);
    }
  }
  if (parts.proven && !parts.seeded) {
    const absl::Status status = Seed();
    if (!status.ok() && !absl::IsUnavailable(status)) {
      LogError("policy_file_failed",
               {{"file", settings_.policy_file}, {"error", std::string(status.message())}});
      parts.seeded = true;  // trying again would say the same every second
    }
  }
}

void App::Stop() {
  Parts& parts = *parts_;
  if (parts.server != nullptr) {
    parts.health.Shutdown();
    parts.gate->StopHolding();  // else the drain waits for as long as they are parked
    parts.server->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(settings_.drain_timeout));
  }
  if (parts.admission != nullptr) {
    parts.admission->Stop();
  }
  if (parts.collector != nullptr) {
    parts.collector->Stop();
  }
  parts.exposer.reset();
  if (parts.timers != nullptr) {
    parts.timers->Stop();
  }
  parts.server.reset();
  parts.admission.reset();
  parts.admin.reset();
  parts.store.reset();  // answers what is open, so before the gate
  parts.gate.reset();
  parts.embedded.reset();
}

std::string App::Greeting() const {
  const std::string state = parts_->embedded == nullptr
                                ? std::string("a remote Valkey")
                                : absl::StrCat("the Valkey in ", settings_.state_dir);
  return absl::StrCat(
      "fairgate-server ", std::string(kVersion), "\n  calls    ", address(), "\n  metrics  ",
      metrics_address().empty() ? "off" : absl::StrCat("http://", metrics_address(), "/metrics"),
      "\n  state    ", state,
      "\nTry: build/release/bin/fairgate admit openai-prod acme --class interactive --cost "
      "tokens=500\n");
}

}  // namespace fairgate
