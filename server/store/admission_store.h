// The gate's view of where state lives: each method is one atomic evaluation on the owner of the
// target, answered by callback on the store's own thread. Callbacks must not block.
//
// Failures:
//   kUnavailable      the store did not answer in time or at all, or said that it cannot serve now
//                     (LOADING, READONLY, BUSY, OOM, MOVED ...). Whether the evaluation ran is not
//                     known; asking again with the same ids is safe.
//   kNotFound         no such target
//   kInvalidArgument  the request does not fit the target's policy; message "field: what is wrong"
//   kAborted          Configure: expected_version does not match
//   kInternal         a script failed or answered nonsense: our own fault, never a verdict
#ifndef FAIRGATE_SERVER_STORE_ADMISSION_STORE_H_
#define FAIRGATE_SERVER_STORE_ADMISSION_STORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fairgate/v1/admin.pb.h"
#include "fairgate/v1/policy.pb.h"
#include "server/core/decision.h"
#include "server/core/request.h"

namespace fairgate {

struct StoredPolicy {
  v1::TargetPolicy policy;
  uint64_t version = 0;
};

class AdmissionStore {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  virtual ~AdmissionStore() = default;

  virtual void Admit(const AdmitQuery& query, Callback<Decision> done) = 0;
  virtual void Release(const ReleaseQuery& query, Callback<ReleaseReport> done) = 0;

  // The policy in force; kNotFound when there is none.
  virtual void ReadPolicy(const std::string& target, Callback<StoredPolicy> done) = 0;
  // Writes a whole, valid policy if the stored version is expected_version (0: there is none).
  // Answers the new version.
  virtual void WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                           Callback<uint64_t> done) = 0;
  // Deletes the target and all its state, if the version matches.
  virtual void DeleteTarget(const std::string& target, uint64_t expected_version,
                            Callback<uint64_t> done) = 0;

  // State without policy fields filled from the file of this server.
  virtual void Inspect(const std::string& target, uint32_t flows_max,
                       Callback<v1::InspectTargetResponse> done) = 0;
  virtual void ListTargets(Callback<std::vector<std::string>> done) = 0;

  // Says that this gate is alive and answers how many are (including this one, >= 1).
  virtual void Heartbeat(const std::string& gate_id, absl::Duration lifetime,
                         Callback<uint32_t> done) = 0;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_ADMISSION_STORE_H_
