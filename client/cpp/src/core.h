// What a Client and its Admissions share: the channel, the breaker and the counters.
#ifndef FAIRGATE_CLIENT_CPP_SRC_CORE_H_
#define FAIRGATE_CLIENT_CPP_SRC_CORE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fairgate/client.h"
#include "fairgate/v1/admission.grpc.pb.h"

namespace fairgate::client {

// Counts failures in a row; open, it lets one try through per cooldown. Not thread-safe.
class Breaker {
 public:
  Breaker(int failures_max, absl::Duration cooldown)
      : failures_max_(failures_max), cooldown_(cooldown) {}

  bool Allows(absl::Time now) {
    if (failures_max_ <= 0 || failures_ < failures_max_) return true;
    if (now < retry_at_) return false;
    retry_at_ = now + cooldown_;  // this one tries; the others go on without the gate
    return true;
  }
  void Succeeded() { failures_ = 0; }
  void Failed(absl::Time now) {
    if (failures_ < failures_max_) ++failures_;
    if (failures_ >= failures_max_) retry_at_ = now + cooldown_;
  }

 private:
  const int failures_max_;
  const absl::Duration cooldown_;
  int failures_ = 0;
  absl::Time retry_at_ = absl::InfinitePast();
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(ClientOptions options);

  absl::StatusOr<Admission> Admit(const AdmitOptions& options);
  absl::StatusOr<v1::ReleaseResponse> Release(const v1::ReleaseRequest& request);
  Counters counters() const;

 private:
  bool BreakerAllows();
  // Tells the breaker, and says whether the gate could not be reached (true) or answered (false).
  bool Unreached(const grpc::Status& status);
  Admission FailOpen(Admission admission, bool maybe_leased);

  const ClientOptions options_;
  const std::unique_ptr<v1::AdmissionService::Stub> stub_;

  mutable std::mutex mutex_;
  Breaker breaker_;    // guarded by mutex_
  Counters counters_;  // guarded by mutex_
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_CORE_H_
