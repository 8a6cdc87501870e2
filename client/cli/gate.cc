#include "client/cli/gate.h"

#include <google/protobuf/util/json_util.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace fairgate::cli {

Gate::Gate(const GlobalOptions& options)
    : address_(options.gate),
      timeout_(ParseDuration("--timeout", options.timeout).value_or(absl::Seconds(5))),
      channel_(grpc::CreateChannel(options.gate, grpc::InsecureChannelCredentials())),
      admission_(v1::AdmissionService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)) {}

void Gate::SetDeadline(grpc::ClientContext& context, absl::Duration added) const {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(absl::ToInt64Milliseconds(timeout_ + added)));
}

int Gate::Fail(const grpc::Status& status) const {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      if (!status.error_details().empty()) {  // the gate's own word
        return Complain(absl::StrCat("the gate at ", address_, " answers, but cannot decide now: ",
                                     status.error_message(), "; try again"),
                        kExitUnreachable);
      }
      [[fallthrough]];
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Complain(
          absl::StrCat("no answer from the gate at ", address_, ": ", status.error_message(),
                       "\nIs it running? `make run` starts one; --gate says where."),
          kExitUnreachable);
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Complain(status.error_message(), kExitUsage);
    default:
      return Complain(absl::StrCat(status.error_message(), " (gRPC status ",
                                   static_cast<int>(status.error_code()), ")"),
                      kExitFailed);
  }
}

int Complain(const std::string& message, ExitCode code) {
  std::fprintf(stderr, "fairgate: %s\n", message.c_str());
  return code;
}

void PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) {
    std::fprintf(stderr, "fairgate: %s\n", status.ToString().c_str());
    return;
  }
  std::fputs(json.c_str(), stdout);
}

absl::StatusOr<AmountMap> ParseAmounts(const std::vector<std::string>& words) {
  AmountMap amounts;
  for (const std::string& word : words) {
    const size_t equals = word.rfind('=');
    double amount = 0;
    if (equals == std::string::npos || equals == 0 ||
        !absl::SimpleAtod(word.substr(equals + 1), &amount) || !std::isfinite(amount)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", word, "\" is not of the form dimension=amount, e.g. tokens=900"));
    }
    amounts[word.substr(0, equals)] = amount;
  }
  return amounts;
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& option, const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": \"", text, "\" is not a duration, e.g. 500ms, 10s or 1m30s"));
  }
  return duration;
}

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

void SetProto(absl::Duration duration, google::protobuf::Duration* proto) {
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto->set_seconds(seconds);
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

std::string FormatAmounts(const AmountMap& amounts) {
  const std::map<std::string, double> sorted(amounts.begin(), amounts.end());
  std::string text;
  for (const auto& [name, amount] : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, "=", absl::StrFormat("%.10g", amount));
  }
  return text.empty() ? "nothing" : text;
}

std::string ReadableEnum(std::string_view name, std::string_view prefix) {
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  return absl::AsciiStrToLower(std::string(name));
}

std::string ReadableDuration(absl::Duration duration) {
  const absl::Duration unit =
      duration < absl::Seconds(10) ? absl::Milliseconds(1) : absl::Milliseconds(100);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

}  // namespace fairgate::cli
