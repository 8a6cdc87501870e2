// A gate whose answers a test writes down, served on a free port of this machine.
#ifndef FAIRGATE_TESTS_CLIENT_FAKE_GATE_H_
#define FAIRGATE_TESTS_CLIENT_FAKE_GATE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fairgate/v1/admin.grpc.pb.h"
#include "fairgate/v1/admission.grpc.pb.h"

namespace fairgate::testing {

class FakeGate : public v1::AdmissionService::Service, public v1::AdminService::Service {
 public:
  FakeGate() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::AdmissionService::Service*>(this));
    builder.RegisterService(static_cast<v1::AdminService::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~FakeGate() override { Stop(); }

  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  grpc::Server& server() { return *server_; }

  // Admit takes the answers in turn, and then grants.
  void Answer(v1::AdmitResponse response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_.push_back(std::move(response));
  }
  // Every Admit and Configure fails with this.
  void Fail(grpc::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::move(status);
  }
  // Every Admit takes that long.
  void Delay(std::chrono::milliseconds delay) {
    const std::lock_guard<std::mutex> lock(mutex_);
    delay_ = delay;
  }

  std::vector<v1::AdmitRequest> admits() const { return Copy(admits_); }
  std::vector<v1::ReleaseRequest> releases() const { return Copy(releases_); }
  std::vector<v1::ConfigureRequest> configures() const { return Copy(configures_); }

  grpc::Status Admit(grpc::ServerContext*, const v1::AdmitRequest* request,
                     v1::AdmitResponse* response) override {
    std::chrono::milliseconds delay;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      admits_.push_back(*request);
      if (!failure_.ok()) return failure_;
      delay = delay_;
      if (answers_.empty()) {
        (*response->mutable_grant()->mutable_debited())["requests"] = 1;
        response->mutable_grant()->mutable_lease_expires_in()->set_seconds(60);
        response->set_config_version(7);
      } else {
        *response = answers_.front();
        answers_.pop_front();
      }
    }
    response->set_request_id(request->request_id().empty() ? "made" : request->request_id());
    response->set_attempt(request->attempt() == 0 ? 1 : request->attempt());
    std::this_thread::sleep_for(delay);
    return grpc::Status::OK;
  }

  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request,
                       v1::ReleaseResponse* response) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    releases_.push_back(*request);
    response->set_result(request->request_id() == "never-asked" ? v1::RELEASE_RESULT_UNKNOWN
                         : request->has_settle()                ? v1::RELEASE_RESULT_SETTLED
                         : request->has_withdraw()              ? v1::RELEASE_RESULT_WITHDRAWN
                                                                : v1::RELEASE_RESULT_EXTENDED);
    (*response->mutable_refunded())["tokens"] = 260;
    return grpc::Status::OK;
  }

  grpc::Status Configure(grpc::ServerContext*, const v1::ConfigureRequest* request,
                         v1::ConfigureResponse* response) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    configures_.push_back(*request);
    if (!failure_.ok()) return failure_;
    v1::PolicyChange* change = response->add_changes();
    change->set_field("dimensions[requests].limit");
    change->set_before("10");
    change->set_after("20");
    response->set_config_version(8);
    return grpc::Status::OK;
  }

  grpc::Status ListTargets(grpc::ServerContext*, const v1::ListTargetsRequest*,
                           v1::ListTargetsResponse* response) override {
    response->add_targets("openai");
    return grpc::Status::OK;
  }

  grpc::Status InspectTarget(grpc::ServerContext*, const v1::InspectTargetRequest* request,
                             v1::InspectTargetResponse* response) override {
    if (request->target() != "openai") return {grpc::StatusCode::NOT_FOUND, "no such target"};
    response->set_target("openai");
    response->set_config_version(7);
    v1::DimensionState* dimension = response->add_dimensions();
    dimension->set_name("requests");
    dimension->set_rate_per_second(10);
    return grpc::Status::OK;
  }

 private:
  template <typename T>
  std::vector<T> Copy(const std::vector<T>& seen) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;

  mutable std::mutex mutex_;
  std::deque<v1::AdmitResponse> answers_;  // guarded by mutex_, as all below
  grpc::Status failure_;
  std::chrono::milliseconds delay_{0};
  std::vector<v1::AdmitRequest> admits_;
  std::vector<v1::ReleaseRequest> releases_;
  std::vector<v1::ConfigureRequest> configures_;
};

inline v1::AdmitResponse DeferFor(std::chrono::milliseconds delay) {
  v1::AdmitResponse response;
  v1::Defer* defer = response.mutable_defer();
  defer->mutable_retry_delay()->set_nanos(static_cast<int32_t>(delay.count()) * 1000000);
  defer->set_place(3);
  v1::Limit* limit = defer->add_limited_by();
  limit->set_layer(v1::LAYER_TARGET);
  limit->set_dimension("tokens");
  return response;
}

inline v1::AdmitResponse RejectFor(v1::RejectReason reason) {
  v1::AdmitResponse response;
  response.mutable_reject()->set_reason(reason);
  response.mutable_reject()->set_message("tokens: 900 is above what the cap can ever hold");
  return response;
}

// An address of this machine on which nobody listens (port 1 is reserved and never bound here).
inline std::string DeadAddress() { return "127.0.0.1:1"; }

}  // namespace fairgate::testing

#endif  // FAIRGATE_TESTS_CLIENT_FAKE_GATE_H_
