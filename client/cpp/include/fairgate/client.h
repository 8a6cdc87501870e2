// The C++ client of a Fairgate gate: ask before an external call, settle after it.
//
//   fairgate::client::Client gate({.address = "127.0.0.1:50051"});
//   auto admission = gate.AdmitWait(
//       {.target = "openai-prod", .tenant = "acme", .cost = {{"tokens", 900}}}, absl::Seconds(30));
//   if (!admission.ok()) return admission.status();
//   if (!admission->may_call()) return TryLater(admission->retry_delay());
//   Reply reply = CallTheProvider();
//   admission->Settle({{"tokens", reply.tokens}});
//
// This header has all others. No gRPC or protobuf type is needed to use them.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "fairgate/admission.h"
#include "fairgate/errors.h"
#include "fairgate/options.h"
#include "fairgate/response.h"
#include "fairgate/tokens.h"
#include "fairgate/values.h"

namespace fairgate::client {

// Of this package.
absl::string_view Version();

// A connection to a gate. Thread-safe; make one and keep it. Its calls block.
class Client {
 public:
  explicit Client(ClientOptions options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Waits for the releases that are on their way, at most ClientOptions::rpc_timeout.
  ~Client();

  // Asks once. A deadline that passes while the gate thinks is a rejection, too
  // (kDeadlineUnreachable and degraded); what may have been granted is withdrawn in the background.
  // Errors, see errors.h:
  //   kInvalidArgument, kNotFound, kInternal and their like: the gate refuses the question
  //   kUnavailable: the policy stays closed; or, with fail_open off, the gate does not answer
  //   kCancelled: stopped by the context; the question is withdrawn in the background
  absl::StatusOr<Admission> Admit(const AdmitOptions& options, const CallContext& context = {});

  // Asks until the call may go or is rejected, and sleeps the delays in the calling thread, at most
  // max_wait in all: for programs without a workflow engine. A wait that is longer than what is
  // left is not begun: the place in line is given up, and the defer is the answer. With
  // AdmitOptions::check_only it is Admit.
  absl::StatusOr<Admission> AdmitWait(const AdmitOptions& options,
                                      absl::Duration max_wait = absl::InfiniteDuration(),
                                      const CallContext& context = {});

  // Gives up the place in line of a deferred question. Errors: refused, or not told.
  absl::StatusOr<ReleaseReport> Withdraw(const std::string& target, const std::string& request_id,
                                         uint32_t attempt = 1, const CallContext& context = {});

  Counters counters() const;

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_CLIENT_H_
