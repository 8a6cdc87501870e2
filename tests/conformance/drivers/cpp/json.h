// JSON lines in and out, as protobuf's Struct.
#ifndef FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_JSON_H_
#define FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_JSON_H_

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fairgate/values.h"

namespace fairgate::conformance {

using client::Amounts;
using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

inline void Set(Struct& to, const std::string& key, const std::string& value) {
  (*to.mutable_fields())[key].set_string_value(value);
}
inline void Set(Struct& to, const std::string& key, const char* value) {
  Set(to, key, std::string(value));
}
inline void Set(Struct& to, const std::string& key, double value) {
  (*to.mutable_fields())[key].set_number_value(value);
}
inline void Set(Struct& to, const std::string& key, bool value) {
  (*to.mutable_fields())[key].set_bool_value(value);
}
inline void Set(Struct& to, const std::string& key, absl::string_view value) {
  Set(to, key, std::string(value));
}
inline void Set(Struct& to, const std::string& key, absl::Duration value) {
  Set(to, key, absl::ToDoubleMilliseconds(value));
}
inline void Set(Struct& to, const std::string& key, const Amounts& amounts) {
  Struct* map = (*to.mutable_fields())[key].mutable_struct_value();
  for (const auto& [name, amount] : amounts) Set(*map, name, amount);
}

inline const Value* Find(const Struct& from, const std::string& key) {
  const auto found = from.fields().find(key);
  return found == from.fields().end() ? nullptr : &found->second;
}
inline std::string Text(const Struct& from, const std::string& key,
                        const std::string& otherwise = "") {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->string_value();
}
inline double Number(const Struct& from, const std::string& key, double otherwise = 0) {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->number_value();
}
inline bool Has(const Struct& from, const std::string& key) {
  const Value* value = Find(from, key);
  return value != nullptr && !value->has_null_value();
}
inline bool Flag(const Struct& from, const std::string& key, bool otherwise = false) {
  const Value* value = Find(from, key);
  return value == nullptr ? otherwise : value->bool_value();
}
inline Struct Map(const Struct& from, const std::string& key) {
  const Value* value = Find(from, key);
  return value == nullptr ? Struct() : value->struct_value();
}
inline Amounts ToAmounts(const Struct& map) {
  Amounts amounts;
  for (const auto& [name, value] : map.fields()) amounts[name] = value.number_value();
  return amounts;
}
inline absl::Duration Milliseconds(double milliseconds) { return absl::Milliseconds(milliseconds); }

inline std::string ToJson(const google::protobuf::Message& message) {
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text);
  return text;
}

}  // namespace fairgate::conformance

#endif  // FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_JSON_H_
