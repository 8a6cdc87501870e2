#include "server/service/admin_service.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/policy.h"
#include "server/service/grpc_status.h"

namespace fairgate {
namespace {

constexpr uint32_t kFlowsDefault = 100;
constexpr uint32_t kFlowsMax = 1000;

}  // namespace

AdminService::AdminService(AdmissionStore* store, DiffersFromFile differs_from_file)
    : store_(store), differs_from_file_(std::move(differs_from_file)) {}

grpc::ServerUnaryReactor* AdminService::ListTargets(grpc::CallbackServerContext* context,
                                                    const v1::ListTargetsRequest* /*request*/,
                                                    v1::ListTargetsResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  store_->ListTargets([reactor, response](absl::StatusOr<std::vector<std::string>> names) {
    if (!names.ok()) {
      reactor->Finish(ToGrpcStatus(names.status()));
      return;
    }
    std::sort(names->begin(), names->end());
    for (std::string& name : *names) {
      response->add_targets(std::move(name));
    }
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::InspectTarget(grpc::CallbackServerContext* context,
                                                      const v1::InspectTargetRequest* request,
                                                      v1::InspectTargetResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  absl::Status bad;
  if (!IsValidName(request->target())) {
    bad = absl::InvalidArgumentError(
        "target: must be 1 to 128 bytes of UTF-8 without control characters");
  } else if (request->flows_max() > kFlowsMax) {
    bad = absl::InvalidArgumentError("flows_max: must be at most 1000");
  }
  if (!bad.ok()) {
    reactor->Finish(ToGrpcStatus(bad));
    return reactor;
  }
  const uint32_t flows = request->flows_max() == 0 ? kFlowsDefault : request->flows_max();
  store_->Inspect(request->target(), flows,
                  [this, reactor, response,
                   target = request->target()](absl::StatusOr<v1::InspectTargetResponse> state) {
                    if (!state.ok()) {
                      reactor->Finish(ToGrpcStatus(state.status()));
                      return;
                    }
                    *response = *std::move(state);
                    response->set_target(target);
                    if (differs_from_file_) {
                      response->set_differs_from_file(differs_from_file_(response->policy()));
                    }
                    reactor->Finish(grpc::Status::OK);
                  });
  return reactor;
}

}  // namespace fairgate
