#include "client/cpp/src/core.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace fairgate::client {
namespace {

// gRPC's own limits are ints of milliseconds.
int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(
      std::min(std::max(duration, absl::ZeroDuration()), absl::Hours(24))));
}

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  // The default backs off to two minutes, which would outlast the breaker by far.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments);
}

void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(Milliseconds(timeout)));
}

absl::Status ToStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

void SetProto(absl::Duration duration, google::protobuf::Duration* proto) {
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  proto->set_seconds(seconds);
  proto->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

std::string NewRequestId() {
  thread_local std::mt19937_64 random{[] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  const uint64_t high = random();
  const uint64_t low = random();
  return absl::StrFormat("%016x%016x", high, low);
}

// The gate marks what it says itself. A status without the mark comes from this side's channel,
// from a proxy, or from a gate that is going down; gRPC's own texts do not tell these from the
// gate.
bool SaidByGate(const grpc::Status& status) {
  constexpr char kErrorDomain[] = "fairgate.io";
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return false;
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == kErrorDomain) return true;
  }
  return false;
}

v1::AdmitRequest ToProto(const AdmitOptions& options) {
  v1::AdmitRequest request;
  request.set_target(options.target);
  request.set_tenant(options.tenant);
  request.set_priority(options.priority);
  for (const auto& [dimension, amount] : options.cost)
    (*request.mutable_cost())[dimension] = amount;
  request.set_cost_kind(options.upper_bound ? v1::COST_KIND_UPPER_BOUND : v1::COST_KIND_ESTIMATE);
  request.set_request_id(options.request_id.empty() ? NewRequestId() : options.request_id);
  request.set_attempt(options.attempt);
  if (options.deadline) SetProto(*options.deadline, request.mutable_deadline());
  if (options.timer_floor > absl::ZeroDuration()) {
    SetProto(options.timer_floor, request.mutable_timer_floor());
  }
  if (options.max_hold > absl::ZeroDuration()) {
    SetProto(options.max_hold, request.mutable_max_hold());
  }
  request.set_mode(options.check_only ? v1::ADMIT_MODE_CHECK_ONLY : v1::ADMIT_MODE_NORMAL);
  return request;
}

}  // namespace

Core::Core(ClientOptions options)
    : options_(std::move(options)),
      stub_(v1::AdmissionService::NewStub(MakeChannel(options_))),
      breaker_(options_.breaker_failures, options_.breaker_cooldown) {}

Counters Core::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

bool Core::BreakerAllows() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (breaker_.Allows(absl::Now())) return true;
  ++counters_.breaker_skips;
  return false;
}

bool Core::Unreached(const grpc::Status& status) {
  // The gate itself answers UNAVAILABLE where a policy says to stay closed.
  const bool unreached =
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
      (status.error_code() == grpc::StatusCode::UNAVAILABLE && !SaidByGate(status));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (unreached) {
    breaker_.Failed(absl::Now());
  } else {
    breaker_.Succeeded();
  }
  return unreached;
}

Admission Core::FailOpen(Admission admission, bool maybe_leased) {
  admission.outcome_ = Outcome::kDegraded;
  admission.degraded_ = true;
  admission.maybe_leased_ = maybe_leased;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counters_.failed_open;
  return admission;
}

absl::StatusOr<Admission> Core::Admit(const AdmitOptions& options) {
  const v1::AdmitRequest request = ToProto(options);
  Admission admission;
  admission.core_ = shared_from_this();
  admission.target_ = options.target;
  admission.request_id_ = request.request_id();
  admission.attempt_ = std::max<uint32_t>(options.attempt, 1);

  if (!BreakerAllows()) {
    if (options_.fail_open) return FailOpen(std::move(admission), /*maybe_leased=*/false);
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counters_.errors;
    return absl::UnavailableError("the gate does not answer; it is asked again in a moment");
  }

  grpc::ClientContext context;
  SetDeadline(context, options_.rpc_timeout + std::max(options.max_hold, absl::ZeroDuration()));
  v1::AdmitResponse response;
  const grpc::Status status = stub_->Admit(&context, request, &response);
  const bool unreached = Unreached(status);
  if (unreached && options_.fail_open) {
    return FailOpen(
        std::move(admission),
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && !options.check_only);
  }

  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status.ok()) {
    ++counters_.errors;
    return ToStatus(status);
  }
  admission.degraded_ = response.degraded();
  switch (response.outcome_case()) {
    case v1::AdmitResponse::kGrant:
      ++counters_.granted;
      admission.outcome_ = Outcome::kGranted;
      admission.lease_open_ = !options.check_only;
      admission.debited_.insert(response.grant().debited().begin(),
                                response.grant().debited().end());
      admission.lease_expires_in_ = FromProto(response.grant().lease_expires_in());
      break;
    case v1::AdmitResponse::kDefer:
      ++counters_.deferred;
      admission.outcome_ = Outcome::kDeferred;
      admission.retry_delay_ = FromProto(response.defer().retry_delay());
      admission.projected_wait_ = FromProto(response.defer().projected_wait());
      admission.place_ = response.defer().place();
      break;
    case v1::AdmitResponse::kReject: {
      ++counters_.rejected;
      const v1::Reject& reject = response.reject();
      admission.outcome_ = Outcome::kRejected;
      admission.reject_ = {.reason = v1::RejectReason_Name(reject.reason()),
                           .message = reject.message(),
                           .dimension = reject.dimension(),
                           .earliest = std::nullopt};
      if (reject.has_earliest()) admission.reject_.earliest = FromProto(reject.earliest());
      break;
    }
    case v1::AdmitResponse::OUTCOME_NOT_SET:
      ++counters_.errors;
      return absl::InternalError("the gate answered without an outcome");
  }
  return admission;
}

absl::StatusOr<v1::ReleaseResponse> Core::Release(const v1::ReleaseRequest& request) {
  v1::ReleaseResponse response;
  absl::Status failure = absl::UnavailableError("the gate does not answer");
  if (BreakerAllows()) {
    grpc::ClientContext context;
    SetDeadline(context, options_.rpc_timeout);
    const grpc::Status status = stub_->Release(&context, request, &response);
    Unreached(status);
    if (status.ok()) return response;
    failure = ToStatus(status);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counters_.releases_lost;
  return failure;
}

}  // namespace fairgate::client
