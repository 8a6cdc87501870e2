#include "server/service/admin_service.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/policy.h"
#include "server/service/await.h"
#include "server/service/grpc_status.h"

namespace fairgate {
namespace {

constexpr uint32_t kFlowsDefault = 100;
constexpr uint32_t kFlowsMax = 1000;

}  // namespace

AdminService::AdminService(AdmissionStore* store, DiffersFromFile differs_from_file)
    : store_(store), differs_from_file_(std::move(differs_from_file)) {}

grpc::Status AdminService::ListTargets(grpc::ServerContext* /*context*/,
                                       const v1::ListTargetsRequest* /*request*/,
                                       v1::ListTargetsResponse* response) {
  absl::StatusOr<std::vector<std::string>> names = Await<std::vector<std::string>>(
      [this](AdmissionStore::Callback<std::vector<std::string>> done) {
        store_->ListTargets(std::move(done));
      });
  if (!names.ok()) {
    return ToGrpcStatus(names.status());
  }
  std::sort(names->begin(), names->end());
  for (std::string& name : *names) {
    response->add_targets(std::move(name));
  }
  return grpc::Status::OK;
}

grpc::Status AdminService::InspectTarget(grpc::ServerContext* /*context*/,
                                         const v1::InspectTargetRequest* request,
                                         v1::InspectTargetResponse* response) {
  if (!IsValidName(request->target())) {
    return ToGrpcStatus(absl::InvalidArgumentError(
        "target: must be 1 to 128 bytes of UTF-8 without control characters"));
  }
  if (request->flows_max() > kFlowsMax) {
    return ToGrpcStatus(absl::InvalidArgumentError("flows_max: must be at most 1000"));
  }
  const uint32_t flows = request->flows_max() == 0 ? kFlowsDefault : request->flows_max();
  absl::StatusOr<v1::InspectTargetResponse> state = Await<v1::InspectTargetResponse>(
      [&](AdmissionStore::Callback<v1::InspectTargetResponse> done) {
        store_->Inspect(request->target(), flows, std::move(done));
      });
  if (!state.ok()) {
    return ToGrpcStatus(state.status());
  }
  *response = *std::move(state);
  response->set_target(request->target());
  if (differs_from_file_) {
    response->set_differs_from_file(differs_from_file_(response->policy()));
  }
  return grpc::Status::OK;
}

}  // namespace fairgate
