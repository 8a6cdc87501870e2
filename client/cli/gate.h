// What all commands share: the connection, the exit codes and the printing.
#ifndef FAIRGATE_CLIENT_CLI_GATE_H_
#define FAIRGATE_CLIENT_CLI_GATE_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/map.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "fairgate/v1/admin.grpc.pb.h"
#include "fairgate/v1/admission.grpc.pb.h"

namespace fairgate::cli {

// Documented in --help; scripts rely on them.
enum ExitCode {
  kExitOk = 0,
  kExitFailed = 1,
  kExitUsage = 2,        // bad arguments, or the gate says that the request is bad
  kExitUnreachable = 3,  // no gate, or it is not serving
  kExitDeferred = 10,
  kExitRejected = 11,
};

// The options before the command.
struct GlobalOptions {
  std::string gate = "127.0.0.1:50051";
  std::string timeout = "5s";  // as absl::ParseDuration; checked by main()
  bool json = false;
};

using AmountMap = google::protobuf::Map<std::string, double>;

// A connection to the gate, made when first used.
class Gate {
 public:
  explicit Gate(const GlobalOptions& options);

  v1::AdmissionService::Stub& admission() { return *admission_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Gives one call its time: --timeout and what is added.
  void SetDeadline(grpc::ClientContext& context, absl::Duration added = absl::ZeroDuration()) const;

  // Says on stderr what went wrong, and answers the exit code.
  int Fail(const grpc::Status& status) const;

 private:
  const std::string address_;
  const absl::Duration timeout_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::AdmissionService::Stub> admission_;
  const std::unique_ptr<v1::AdminService::Stub> admin_;
};

// Prints "fairgate: message" on stderr and answers code.
int Complain(const std::string& message, ExitCode code);

// Prints a message as JSON with the names of the protos; all fields, also those at their default.
void PrintJson(const google::protobuf::Message& message);

// Reads "name=amount" words. kInvalidArgument names the bad one.
absl::StatusOr<AmountMap> ParseAmounts(const std::vector<std::string>& words);
// Reads "500ms", "1m30s"; kInvalidArgument names the option.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& option, const std::string& text);

absl::Duration FromProto(const google::protobuf::Duration& proto);
void SetProto(absl::Duration duration, google::protobuf::Duration* proto);

// "requests=1 tokens=900", sorted by name.
std::string FormatAmounts(const AmountMap& amounts);
// Rounded to what people read: "1.25s".
std::string ReadableDuration(absl::Duration duration);
// A value of a proto enum as policies, metrics and logs write it: without its prefix, in small
// letters.
std::string ReadableEnum(std::string_view name, std::string_view prefix);

}  // namespace fairgate::cli

#endif  // FAIRGATE_CLIENT_CLI_GATE_H_
