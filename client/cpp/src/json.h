// Reading JSON, with the parser that protobuf brings along.
#ifndef FAIRGATE_CLIENT_CPP_SRC_JSON_H_
#define FAIRGATE_CLIENT_CPP_SRC_JSON_H_

#include <google/protobuf/struct.pb.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace fairgate::client {

using Json = google::protobuf::Value;
using JsonObject = google::protobuf::Struct;

// Nothing: the text is no JSON object.
std::optional<JsonObject> ParseJsonObject(absl::string_view text);

// Null where there is none, or where it is of another kind.
const Json* Find(const JsonObject& object, const std::string& name);
const JsonObject* FindObject(const JsonObject& object, const std::string& name);
std::optional<double> FindNumber(const JsonObject& object, const std::string& name);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_JSON_H_
