// The policy file: YAML in the schema of fairgate.v1.PolicyFile.
#ifndef FAIRGATE_SERVER_SETTINGS_POLICY_FILE_H_
#define FAIRGATE_SERVER_SETTINGS_POLICY_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "fairgate/v1/policy.pb.h"

namespace fairgate {

// Reads and checks a policy file. kInvalidArgument "file:line: field: what is allowed" for the
// first fault; kNotFound when it cannot be read.
absl::StatusOr<v1::PolicyFile> LoadPolicyFile(const std::string& path);

// The same from text; `file_name` is for messages.
absl::StatusOr<v1::PolicyFile> ParsePolicyFile(const std::string& text,
                                               const std::string& file_name);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SETTINGS_POLICY_FILE_H_
