// How labels spell the contract's enums.
#ifndef FAIRGATE_SERVER_METRICS_LABEL_NAMES_H_
#define FAIRGATE_SERVER_METRICS_LABEL_NAMES_H_

#include "server/core/decision.h"

namespace fairgate {

const char* LayerName(Layer layer);
const char* ReasonName(RejectReason reason);
const char* ResultName(ReleaseResult result);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_METRICS_LABEL_NAMES_H_
