#include "fairgate/tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "client/cpp/src/json.h"

namespace fairgate::client {
namespace {

constexpr int64_t kCharactersPerToken = 4;
constexpr std::array kTextFields = {"system", "instructions", "messages", "input",
                                    "prompt", "tools",        "functions"};
constexpr std::array kOutputFields = {"max_completion_tokens", "max_output_tokens", "max_tokens"};
// Values that are ids, names of kinds, or data that is not counted by its characters.
constexpr std::array<absl::string_view, 15> kNotText = {
    "cache_control", "call_id",     "data",       "file", "file_data", "id",
    "image_url",     "input_audio", "media_type", "role", "source",    "tool_call_id",
    "tool_use_id",   "type",        "url"};

int64_t CodePoints(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not the rest of one
  });
}

// protobuf's parser bounds the depth.
// NOLINTNEXTLINE(misc-no-recursion)
void EachText(const Json& value, absl::FunctionRef<void(const std::string&)> use) {
  switch (value.kind_case()) {
    case Json::kStringValue:
      use(value.string_value());
      break;
    case Json::kStructValue:
      for (const auto& [key, inner] : value.struct_value().fields()) {
        if (std::find(kNotText.begin(), kNotText.end(), key) == kNotText.end()) {
          EachText(inner, use);
        }
      }
      break;
    case Json::kListValue:
      for (const Json& inner : value.list_value().values()) EachText(inner, use);
      break;
    default:
      break;
  }
}

// A positive whole number.
std::optional<int64_t> FindCount(const JsonObject& object, const std::string& name) {
  const std::optional<double> number = FindNumber(object, name);
  if (!number || *number < 1 || *number != std::trunc(*number) ||
      *number > std::numeric_limits<int32_t>::max()) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

}  // namespace

int64_t Estimator::Tokens(absl::string_view body) const {
  std::optional<JsonObject> request = ParseJsonObject(body);
  if (!request) {
    request.emplace();
    (*request->mutable_fields())["prompt"].set_string_value(std::string(body));
  }
  int64_t characters = 0;
  int64_t counted = 0;
  for (const char* field : kTextFields) {
    const Json* value = Find(*request, field);
    if (value == nullptr) continue;
    EachText(*value, [&](const std::string& text) {
      (count ? counted : characters) += count ? count(text) : CodePoints(text);
    });
  }
  int64_t bound = output;
  for (const char* field : kOutputFields) {
    if (const auto told = FindCount(*request, field)) {
      bound = *told;
      break;
    }
  }
  return counted + (characters + kCharactersPerToken - 1) / kCharactersPerToken +
         bound * FindCount(*request, "n").value_or(1);
}

int64_t EstimateTokens(absl::string_view body) { return Estimator().Tokens(body); }

}  // namespace fairgate::client
