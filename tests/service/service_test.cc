// The services over real gRPC, in process, on a store that answers what each test wants.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fairgate/v1/admin.grpc.pb.h"
#include "fairgate/v1/admission.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "server/gate/gate.h"
#include "server/service/admin_service.h"
#include "server/service/admission_service.h"
#include "tests/service/fake_store.h"

namespace fairgate {
namespace {

v1::TargetPolicy Policy(const std::string& name) {
  v1::TargetPolicy policy;
  policy.set_name(name);
  v1::DimensionPolicy* const dimension = policy.add_dimensions();
  dimension->set_name("requests");
  dimension->set_limit(100);
  dimension->mutable_window()->set_seconds(1);
  policy.set_on_store_loss(v1::STORE_LOSS_MODE_CLOSED);
  return policy;
}

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    store_.Put(Policy("openai"));
    store_.on_admit = [](const AdmitQuery& query) -> absl::StatusOr<Decision> {
      Decision decision;
      decision.request_id = query.request_id;
      decision.attempt = query.attempt;
      decision.config_version = 1;
      decision.outcome = Grant{{{"requests", 1}}, absl::Seconds(60), false};
      decision.facts.priority = "default";
      return decision;
    };
    store_.on_release = [](const ReleaseQuery&) -> absl::StatusOr<ReleaseReport> {
      ReleaseReport report;
      report.result = ReleaseResult::kSettled;
      return report;
    };
    GateOptions options;
    options.gate_id = "test";
    gate_ = std::make_unique<Gate>(
        &store_,
        [this](absl::Duration delay, std::function<void()> task) {
          timers_.RunAfter(delay, std::move(task));
        },
        std::move(options));
    service_ = std::make_unique<AdmissionService>(gate_.get(), &metrics_,
                                                  [this](const absl::Status&) { ++faults_; });
    grpc::ServerBuilder builder;
    service_->Register(&builder);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    service_->Start();
    channel_ = server_->InProcessChannel({});
    stub_ = v1::AdmissionService::NewStub(channel_);
    admin_stub_ = v1::AdminService::NewStub(channel_);
  }

  void TearDown() override { Stop(); }

  void Stop() {
    if (server_ != nullptr) {
      gate_->StopHolding();
      server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
      service_->Stop();
      timers_.Stop();
      store_.Stop();
      gate_.reset();
      server_.reset();
    }
  }

  static v1::AdmitRequest Request(const std::string& target = "openai") {
    v1::AdmitRequest request;
    request.set_target(target);
    request.set_tenant("acme");
    request.set_request_id("wf/1");
    return request;
  }

  grpc::Status Admit(const v1::AdmitRequest& request, v1::AdmitResponse* response) {
    grpc::ClientContext context;
    return stub_->Admit(&context, request, response);
  }

  Metrics metrics_{{}};
  FakeStore store_;
  TimerThread timers_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<AdmissionService> service_;
  AdminService admin_{&store_, [](const v1::TargetPolicy&) { return true; }};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AdmissionService::Stub> stub_;
  std::unique_ptr<v1::AdminService::Stub> admin_stub_;
  std::atomic<int> faults_{0};
};

TEST_F(ServiceTest, AdmitAnswersTheDecision) {
  v1::AdmitResponse response;
  const grpc::Status status = Admit(Request(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.has_grant());
  EXPECT_EQ(response.request_id(), "wf/1");
  EXPECT_EQ(response.attempt(), 1u);
  EXPECT_EQ(response.grant().debited().at("requests"), 1);
}

TEST_F(ServiceTest, MissingIdIsMade) {
  v1::AdmitRequest request = Request();
  request.clear_request_id();
  v1::AdmitResponse first;
  v1::AdmitResponse second;
  ASSERT_TRUE(Admit(request, &first).ok());
  ASSERT_TRUE(Admit(request, &second).ok());
  EXPECT_FALSE(first.request_id().empty());
  EXPECT_NE(first.request_id(), second.request_id());
}

TEST_F(ServiceTest, BadFieldIsNamed) {
  v1::AdmitRequest request = Request();
  request.clear_tenant();
  v1::AdmitResponse response;
  const grpc::Status status = Admit(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::BadRequest bad;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "tenant");
}

TEST_F(ServiceTest, UnknownTargetIsNotFound) {
  v1::AdmitResponse response;
  EXPECT_EQ(Admit(Request("nobody"), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(faults_, 0);
}

TEST_F(ServiceTest, ScriptFaultIsInternalAndReported) {
  store_.on_admit = [](const AdmitQuery&) -> absl::StatusOr<Decision> {
    return absl::InternalError("user_script:3: attempt to index nil");
  };
  v1::AdmitResponse response;
  EXPECT_EQ(Admit(Request(), &response).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(faults_, 1);
}

TEST_F(ServiceTest, ReleaseAnswersTheReport) {
  v1::ReleaseRequest request;
  request.set_target("openai");
  request.set_request_id("wf/1");
  request.mutable_settle()->set_outcome(v1::CALL_OUTCOME_OK);
  v1::ReleaseResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Release(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.result(), v1::RELEASE_RESULT_SETTLED);
}

TEST_F(ServiceTest, ConfigureWritesAndChecksTheVersion) {
  v1::ConfigureRequest request;
  *request.mutable_policy() = Policy("new");
  v1::ConfigureResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->Configure(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.config_version(), 1u);
  request.mutable_policy()->mutable_dimensions(0)->set_limit(5);
  request.set_expected_version(9);
  grpc::ClientContext again;
  EXPECT_EQ(stub_->Configure(&again, request, &response).error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(ServiceTest, AdminListsAndInspects) {
  store_.Put(Policy("anthropic"));
  v1::ListTargetsResponse list;
  grpc::ClientContext list_context;
  ASSERT_TRUE(admin_stub_->ListTargets(&list_context, {}, &list).ok());
  ASSERT_EQ(list.targets_size(), 2);
  EXPECT_EQ(list.targets(0), "anthropic");
  EXPECT_EQ(list.targets(1), "openai");

  v1::InspectTargetRequest request;
  request.set_target("openai");
  v1::InspectTargetResponse state;
  grpc::ClientContext inspect_context;
  ASSERT_TRUE(admin_stub_->InspectTarget(&inspect_context, request, &state).ok());
  EXPECT_EQ(state.target(), "openai");
  EXPECT_TRUE(state.differs_from_file());
  EXPECT_EQ(state.waiters(), 100u);  // the fake's echo of flows_max

  request.set_flows_max(1001);
  grpc::ClientContext bad_context;
  EXPECT_EQ(admin_stub_->InspectTarget(&bad_context, request, &state).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_flows_max(0);
  request.set_target("nobody");
  grpc::ClientContext unknown_context;
  EXPECT_EQ(admin_stub_->InspectTarget(&unknown_context, request, &state).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServiceTest, ManyCallsFromManyThreads) {
  std::atomic<int> granted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        v1::AdmitResponse response;
        granted += Admit(Request(), &response).ok() && response.has_grant() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(granted, 1600);
}

TEST_F(ServiceTest, TheDrainDoesNotWaitForParkedCalls) {
  std::atomic<int> asked{0};
  store_.on_admit = [&](const AdmitQuery&) -> absl::StatusOr<Decision> {
    Defer defer;
    defer.retry_delay = absl::Seconds(60);
    Decision decision;
    decision.outcome = defer;
    decision.may_hold = true;
    ++asked;
    return decision;
  };
  std::vector<std::thread> callers;
  std::atomic<int> deferred{0};
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      v1::AdmitRequest request = Request();
      request.mutable_max_hold()->set_seconds(60);
      v1::AdmitResponse response;
      deferred += Admit(request, &response).ok() && response.has_defer() ? 1 : 0;
    });
  }
  while (asked < 4) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  Stop();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(deferred, 4);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// The sanitizers' runs find what a cancelled call leaves behind.
TEST_F(ServiceTest, CallsThatTheClientGaveUpEnd) {
  store_.delay = absl::Milliseconds(200);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    v1::AdmitResponse response;
    EXPECT_EQ(stub_->Admit(&context, Request(), &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  Stop();
}

}  // namespace
}  // namespace fairgate
