#include "server/metrics/label_names.h"

namespace fairgate {

const char* LayerName(Layer layer) {
  switch (layer) {
    case Layer::kTarget:
      return "target";
    case Layer::kClass:
      return "class";
    case Layer::kTenant:
      return "tenant";
  }
  return "";
}

const char* ReasonName(RejectReason reason) {
  switch (reason) {
    case RejectReason::kCostExceedsCap:
      return "cost_exceeds_cap";
    case RejectReason::kTargetDisabled:
      return "target_disabled";
    case RejectReason::kDeadlineUnreachable:
      return "deadline_unreachable";
    case RejectReason::kAlreadySettled:
      return "already_settled";
    case RejectReason::kSuperseded:
      return "superseded";
    case RejectReason::kTenantNotListed:
      return "tenant_not_listed";
  }
  return "";
}

const char* ResultName(ReleaseResult result) {
  switch (result) {
    case ReleaseResult::kSettled:
      return "settled";
    case ReleaseResult::kWithdrawn:
      return "withdrawn";
    case ReleaseResult::kExtended:
      return "extended";
    case ReleaseResult::kAlreadySettled:
      return "already_settled";
    case ReleaseResult::kExpired:
      return "expired";
    case ReleaseResult::kUnknown:
      return "unknown";
    case ReleaseResult::kQueued:
      return "queued";
  }
  return "";
}

}  // namespace fairgate
