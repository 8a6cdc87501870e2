#include "server/settings/policy_file.h"

#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/core/policy.h"
#include "server/settings/yaml_message.h"
#include "yaml-cpp/yaml.h"

namespace fairgate {

absl::StatusOr<v1::PolicyFile> ParsePolicyFile(const std::string& text,
                                               const std::string& file_name) {
  v1::PolicyFile file;
  if (absl::Status status = ParseYaml(text, file_name, &file); !status.ok()) return status;
  const YAML::Node root = YAML::Load(text);
  std::set<std::string> names;
  for (int i = 0; i < file.targets_size(); ++i) {
    const v1::TargetPolicy& target = file.targets(i);
    const std::string at =
        absl::StrCat(file_name, ":", root["targets"][static_cast<size_t>(i)].Mark().line + 1,
                     ": targets[", target.name().empty() ? absl::StrCat(i) : target.name(), "].");
    if (!names.insert(target.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat(at, "name: stands there twice"));
    }
    if (absl::Status status = ValidatePolicy(target); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(at, status.message()));
    }
  }
  return file;
}

absl::StatusOr<v1::PolicyFile> LoadPolicyFile(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("policy file ", path, ": cannot be read"));
  std::stringstream text;
  text << in.rdbuf();
  return ParsePolicyFile(text.str(), path);
}

}  // namespace fairgate
