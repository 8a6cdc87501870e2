#include "server/service/health_service.h"

#include <chrono>
#include <optional>
#include <utility>

namespace fairgate {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How soon a watch notices that its client is gone.
constexpr std::chrono::seconds kLook(1);

}  // namespace

HealthService::HealthService(std::set<std::string> services, int watchers_max)
    : services_(std::move(services)), watchers_max_(watchers_max) {}

void HealthService::SetServing(bool serving) {
  const std::lock_guard<std::mutex> lock(mutex_);
  serving_ = serving && !ended_;
  changed_.notify_all();
}

void HealthService::Shutdown() {
  const std::lock_guard<std::mutex> lock(mutex_);
  serving_ = false;
  ended_ = true;
  changed_.notify_all();
}

bool HealthService::Knows(const std::string& service) const {
  return service.empty() || services_.count(service) > 0;
}

grpc::Status HealthService::Check(grpc::ServerContext* /*context*/,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  if (!Knows(request->service())) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  response->set_status(serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(grpc::ServerContext* context, const HealthCheckRequest* request,
                                  grpc::ServerWriter<HealthCheckResponse>* writer) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (watchers_ >= watchers_max_) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many watch the health");
  }
  ++watchers_;
  const bool known = Knows(request->service());
  std::optional<HealthCheckResponse::ServingStatus> told;
  bool there = true;
  while (there && !context->IsCancelled()) {
    const auto status = !known     ? HealthCheckResponse::SERVICE_UNKNOWN
                        : serving_ ? HealthCheckResponse::SERVING
                                   : HealthCheckResponse::NOT_SERVING;
    if (told != status) {
      told = status;
      HealthCheckResponse response;
      response.set_status(status);
      lock.unlock();
      there = writer->Write(response);
      lock.lock();
    } else if (ended_) {
      break;
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
  --watchers_;
  return ended_ ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server stops")
                : grpc::Status::OK;
}

}  // namespace fairgate
