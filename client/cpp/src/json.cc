#include "client/cpp/src/json.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace fairgate::client {
namespace {

// protobuf's parser refuses what is nested deeper, too, but takes long to find out.
constexpr int kDepthMax = 90;

bool IsTooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (in_string) {
      if (letter == '\\') ++at;
      if (letter == '"') in_string = false;
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '{' || letter == '[') {
      if (++depth > kDepthMax) return true;
    } else if (letter == '}' || letter == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::optional<JsonObject> ParseJsonObject(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::StartsWith(text, "{") || IsTooDeep(text)) return std::nullopt;
  JsonObject object;
  const google::protobuf::StringPiece piece(text.data(), text.size());
  if (!google::protobuf::util::JsonStringToMessage(piece, &object).ok()) return std::nullopt;
  return object;
}

const Json* Find(const JsonObject& object, const std::string& name) {
  const auto found = object.fields().find(name);
  return found == object.fields().end() ? nullptr : &found->second;
}

const JsonObject* FindObject(const JsonObject& object, const std::string& name) {
  const Json* found = Find(object, name);
  return found != nullptr && found->has_struct_value() ? &found->struct_value() : nullptr;
}

std::optional<double> FindNumber(const JsonObject& object, const std::string& name) {
  const Json* found = Find(object, name);
  if (found == nullptr || found->kind_case() != Json::kNumberValue) return std::nullopt;
  return found->number_value();
}

}  // namespace fairgate::client
