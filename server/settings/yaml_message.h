// YAML to protobuf by reflection: one schema for policy file and RPC.
#ifndef FAIRGATE_SERVER_SETTINGS_YAML_MESSAGE_H_
#define FAIRGATE_SERVER_SETTINGS_YAML_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace fairgate {

// Fills `message` from YAML text. Keys are the fields' names; unknown and repeated ones, wrong
// types and unknown enum values are kInvalidArgument "file:line: field.path: what is allowed". Enum
// values go by full name or without the type's prefix in small letters (`sliding`). Durations: a
// number with unit, "250ms", "1m30s".
absl::Status ParseYaml(const std::string& text, const std::string& file_name,
                       google::protobuf::Message* message);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SETTINGS_YAML_MESSAGE_H_
