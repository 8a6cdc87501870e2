// What the client's tests ask, and how patient they are.
#ifndef FAIRGATE_TESTS_CLIENT_QUESTIONS_H_
#define FAIRGATE_TESTS_CLIENT_QUESTIONS_H_

#include <string>

#include "fairgate/client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/client/fake_gate.h"

namespace fairgate::client {

// Generous, so that a busy machine does not look like a dead gate.
inline ClientOptions Patient(const testing::FakeGate& gate) {
  ClientOptions options;
  options.address = gate.address();
  options.rpc_timeout = absl::Seconds(10);
  return options;
}

inline AdmitOptions Question() {
  AdmitOptions question;
  question.target = "openai";
  question.tenant = "acme";
  question.cost = {{"tokens", 900}};
  question.request_id = "job7/1";
  return question;
}

// As the server's statuses are.
inline grpc::Status SaidByGate(grpc::StatusCode code, const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_domain("fairgate.io");
  google::rpc::Status details;
  details.add_details()->PackFrom(info);
  return {code, message, details.SerializeAsString()};
}

}  // namespace fairgate::client

#endif  // FAIRGATE_TESTS_CLIENT_QUESTIONS_H_
