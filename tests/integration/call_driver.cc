// Many concurrent Admits over real connections, timed on one completion queue, for tests in Python.
//
//   call_driver ADDRESS...      the gates, numbered from 0
//
// Orders come on stdin, words separated by blanks:
//   call GATE TARGET TENANT ID AMOUNT       queues one Admit of AMOUNT tokens
//   go                                      sends all that are queued at once
//   load SECONDS CALLERS PAUSE_US GATES TARGET PREFIX AMOUNT
//                                           CALLERS ask with new ids, one call each at a time,
//                                           PAUSE_US after the last answer; GATES: all, or one's
//                                           number
// `go` and `load` print a line per answer:
//   ID GATE START_US LATENCY_US CODE OUTCOME DEGRADED REPEATED RETRY_DELAY_MS MESSAGE
// (start by the system's monotonic clock; outcome grant, defer, reject or none), then `done`.
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <queue>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fairgate/v1/admission.grpc.pb.h"

namespace {

namespace v1 = fairgate::v1;
using Clock = std::chrono::steady_clock;

constexpr int kChannelsPerGate = 4;
constexpr size_t kControls = 4;
constexpr auto kDeadline = std::chrono::seconds(60);  // a stall of the machine is no answer

int64_t Micros(Clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
}

struct Order {
  size_t gate = 0;
  std::string target, tenant, id;
  double amount = 0;
};

struct Call {
  Order order;
  size_t caller = 0;
  Clock::time_point start;
  int64_t latency_us = 0;
  grpc::ClientContext context;
  v1::AdmitResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::AdmitResponse>> reader;
};

class Driver {
 public:
  explicit Driver(const std::vector<std::string>& addresses) {
    for (const std::string& address : addresses) {
      std::vector<std::unique_ptr<v1::AdmissionService::Stub>> stubs;
      for (int i = 0; i < kChannelsPerGate; ++i) {
        grpc::ChannelArguments arguments;
        arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        // A gate that was restarted is to be found again at once.
        arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
        arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                         10000);  // the time that one attempt gets
        arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
        auto channel =
            grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
        channel->WaitForConnected(std::chrono::system_clock::now() + kDeadline);
        stubs.push_back(v1::AdmissionService::NewStub(std::move(channel)));
      }
      gates_.push_back(std::move(stubs));
    }
  }

  size_t gates() const { return gates_.size(); }

  void Send(Order order, size_t caller) {
    auto* call = new Call;
    call->order = std::move(order);
    call->caller = caller;
    v1::AdmitRequest request;
    request.set_target(call->order.target);
    request.set_tenant(call->order.tenant);
    request.set_request_id(call->order.id);
    (*request.mutable_cost())["tokens"] = call->order.amount;
    call->context.set_deadline(std::chrono::system_clock::now() + kDeadline);
    auto& stubs = gates_[call->order.gate];
    call->start = Clock::now();
    call->reader = stubs[next_++ % stubs.size()]->AsyncAdmit(&call->context, request, &queue_);
    call->reader->Finish(&call->response, &call->status, call);
    ++open_;
  }

  // The next answer, if one comes until then.
  std::unique_ptr<Call> Receive(Clock::time_point until) {
    void* tag = nullptr;
    bool ok = false;
    const auto wait = std::chrono::system_clock::now() + (until - Clock::now());
    if (queue_.AsyncNext(&tag, &ok, wait) != grpc::CompletionQueue::GOT_EVENT) return nullptr;
    --open_;
    std::unique_ptr<Call> call(static_cast<Call*>(tag));
    call->latency_us = Micros(Clock::now()) - Micros(call->start);
    return call;
  }

  size_t open() const { return open_; }

 private:
  std::vector<std::vector<std::unique_ptr<v1::AdmissionService::Stub>>> gates_;
  grpc::CompletionQueue queue_;
  size_t next_ = 0;
  size_t open_ = 0;
};

void Print(const Call& call) {
  const v1::AdmitResponse& r = call.response;
  const char* outcome = r.has_grant()    ? "grant"
                        : r.has_defer()  ? "defer"
                        : r.has_reject() ? "reject"
                                         : "none";
  std::string message = call.status.error_message();
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  const google::protobuf::Duration& delay = r.defer().retry_delay();
  std::printf(
      "%s\t%zu\t%lld\t%lld\t%d\t%s\t%d\t%d\t%lld\t%s\n", call.order.id.c_str(), call.order.gate,
      static_cast<long long>(Micros(call.start)), static_cast<long long>(call.latency_us),
      static_cast<int>(call.status.error_code()), call.status.ok() ? outcome : "none",
      r.degraded() ? 1 : 0, r.grant().repeated() ? 1 : 0,
      static_cast<long long>(delay.seconds()) * 1000 + delay.nanos() / 1000000, message.c_str());
}

void PrintAll(const std::vector<std::unique_ptr<Call>>& answers) {
  for (const auto& call : answers) Print(*call);
  std::puts("done");
  std::fflush(stdout);
}

void SendAtOnce(Driver* driver, std::vector<Order> orders) {
  std::vector<std::unique_ptr<Call>> answers;
  for (Order& order : orders) driver->Send(std::move(order), 0);
  while (driver->open() > 0) {
    if (auto call = driver->Receive(Clock::now() + kDeadline)) answers.push_back(std::move(call));
  }
  PrintAll(answers);
}

void Load(Driver* driver, std::istringstream* words) {
  double seconds = 0;
  size_t callers = 0;
  int64_t pause_us = 0;
  std::string gates;
  Order pattern;
  *words >> seconds >> callers >> pause_us >> gates >> pattern.target >> pattern.id >>
      pattern.amount;
  const auto end = Clock::now() + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
  using Due = std::pair<Clock::time_point, size_t>;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
  // Callers start spread over one pause.
  const size_t all = callers + kControls;
  for (size_t i = 0; i < all; ++i) {
    due.emplace(Clock::now() + std::chrono::microseconds(pause_us * static_cast<int64_t>(i) /
                                                         static_cast<int64_t>(all)),
                i);
  }
  std::vector<std::unique_ptr<Call>> answers;
  size_t number = 0;
  while (!due.empty() || driver->open() > 0) {
    while (!due.empty() && due.top().first <= Clock::now()) {
      const size_t caller = due.top().second;
      due.pop();
      if (Clock::now() >= end) continue;
      Order order = pattern;
      if (caller >= callers) {
        order.id = "control";
        order.amount = -1;
      }
      const std::string tenant = std::to_string(caller % 8);
      order.id += "-" + tenant + "-" + std::to_string(number++);
      order.tenant = "t" + tenant;
      order.gate = gates == "all" ? caller % driver->gates() : std::stoul(gates);
      driver->Send(std::move(order), caller);
    }
    if (due.empty() && driver->open() == 0) break;
    const auto next = due.empty() ? Clock::now() + kDeadline : due.top().first;
    if (auto call = driver->Receive(next)) {
      due.emplace(Clock::now() + std::chrono::microseconds(pause_us), call->caller);
      call->response.clear_request_id();
      answers.push_back(std::move(call));
    }
  }
  PrintAll(answers);
}

}  // namespace

int main(int argc, char** argv) {
  Driver driver(std::vector<std::string>(argv + 1, argv + argc));
  std::vector<Order> orders;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "call") {
      Order order;
      words >> order.gate >> order.target >> order.tenant >> order.id >> order.amount;
      orders.push_back(std::move(order));
    } else if (verb == "go") {
      SendAtOnce(&driver, std::exchange(orders, {}));
    } else if (verb == "load") {
      Load(&driver, &words);
    } else {
      std::fprintf(stderr, "call_driver: unknown order %s\n", verb.c_str());
      return 2;
    }
  }
  return 0;
}
