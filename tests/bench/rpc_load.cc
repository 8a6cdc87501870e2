// Load on a gRPC server: one thread, one completion queue, a fixed number of calls in flight over
// some channels. Prints one JSON object.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "echo.grpc.pb.h"
#include "fairgate/v1/admission.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "tests/bench/latencies.h"

namespace fairgate::bench {
namespace {

constexpr char kClasses[][12] = {"interactive", "standard", "batch"};

struct Options {
  std::string address;
  std::string kind = "echo";
  std::string target = "bench";
  std::string id_prefix;
  int in_flight = 64;
  int channels = 2;
  int tenants = 100;
  int ids = 1024;  // of the kind defer
  double seconds = 1;
  double warmup_s = 0.2;
  size_t payload_bytes = 100;
};

// What the calls in flight share. One thread, so no lock.
struct Tally {
  Latencies latencies;
  Latencies release_latencies;
  uint64_t grants = 0, defers = 0, rejects = 0, degraded = 0, errors = 0;
  size_t request_bytes = 0, response_bytes = 0;
  std::string last_error;
  uint64_t next_number = 0;
  uint64_t answers = 0;  // to Admit or Call, those of the warm-up too

  void Restart() {
    latencies.Clear();
    release_latencies.Clear();
    grants = defers = rejects = degraded = errors = 0;
  }
  void Fail(const grpc::Status& status) {
    ++errors;
    last_error = absl::StrCat(status.error_code(), ": ", status.error_message());
  }
};

// One of the calls in flight: asks, takes the answer, asks again.
class Slot {
 public:
  virtual ~Slot() = default;
  virtual void Ask() = 0;
  // The answer is there. False: there is more to do before the next question, and it is under way.
  virtual bool OnAnswer() = 0;
};

// The one call that a slot has under way. A context serves one call, so it is made anew.
template <typename Response>
struct Flight {
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
  Response response;
  grpc::Status status;
  Clock::time_point start;

  template <typename Stub, typename Request, typename Prepare>
  void Fly(Stub* stub, Prepare prepare, const Request& request, grpc::CompletionQueue* queue,
           Slot* slot) {
    reader.reset();
    context.emplace();
    start = Clock::now();
    reader = (stub->*prepare)(&*context, request, queue);
    reader->StartCall();
    reader->Finish(&response, &status, slot);
  }
  Clock::duration took() const { return Clock::now() - start; }
};

class EchoSlot final : public Slot {
 public:
  EchoSlot(const Options& options, const std::shared_ptr<grpc::Channel>& channel,
           grpc::CompletionQueue* queue, Tally* tally)
      : stub_(Echo::NewStub(channel)), queue_(queue), tally_(tally) {
    request_.set_payload(std::string(options.payload_bytes, 'q'));
  }

  void Ask() override {
    flight_.Fly(stub_.get(), &Echo::Stub::PrepareAsyncCall, request_, queue_, this);
  }
  bool OnAnswer() override {
    ++tally_->answers;
    tally_->latencies.Add(flight_.took());
    if (!flight_.status.ok()) tally_->Fail(flight_.status);
    tally_->request_bytes = request_.ByteSizeLong();
    tally_->response_bytes = flight_.response.ByteSizeLong();
    return true;
  }

 private:
  const std::unique_ptr<Echo::Stub> stub_;
  grpc::CompletionQueue* const queue_;
  Tally* const tally_;
  EchoRequest request_;
  Flight<EchoResponse> flight_;
};

// admit: a new id each time; its lease is left open. release: settles it before the next question.
// defer: asks for the same ids again and again, as pollers do.
class AdmitSlot final : public Slot {
 public:
  AdmitSlot(const Options& options, const std::shared_ptr<grpc::Channel>& channel,
            grpc::CompletionQueue* queue, Tally* tally)
      : options_(options),
        stub_(v1::AdmissionService::NewStub(channel)),
        queue_(queue),
        tally_(tally) {
    request_.set_target(options.target);
    (*request_.mutable_cost())["tokens"] = 750;
    settlement_.set_target(options.target);
    settlement_.mutable_settle()->set_outcome(v1::CALL_OUTCOME_OK);
    (*settlement_.mutable_settle()->mutable_actual())["tokens"] = 700;
  }

  void Ask() override {
    uint64_t number = tally_->next_number++;
    if (options_.kind == "defer") number %= static_cast<uint64_t>(options_.ids);
    request_.set_tenant(
        absl::StrFormat("tenant-%04d", number % static_cast<uint64_t>(options_.tenants)));
    request_.set_priority(kClasses[number % std::size(kClasses)]);
    request_.set_request_id(absl::StrFormat("%s/%010d", options_.id_prefix, number));
    releasing_ = false;
    admit_.Fly(stub_.get(), &v1::AdmissionService::Stub::PrepareAsyncAdmit, request_, queue_, this);
  }

  bool OnAnswer() override {
    if (releasing_) {
      tally_->release_latencies.Add(release_.took());
      if (!release_.status.ok()) tally_->Fail(release_.status);
      return true;
    }
    ++tally_->answers;
    tally_->latencies.Add(admit_.took());
    const v1::AdmitResponse& answer = admit_.response;
    tally_->request_bytes = request_.ByteSizeLong();
    tally_->response_bytes = answer.ByteSizeLong();
    tally_->degraded += answer.degraded() ? 1 : 0;
    if (!admit_.status.ok()) {
      tally_->Fail(admit_.status);
    } else if (answer.has_defer()) {
      ++tally_->defers;
    } else if (!answer.has_grant()) {
      ++tally_->rejects;
    } else {
      ++tally_->grants;
      if (options_.kind != "release") return true;
      releasing_ = true;
      settlement_.set_request_id(request_.request_id());
      release_.Fly(stub_.get(), &v1::AdmissionService::Stub::PrepareAsyncRelease, settlement_,
                   queue_, this);
      return false;
    }
    return true;
  }

 private:
  const Options& options_;
  const std::unique_ptr<v1::AdmissionService::Stub> stub_;
  grpc::CompletionQueue* const queue_;
  Tally* const tally_;
  v1::AdmitRequest request_;
  v1::ReleaseRequest settlement_;
  Flight<v1::AdmitResponse> admit_;
  Flight<v1::ReleaseResponse> release_;
  bool releasing_ = false;
};

std::vector<std::shared_ptr<grpc::Channel>> Dial(const Options& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < options.channels; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection each
    channels.push_back(
        grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
    if (!channels.back()->WaitForConnected(std::chrono::system_clock::now() +
                                           std::chrono::seconds(5)))
      return {};
  }
  return channels;
}

int Run(const Options& options) {
  const auto channels = Dial(options);
  if (channels.empty()) {
    std::fprintf(stderr, "rpc_load: cannot connect to %s\n", options.address.c_str());
    return 1;
  }
  grpc::CompletionQueue queue;
  Tally tally;
  std::vector<std::unique_ptr<Slot>> slots;
  for (size_t i = 0; i < static_cast<size_t>(options.in_flight); ++i) {
    const auto& channel = channels[i % channels.size()];
    if (options.kind == "echo") {
      slots.push_back(std::make_unique<EchoSlot>(options, channel, &queue, &tally));
    } else {
      slots.push_back(std::make_unique<AdmitSlot>(options, channel, &queue, &tally));
    }
  }
  const auto after = [](double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  };
  Clock::time_point start = Clock::now() + after(options.warmup_s);
  const Clock::time_point end = start + after(options.seconds);
  bool warm = false;
  for (const auto& slot : slots) slot->Ask();
  void* tag = nullptr;
  bool ok = false;
  size_t open = slots.size();
  double seconds = 0;
  while (open > 0 && queue.Next(&tag, &ok)) {
    auto* const slot = static_cast<Slot*>(tag);
    const bool next = slot->OnAnswer();
    const Clock::time_point now = Clock::now();
    if (!warm && now >= start) {
      warm = true;
      start = now;
      tally.Restart();
    }
    if (!next) continue;
    if (now < end || tally.latencies.count() == 0) {
      slot->Ask();
      continue;
    }
    // What is answered after the end is not counted.
    if (open == slots.size()) {
      seconds = std::chrono::duration<double>(now - start).count();
      const size_t calls = tally.latencies.count();
      absl::PrintF("{\"calls\": %d, \"seconds\": %.4f, \"calls_per_s\": %.1f, ", calls, seconds,
                   static_cast<double>(calls) / seconds);
      absl::PrintF("%s, ", tally.latencies.Json(""));
      if (options.kind == "release") absl::PrintF("%s, ", tally.release_latencies.Json("release_"));
      absl::PrintF(
          "\"grants\": %d, \"defers\": %d, \"rejects\": %d, \"degraded\": %d, \"errors\": %d, ",
          tally.grants, tally.defers, tally.rejects, tally.degraded, tally.errors);
      absl::PrintF("\"answers\": %d, \"request_bytes\": %d, \"response_bytes\": %d}\n",
                   tally.answers, tally.request_bytes, tally.response_bytes);
    }
    --open;
  }
  if (tally.errors > 0)
    std::fprintf(stderr, "rpc_load: the last error was %s\n", tally.last_error.c_str());
  return 0;
}

}  // namespace
}  // namespace fairgate::bench

int main(int argc, char** argv) {
  CLI::App app("Load on a gRPC server");
  fairgate::bench::Options options;
  app.add_option("address", options.address, "host:port")->required();
  app.add_option("--kind", options.kind, "what is asked")
      ->check(CLI::IsMember({"echo", "admit", "release", "defer"}));
  app.add_option("--target", options.target);
  app.add_option("--id-prefix", options.id_prefix, "of request ids; one per run, or ids repeat");
  app.add_option("--in-flight", options.in_flight)->check(CLI::Range(1, 100000));
  app.add_option("--channels", options.channels)->check(CLI::Range(1, 64));
  app.add_option("--tenants", options.tenants)->check(CLI::Range(1, 1000000));
  app.add_option("--ids", options.ids, "kind defer: how many ids ask")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.01, 3600.0));
  app.add_option("--warmup", options.warmup_s, "seconds before the count starts")
      ->check(CLI::Range(0.0, 60.0));
  app.add_option("--payload-bytes", options.payload_bytes, "kind echo");
  CLI11_PARSE(app, argc, argv);
  return fairgate::bench::Run(options);
}
