// fairgate.v1.AdmissionService at the gRPC edge: messages in, the gate's answer out, no decisions.
#ifndef FAIRGATE_SERVER_SERVICE_ADMISSION_SERVICE_H_
#define FAIRGATE_SERVER_SERVICE_ADMISSION_SERVICE_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "fairgate/v1/admission.grpc.pb.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server_builder.h"
#include "server/gate/gate.h"
#include "server/metrics/metrics.h"

namespace fairgate {

// Admit and Release run on one completion queue, Configure by the synchronous API: see
// server/decisions/0001-cq-for-hot-methods.md.
//
// Order: Register, BuildAndStart of the server, Start, ... , Shutdown of the server, Stop.
class AdmissionService {
 public:
  // Told of failures that are the gate's own fault (kInternal), from any thread.
  using OnFault = std::function<void(const absl::Status&)>;

  // `gate` and `metrics` must outlive the service.
  AdmissionService(Gate* gate, Metrics* metrics, OnFault on_fault, int threads = 1);
  ~AdmissionService();
  AdmissionService(const AdmissionService&) = delete;
  AdmissionService& operator=(const AdmissionService&) = delete;

  void Register(grpc::ServerBuilder* builder);
  void Start();
  // Waits for the gate to answer what is in flight, then ends the threads. The server must have
  // been shut down before. Idempotent.
  void Stop();

 private:
  // Adds the hot methods' asynchronous and Configure's synchronous forms to the generated class.
  class Service;
  // What a completion queue's tag points to.
  class Event;
  template <typename Request, typename Response>
  class Call;
  class AdmitCall;
  class ReleaseCall;

  // A call that was accepted and not yet finished counts as in flight.
  void Enter();
  void Leave();
  void Fault(const absl::Status& status);
  void Loop();

  Gate* const gate_;
  Metrics* const metrics_;
  const OnFault on_fault_;
  const int thread_count_;
  const std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable idle_;
  size_t in_flight_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_ADMISSION_SERVICE_H_
