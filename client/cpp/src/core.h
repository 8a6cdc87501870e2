// What a Client and its Admissions share: the channel, the breaker, the counters and the hooks.
#ifndef FAIRGATE_CLIENT_CPP_SRC_CORE_H_
#define FAIRGATE_CLIENT_CPP_SRC_CORE_H_

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/src/background.h"
#include "client/cpp/src/breaker.h"
#include "client/cpp/src/instant.h"
#include "client/cpp/src/reconnect.h"
#include "fairgate/admission.h"
#include "fairgate/options.h"
#include "fairgate/v1/admission.grpc.pb.h"

namespace fairgate::client {

// The end of a permission.
struct Lease {
  std::shared_ptr<Core> core;
  Amounts cost;               // of the question
  bool is_open = false;       // there is something to end
  bool maybe_leased = false;  // failed open without knowing whether the gate decided
  bool sent = false;
  std::optional<Settlement> settlement;  // what was said last
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(ClientOptions options);

  absl::StatusOr<Admission> Admit(const AdmitOptions& options, Instant due,
                                  const std::stop_token& stop);
  // The answer where the caller's deadline passes while it waits for its turn.
  static Admission TooLateToWait(const Answer& deferred);
  // maybe_leased: nobody knows whether there is a lease, so that a loss is nobody's.
  absl::StatusOr<ReleaseReport> Release(const v1::ReleaseRequest& request, Instant due,
                                        const std::stop_token& stop, bool maybe_leased);
  // Nobody waits for it but Close().
  void ReleaseLater(v1::ReleaseRequest request) { background_.Add(std::move(request)); }
  void Close();
  Counters counters() const;
  // Of these, the dimensions that hold token usage.
  std::map<std::string, Usage> UsageDimensions(const Amounts& cost, const Amounts& debited) const;

  // For Exchange.
  bool BreakerAllows();
  void GateAnswered();
  void GateFailed();
  bool IsConnected() const;
  // Whether gRPC means the other end of a connection, as against nobody.
  bool IsPeer(const std::string& peer) const;

 private:
  // Counts an answer, and calls the hook.
  void Note(const AdmitOptions& options, Instant began, const absl::StatusOr<Answer>& answer);

  const ClientOptions options_;
  const std::string target_;  // as gRPC names it
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::AdmissionService::Stub> stub_;

  mutable std::mutex mutex_;
  Breaker breaker_;    // guarded by mutex_
  Counters counters_;  // guarded by mutex_

  // Last: their threads use all of the above.
  Reconnect reconnect_;
  Background background_;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_CORE_H_
