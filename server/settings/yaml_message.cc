#include "server/settings/yaml_message.h"

#include <yaml-cpp/yaml.h>

#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

namespace fairgate {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class Loader {
 public:
  explicit Loader(std::string file) : file_(std::move(file)) {}

  absl::Status Fill(const YAML::Node& node, const std::string& path, Message* message) {
    if (!node.IsMap()) return Bad(node, path, "must be a map of fields");
    std::set<std::string> seen;
    for (const auto& entry : node) {
      const std::string key = entry.first.as<std::string>("");
      const std::string at = absl::StrCat(path, path.empty() ? "" : ".", key);
      const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(key);
      if (field == nullptr) return Bad(entry.first, at, "unknown key; allowed: " + Names(*message));
      if (!seen.insert(key).second) return Bad(entry.first, at, "stands there twice");
      if (auto s = FillField(entry.second, at, field, message); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status Bad(const YAML::Node& node, const std::string& path, const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ":", node.Mark().line + 1, ": ", path, ": ", what));
  }

 private:
  static std::string Names(const Message& message) {
    const auto* descriptor = message.GetDescriptor();
    std::vector<std::string> names;
    names.reserve(static_cast<size_t>(descriptor->field_count()));
    for (int i = 0; i < descriptor->field_count(); ++i) {
      names.push_back(descriptor->field(i)->name());
    }
    return absl::StrJoin(names, ", ");
  }

  absl::Status FillField(const YAML::Node& node, const std::string& path,
                         const FieldDescriptor* field, Message* message) {
    const auto* reflection = message->GetReflection();
    if (field->is_repeated()) {
      if (!node.IsSequence()) return Bad(node, path, "must be a list");
      for (size_t i = 0; i < node.size(); ++i) {
        const YAML::Node item = node[i];
        const std::string at = absl::StrCat(path, "[", i, "]");
        if (field->message_type() != nullptr) {
          if (auto s = Fill(item, at, reflection->AddMessage(message, field)); !s.ok()) return s;
        } else {
          if (!item.IsScalar()) return Bad(item, at, "must be text");
          reflection->AddString(message, field, item.Scalar());
        }
      }
      return absl::OkStatus();
    }
    if (field->message_type() != nullptr) {
      Message* child = reflection->MutableMessage(message, field);
      if (field->message_type()->full_name() != "google.protobuf.Duration") {
        return Fill(node, path, child);
      }
      absl::Duration duration;
      if (!node.IsScalar() || !absl::ParseDuration(node.Scalar(), &duration)) {
        return Bad(node, path, "must be a duration with a unit, for example 250ms, 1s, 1m, 1h");
      }
      const auto* r = child->GetReflection();
      const absl::Duration whole = absl::Trunc(duration, absl::Seconds(1));
      r->SetInt64(child, child->GetDescriptor()->FindFieldByName("seconds"),
                  absl::ToInt64Seconds(whole));
      r->SetInt32(child, child->GetDescriptor()->FindFieldByName("nanos"),
                  static_cast<int32_t>(absl::ToInt64Nanoseconds(duration - whole)));
      return absl::OkStatus();
    }
    if (!node.IsScalar()) return Bad(node, path, "must be a single value");
    return FillScalar(node, path, field, message);
  }

  absl::Status FillScalar(const YAML::Node& node, const std::string& path,
                          const FieldDescriptor* field, Message* message) {
    const auto* reflection = message->GetReflection();
    const std::string& text = node.Scalar();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        reflection->SetString(message, field, text);
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_BOOL:
        if (text != "true" && text != "false") return Bad(node, path, "must be true or false");
        reflection->SetBool(message, field, text == "true");
        return absl::OkStatus();
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = 0;
        if (!absl::SimpleAtod(text, &value)) return Bad(node, path, "must be a number");
        reflection->SetDouble(message, field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        uint32_t value = 0;
        if (!absl::SimpleAtoi(text, &value)) {
          return Bad(node, path, "must be a whole number from 0 on");
        }
        reflection->SetUInt32(message, field, value);
        return absl::OkStatus();
      }
      case FieldDescriptor::CPPTYPE_ENUM:
        return FillEnum(node, path, field, message);
      default:
        return Bad(node, path, "cannot be set here");
    }
  }

  absl::Status FillEnum(const YAML::Node& node, const std::string& path,
                        const FieldDescriptor* field, Message* message) {
    const EnumDescriptor* type = field->enum_type();
    // the first value is ..._UNSPECIFIED; what stands before that is the prefix
    const std::string first = type->value(0)->name();
    const std::string prefix = first.substr(0, first.size() - std::string("UNSPECIFIED").size());
    const auto* value = type->FindValueByName(node.Scalar());
    if (value == nullptr) {
      value = type->FindValueByName(prefix + absl::AsciiStrToUpper(node.Scalar()));
    }
    if (value == nullptr) {
      std::vector<std::string> names;
      for (int i = 1; i < type->value_count(); ++i) {
        names.push_back(absl::AsciiStrToLower(type->value(i)->name().substr(prefix.size())));
      }
      return Bad(node, path, "must be one of " + absl::StrJoin(names, ", "));
    }
    message->GetReflection()->SetEnum(message, field, value);
    return absl::OkStatus();
  }

  const std::string file_;
};

}  // namespace

absl::Status ParseYaml(const std::string& text, const std::string& file_name, Message* message) {
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return absl::OkStatus();
    return Loader(file_name).Fill(root, "", message);
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", e.mark.line + 1, ": ", e.msg));
  }
}

}  // namespace fairgate
