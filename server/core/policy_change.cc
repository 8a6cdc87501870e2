// What a request makes of a policy, and how two policies differ.
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "server/core/policy.h"

namespace fairgate {
namespace {

template <typename List>
void MergeByName(const List& from, List* into) {
  for (const auto& entry : from) {
    auto it = std::find_if(into->begin(), into->end(),
                           [&](const auto& e) { return e.name() == entry.name(); });
    if (it != into->end()) {
      *it = entry;
    } else {
      *into->Add() = entry;
    }
  }
}

template <typename Names, typename List>
void RemoveByName(const Names& names, List* list) {
  for (const std::string& name : names) {
    for (int i = list->size() - 1; i >= 0; --i) {
      if (list->Get(i).name() == name) list->DeleteSubrange(i, 1);
    }
  }
}

// Leaf fields by path; entries of repeated fields by their name.
void Flatten(const google::protobuf::Message& message, const std::string& prefix,
             std::map<std::string, std::string>* out) {
  const auto* reflection = message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    const std::string path = prefix.empty() ? field->name() : prefix + "." + field->name();
    const bool is_duration =
        field->message_type() != nullptr && field->message_type()->name() == "Duration";
    if (field->is_repeated()) {
      for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
        const auto& entry = reflection->GetRepeatedMessage(message, field, i);
        const auto* key = entry.GetDescriptor()->field(0);  // name, or a cap's dimension
        Flatten(entry, absl::StrCat(path, "[", entry.GetReflection()->GetString(entry, key), "]"),
                out);
      }
    } else if (is_duration) {
      const auto& d =
          static_cast<const google::protobuf::Duration&>(reflection->GetMessage(message, field));
      (*out)[path] = absl::StrCat(static_cast<double>(d.seconds()) + d.nanos() / 1e9, "s");
    } else {
      std::string text;
      google::protobuf::TextFormat::PrintFieldValueToString(message, field, -1, &text);
      (*out)[path] = text;
    }
  }
}

}  // namespace

absl::StatusOr<v1::TargetPolicy> MergePolicy(const v1::TargetPolicy& current,
                                             const v1::ConfigureRequest& request) {
  v1::TargetPolicy merged = request.policy();
  if (request.has_update_mask() && request.update_mask().paths_size() > 0) {
    merged = current;
    merged.set_name(request.policy().name());
    google::protobuf::FieldMask plain;
    for (const std::string& path : request.update_mask().paths()) {
      if (v1::TargetPolicy::descriptor()->FindFieldByName(path) == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("update_mask: TargetPolicy has no field \"", path, "\""));
      }
      if (path == "dimensions") {
        MergeByName(request.policy().dimensions(), merged.mutable_dimensions());
      } else if (path == "classes") {
        MergeByName(request.policy().classes(), merged.mutable_classes());
      } else if (path == "tenants") {
        MergeByName(request.policy().tenants(), merged.mutable_tenants());
      } else {
        plain.add_paths(path);
      }
    }
    google::protobuf::util::FieldMaskUtil::MergeOptions options;
    options.set_replace_message_fields(true);
    google::protobuf::util::FieldMaskUtil::MergeMessageTo(request.policy(), plain, options,
                                                          &merged);
  } else if (request.has_remove()) {
    v1::TargetPolicy bare;
    bare.set_name(request.policy().name());
    // Nothing but the name: a request that only removes.
    if (google::protobuf::util::MessageDifferencer::Equals(request.policy(), bare)) {
      merged = current;
      merged.set_name(bare.name());
    }
  }
  RemoveByName(request.remove().dimensions(), merged.mutable_dimensions());
  RemoveByName(request.remove().classes(), merged.mutable_classes());
  RemoveByName(request.remove().tenants(), merged.mutable_tenants());
  return merged;
}

std::vector<v1::PolicyChange> DiffPolicy(const v1::TargetPolicy& before,
                                         const v1::TargetPolicy& after) {
  std::map<std::string, std::string> old_fields, new_fields;
  Flatten(before, "", &old_fields);
  Flatten(after, "", &new_fields);
  std::vector<v1::PolicyChange> changes;
  const auto add = [&](const std::string& field, std::string from, std::string to) {
    v1::PolicyChange change;
    change.set_field(field);
    change.set_before(std::move(from));
    change.set_after(std::move(to));
    changes.push_back(std::move(change));
  };
  for (const auto& [field, value] : old_fields) {
    const auto it = new_fields.find(field);
    if (it == new_fields.end()) {
      add(field, value, "");
    } else if (it->second != value) {
      add(field, value, it->second);
    }
  }
  for (const auto& [field, value] : new_fields) {
    if (!old_fields.contains(field)) add(field, "", value);
  }
  return changes;
}

}  // namespace fairgate
