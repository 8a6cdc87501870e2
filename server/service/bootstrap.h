// What a server does with the store before it serves: proves that the scripts decide, and brings
// the policy file in. Both block, for the main thread.
#ifndef FAIRGATE_SERVER_SERVICE_BOOTSTRAP_H_
#define FAIRGATE_SERVER_SERVICE_BOOTSTRAP_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fairgate/v1/policy.pb.h"
#include "server/store/admission_store.h"

namespace fairgate {

// Takes a target of its own, named after gate_id, through configure, admit (a grant, its repetition
// and a defer), release, inspect and delete. kUnavailable: the store is away and nothing is known;
// kInternal: the scripts do not do what they should, so this server must not serve.
absl::Status SelfTest(AdmissionStore* store, const std::string& gate_id);

// Whether a target is one that SelfTest made (a server that died during it leaves one behind).
bool IsSelfTestTarget(const std::string& target);

struct SeedReport {
  std::vector<std::string> written;    // were not there, or were overwritten
  std::vector<std::string> differing;  // the store's is in force and says something else
};

// Brings the targets of the policy file into the store. `always`: the file wins where they differ.
absl::StatusOr<SeedReport> SeedPolicies(AdmissionStore* store,
                                        const std::vector<v1::TargetPolicy>& targets, bool always);

bool SamePolicy(const v1::TargetPolicy& a, const v1::TargetPolicy& b);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_BOOTSTRAP_H_
