// Numbers and waits as providers write them.
#ifndef FAIRGATE_CLIENT_CPP_SRC_WAIT_H_
#define FAIRGATE_CLIENT_CPP_SRC_WAIT_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace fairgate::client {

// 0 to 24 h, in whole milliseconds, so that every client says the same.
absl::Duration ToWait(double seconds);

// "12" or "12.5"; nothing: anything else.
std::optional<double> ParseNumber(absl::string_view text);

// Spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or milliseconds since 1970, RFC 3339 and
// HTTP dates. An instant that is over is a wait of 0. Nothing: none of these.
std::optional<absl::Duration> ParseWait(absl::string_view text, absl::Time now);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_WAIT_H_
