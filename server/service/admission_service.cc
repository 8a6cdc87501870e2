#include "server/service/admission_service.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/async_unary_call.h"
#include "server/core/validate.h"
#include "server/service/await.h"
#include "server/service/grpc_status.h"
#include "server/service/proto_convert.h"

namespace fairgate {
namespace {

// Calls that gRPC may hand over before the thread gets to ask for more.
constexpr int kAdmitSlots = 64;
constexpr int kReleaseSlots = 32;

// One line per fault, as ToGrpcStatus reads them.
absl::Status ToStatus(const std::vector<FieldViolation>& violations) {
  std::string message;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", violation.field, ": ",
                    violation.description);
  }
  return absl::InvalidArgumentError(message);
}

// The script knows both kinds of usage by one name; the caller has to find the field it sent.
absl::Status WithFieldOf(const v1::ReleaseRequest& request, const absl::Status& status) {
  constexpr absl::string_view kScripts = "usage";
  if (!absl::IsInvalidArgument(status) || !absl::StartsWith(status.message(), kScripts)) {
    return status;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(request.has_extend() ? "extend.used_so_far" : "settle.actual",
                   status.message().substr(kScripts.size())));
}

}  // namespace

class AdmissionService::Service final
    : public v1::AdmissionService::WithAsyncMethod_Admit<
          v1::AdmissionService::WithAsyncMethod_Release<v1::AdmissionService::Service>> {
 public:
  explicit Service(AdmissionService* owner) : owner_(owner) {}

  // On one of gRPC's threads, which waits.
  grpc::Status Configure(grpc::ServerContext* /*context*/, const v1::ConfigureRequest* request,
                         v1::ConfigureResponse* response) override {
    owner_->Enter();
    absl::StatusOr<v1::ConfigureResponse> answer =
        Await<v1::ConfigureResponse>([&](Gate::Callback<v1::ConfigureResponse> done) {
          owner_->gate_->Configure(*request, std::move(done));
        });
    const absl::Status status = answer.status();
    if (status.ok()) {
      *response = *std::move(answer);
    } else {
      owner_->Fault(status);
    }
    owner_->Leave();
    return ToGrpcStatus(status);
  }

 private:
  AdmissionService* const owner_;
};

class AdmissionService::Event {
 public:
  virtual ~Event() = default;
  // The queue is done with what was last asked for. The event may delete itself.
  virtual void OnEvent(bool ok) = 0;
};

// One call from its acceptance to the queue's word that the answer is out; owns itself. Answers
// come from any thread, and once Finish was called the queue's thread may delete the call.
// A call that the client gave up is not told apart: its Finish fails at once and frees it.
template <typename Request, typename Response>
class AdmissionService::Call : public Event {
 public:
  void OnEvent(bool ok) override {
    if (finishing_ || !ok) {  // done, or the server shuts down before a call came
      if (finishing_) {
        owner_->Leave();
      }
      delete this;
      return;
    }
    finishing_ = true;
    owner_->Enter();
    Next();
    Serve();
  }

 protected:
  explicit Call(AdmissionService* owner) : owner_(owner), responder_(&context_) {}

  // Puts another call of the kind into the queue, before this one is served.
  virtual void Next() = 0;
  // Asks the gate; ends in Succeed or Fail, once.
  virtual void Serve() = 0;
  virtual void CountError(const absl::Status& status) = 0;

  void Succeed(const Response& response) {
    responder_.Finish(response, grpc::Status::OK, static_cast<Event*>(this));
  }
  void Fail(const absl::Status& status) {
    CountError(status);
    owner_->Fault(status);
    responder_.FinishWithError(ToGrpcStatus(status), static_cast<Event*>(this));
  }

  AdmissionService* const owner_;
  grpc::ServerContext context_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> responder_;

 private:
  bool finishing_ = false;  // the queue's thread only
};

class AdmissionService::AdmitCall final : public Call<v1::AdmitRequest, v1::AdmitResponse> {
 public:
  explicit AdmitCall(AdmissionService* owner) : Call(owner) {
    owner_->service_->RequestAdmit(&context_, &request_, &responder_, owner_->queue_.get(),
                                   owner_->queue_.get(), static_cast<Event*>(this));
  }

 private:
  void Next() override { new AdmitCall(owner_); }

  void Serve() override {
    auto validated = ValidateAdmit(request_);
    if (const auto* const faults = std::get_if<1>(&validated)) {
      Fail(ToStatus(*faults));
      return;
    }
    owner_->gate_->Admit(
        std::get<0>(std::move(validated)), [this](absl::StatusOr<Decision> decision) {
          if (!decision.ok()) {
            Fail(decision.status());
            return;
          }
          owner_->metrics_->OnAdmit(request_.target(), request_.tenant(), *decision);
          Succeed(ToProto(*decision));
        });
  }

  void CountError(const absl::Status& status) override {
    owner_->metrics_->OnAdmitError(request_.target(), status);
  }
};

class AdmissionService::ReleaseCall final : public Call<v1::ReleaseRequest, v1::ReleaseResponse> {
 public:
  explicit ReleaseCall(AdmissionService* owner) : Call(owner) {
    owner_->service_->RequestRelease(&context_, &request_, &responder_, owner_->queue_.get(),
                                     owner_->queue_.get(), static_cast<Event*>(this));
  }

 private:
  void Next() override { new ReleaseCall(owner_); }

  void Serve() override {
    auto validated = ValidateRelease(request_);
    if (const auto* const faults = std::get_if<1>(&validated)) {
      Fail(ToStatus(*faults));
      return;
    }
    owner_->gate_->Release(std::get<0>(std::move(validated)),
                           [this](absl::StatusOr<ReleaseReport> report) {
                             if (!report.ok()) {
                               Fail(WithFieldOf(request_, report.status()));
                               return;
                             }
                             owner_->metrics_->OnRelease(request_.target(), *report);
                             Succeed(ToProto(*report));
                           });
  }

  void CountError(const absl::Status& status) override {
    owner_->metrics_->OnReleaseError(request_.target(), status);
  }
};

AdmissionService::AdmissionService(Gate* gate, Metrics* metrics, OnFault on_fault, int threads)
    : gate_(gate),
      metrics_(metrics),
      on_fault_(std::move(on_fault)),
      thread_count_(threads),
      service_(std::make_unique<Service>(this)) {}

AdmissionService::~AdmissionService() { Stop(); }

void AdmissionService::Register(grpc::ServerBuilder* builder) {
  builder->RegisterService(service_.get());
  queue_ = builder->AddCompletionQueue();
}

void AdmissionService::Start() {
  for (int i = 0; i < kAdmitSlots; ++i) {
    new AdmitCall(this);
  }
  for (int i = 0; i < kReleaseSlots; ++i) {
    new ReleaseCall(this);
  }
  for (int i = 0; i < thread_count_; ++i) {
    threads_.emplace_back([this] { Loop(); });
  }
}

void AdmissionService::Stop() {
  if (queue_ == nullptr) {
    return;
  }
  {
    // Finish must not meet a queue that has ended.
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this] { return in_flight_ == 0; });
  }
  queue_->Shutdown();
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
  // gRPC wants a queue emptied before it goes, even if the threads never ran.
  Loop();
  queue_.reset();
}

void AdmissionService::Loop() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    static_cast<Event*>(tag)->OnEvent(ok);
  }
}

void AdmissionService::Enter() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++in_flight_;
}

void AdmissionService::Leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --in_flight_;
  if (in_flight_ == 0) {
    idle_.notify_all();
  }
}

void AdmissionService::Fault(const absl::Status& status) {
  if (on_fault_ && status.code() == absl::StatusCode::kInternal) {
    on_fault_(status);
  }
}

}  // namespace fairgate
