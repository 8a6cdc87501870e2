#include "server/settings/policy_file.h"

#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/core/policy.h"
#include "server/settings/yaml_message.h"
#include "yaml-cpp/yaml.h"

namespace fairgate {
namespace {

// Follows ValidatePolicy's "dimensions[tokens].limit: ..." into the YAML as far as it goes: the
// line of what is wrong, or of what lacks a field.
int LineOf(YAML::Node node, std::string path) {
  int line = node.Mark().line + 1;
  while (node.IsMap() && !path.empty()) {
    const size_t end = path.find_first_of("[.:");
    const YAML::Node child = node[path.substr(0, end)];
    if (!child.IsDefined()) break;
    path.erase(0, end == std::string::npos ? path.size() : end);
    YAML::Node next = child;
    if (path.rfind('[', 0) == 0) {
      if (!child.IsSequence()) break;
      next.reset();
      // Names may hold any letter, so the entries say where the name ends; the last of two
      // namesakes is the one too many.
      for (const YAML::Node& entry : child) {
        for (const char* key : {"name", "dimension"}) {
          if (!entry[key].IsDefined()) continue;
          if (path.rfind("[" + entry[key].as<std::string>("") + "]", 0) == 0) next.reset(entry);
        }
      }
      if (!next.IsDefined() || next.IsNull()) break;
      const YAML::Node name = next["name"].IsDefined() ? next["name"] : next["dimension"];
      path.erase(0, name.as<std::string>("").size() + 2);
    }
    node.reset(next);
    line = node.Mark().line + 1;
    if (path.rfind('.', 0) != 0) break;
    path.erase(0, 1);
  }
  return line;
}

}  // namespace

absl::StatusOr<v1::PolicyFile> ParsePolicyFile(const std::string& text,
                                               const std::string& file_name) {
  v1::PolicyFile file;
  if (absl::Status status = ParseYaml(text, file_name, &file); !status.ok()) return status;
  const YAML::Node root = YAML::Load(text);
  std::set<std::string> names;
  for (int i = 0; i < file.targets_size(); ++i) {
    const v1::TargetPolicy& target = file.targets(i);
    const YAML::Node node = root["targets"][static_cast<size_t>(i)];
    const auto fault = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_name, ":", LineOf(node, what), ": targets[",
                       target.name().empty() ? absl::StrCat(i) : target.name(), "].", what));
    };
    if (!names.insert(target.name()).second) return fault("name: stands there twice");
    if (absl::Status status = ValidatePolicy(target); !status.ok()) {
      return fault(std::string(status.message()));
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
