// How long a provider's refusal says to wait.
#ifndef FAIRGATE_CLIENT_CPP_SRC_RETRY_AFTER_H_
#define FAIRGATE_CLIENT_CPP_SRC_RETRY_AFTER_H_

#include <optional>

#include "absl/time/time.h"
#include "client/cpp/src/json.h"
#include "client/cpp/src/rate_limits.h"

namespace fairgate::client {

// In this order: retry-after-ms; retry-after; retryDelay of a google.rpc.RetryInfo in the body; the
// longest reset among the limits that have nothing left or do not say. 0 to 24 h, in whole
// milliseconds, so that every client says the same. Nothing: it does not say.
std::optional<absl::Duration> RetryAfter(const Headers& headers, const JsonObject& body,
                                         absl::Time now);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_RETRY_AFTER_H_
