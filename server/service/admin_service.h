// fairgate.v1.AdminService: read-only views, straight from the store.
#ifndef FAIRGATE_SERVER_SERVICE_ADMIN_SERVICE_H_
#define FAIRGATE_SERVER_SERVICE_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "fairgate/v1/admin.grpc.pb.h"
#include "fairgate/v1/policy.pb.h"
#include "server/store/admission_store.h"

namespace fairgate {

class AdminService final : public v1::AdminService::Service {
 public:
  // Whether this server's policy file says something else about the target than the store.
  using DiffersFromFile = std::function<bool(const v1::TargetPolicy& in_store)>;

  // `store` must outlive the service.
  AdminService(AdmissionStore* store, DiffersFromFile differs_from_file);

  grpc::Status ListTargets(grpc::ServerContext* context, const v1::ListTargetsRequest* request,
                           v1::ListTargetsResponse* response) override;
  grpc::Status InspectTarget(grpc::ServerContext* context, const v1::InspectTargetRequest* request,
                             v1::InspectTargetResponse* response) override;

 private:
  AdmissionStore* const store_;
  const DiffersFromFile differs_from_file_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SERVICE_ADMIN_SERVICE_H_
