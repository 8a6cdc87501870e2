// grpc.health.v1.Health, for probes and for clients that watch.
#ifndef FAIRGATE_SERVER_SERVICE_HEALTH_SERVICE_H_
#define FAIRGATE_SERVER_SERVICE_HEALTH_SERVICE_H_

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace fairgate {

// By the synchronous API; the one that gRPC brings uses callbacks and would slow down every Admit:
// see server/decisions/0001-cq-for-hot-methods.md. Thread-safe.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  // A watcher holds a thread, so there are at most `watchers_max`; more get RESOURCE_EXHAUSTED.
  // `services`: full names that have the server's status; others are unknown.
  explicit HealthService(std::set<std::string> services, int watchers_max = 100);

  // NOT_SERVING until told.
  void SetServing(bool serving);
  // NOT_SERVING for good; ends the watches, so that they do not hold up the server's shutdown.
  void Shutdown();

  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override;

 private:
  bool Knows(const std::string& service) const;

  const std::set<std::string> services_;
  const int watchers_max_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool serving_ = false;
  bool ended_ = false;
  int watchers_ = 0;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_HEALTH_SERVICE_H_
