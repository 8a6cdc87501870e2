// One question or release on its way to the gate, with its second try.
#ifndef FAIRGATE_CLIENT_CPP_SRC_EXCHANGE_H_
#define FAIRGATE_CLIENT_CPP_SRC_EXCHANGE_H_

#include <grpcpp/grpcpp.h>

#include <stop_token>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/src/instant.h"

namespace fairgate::client {

class Core;

class Exchange {
 public:
  // budget: the gate's time; due: the caller's, or kNever.
  Exchange(Core& core, absl::Duration budget, Instant due);

  // Asks, again after a connection that broke, and tells the breaker how it went.
  void Run(const std::stop_token& stop,
           absl::FunctionRef<grpc::Status(grpc::ClientContext*)> try_once);

  Instant began() const { return began_; }
  // There is no time to ask.
  bool is_pointless() const { return until_ <= began_; }
  bool answered() const { return answered_; }
  // The gate's own status; OK: it did not refuse.
  const absl::Status& refusal() const { return refusal_; }
  // By the caller.
  bool cancelled() const { return cancelled_; }
  // Unanswered, but the gate may have been asked.
  bool maybe_decided() const { return maybe_decided_; }
  // It was the caller's time that ran out, which says nothing about the gate.
  bool was_too_late() const;

 private:
  // Whether there is to be another try.
  bool Note(const grpc::Status& status, bool has_left, bool stopped);

  Core& core_;
  const Instant began_;
  Instant until_;
  bool hurried_ = false;  // the caller's time is shorter than the gate's

  int tries_ = 0;
  bool answered_ = false;
  absl::Status refusal_;
  bool cancelled_ = false;
  bool timed_out_ = false;
  bool maybe_decided_ = false;
};

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_EXCHANGE_H_
