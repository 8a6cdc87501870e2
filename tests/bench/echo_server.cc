// A bare gRPC server that answers at once: the ceiling of what any gate on this gRPC can serve.
// Prints its port, serves until SIGTERM.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "echo.grpc.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"

namespace fairgate::bench {
namespace {

constexpr int kSlots = 128;

class CallbackEcho final : public Echo::CallbackService {
 public:
  explicit CallbackEcho(const std::string& answer) { response_.set_payload(answer); }

  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context, const EchoRequest*,
                                 EchoResponse* response) override {
    *response = response_;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  EchoResponse response_;
};

class QueuedCall {
 public:
  QueuedCall(Echo::AsyncService* service, grpc::ServerCompletionQueue* queue,
             const EchoResponse* response)
      : service_(service), queue_(queue), response_(response) {
    service_->RequestCall(&context_, &request_, &responder_, queue_, queue_, this);
  }

  void OnEvent(bool ok) {
    if (!ok || finishing_) {
      delete this;
      return;
    }
    finishing_ = true;
    new QueuedCall(service_, queue_, response_);
    responder_.Finish(*response_, grpc::Status::OK, this);
  }

 private:
  Echo::AsyncService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  const EchoResponse* const response_;
  grpc::ServerContext context_;
  EchoRequest request_;
  grpc::ServerAsyncResponseWriter<EchoResponse> responder_{&context_};
  bool finishing_ = false;
};

void ServeQueue(grpc::ServerCompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<QueuedCall*>(tag)->OnEvent(ok);
}

int Serve(const std::string& api, int threads, const std::string& answer) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);

  CallbackEcho callback_service(answer);
  Echo::AsyncService queued_service;
  EchoResponse response;
  response.set_payload(answer);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  std::vector<std::thread> servers;

  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  if (api == "callback") {
    builder.RegisterService(&callback_service);
  } else {
    builder.RegisterService(&queued_service);
    for (int i = 0; i < threads; ++i) queues.push_back(builder.AddCompletionQueue());
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  for (const auto& queue : queues) {
    for (int i = 0; i < kSlots; ++i) new QueuedCall(&queued_service, queue.get(), &response);
    servers.emplace_back(ServeQueue, queue.get());
  }
  std::cout << port << std::endl;

  int signal = 0;
  sigwait(&stop, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  for (const auto& queue : queues) queue->Shutdown();
  for (std::thread& thread : servers) thread.join();
  return 0;
}

}  // namespace
}  // namespace fairgate::bench

int main(int argc, char** argv) {
  CLI::App app("A bare gRPC echo server");
  std::string api = "cq";
  int threads = 1;
  bool health = false;
  size_t answer_bytes = 60;
  app.add_option("--api", api, "callback or cq")->check(CLI::IsMember({"callback", "cq"}));
  app.add_option("--threads", threads, "completion queues with a thread each")
      ->check(CLI::Range(1, 16));
  app.add_flag("--health", health,
               "gRPC's own health service, which uses callbacks, in the same server");
  app.add_option("--answer-bytes", answer_bytes, "payload of the answer");
  CLI11_PARSE(app, argc, argv);
  grpc::EnableDefaultHealthCheckService(health);
  return fairgate::bench::Serve(api, threads, std::string(answer_bytes, 'a'));
}
