// What the headers of a provider's response say of its limits.
#ifndef FAIRGATE_CLIENT_CPP_SRC_RATE_LIMITS_H_
#define FAIRGATE_CLIENT_CPP_SRC_RATE_LIMITS_H_

#include <map>
#include <string>

#include "absl/time/time.h"
#include "fairgate/response.h"
#include "fairgate/values.h"

namespace fairgate::client {

using Headers = std::map<std::string, std::string>;  // names in lower case

Headers LowerCased(const Response& response);

// The values of "limit", "remaining" and "reset" that are told; empty: not told.
struct LimitTexts {
  std::string limit;
  std::string remaining;
  std::string reset;
};

// By the limit's name; the first header in the order of names holds. Negative limits are
// placeholders, not limits.
std::map<std::string, LimitTexts> LimitsOf(const Headers& headers);

// What is told of the limits of these dimensions and of "requests". A limit belongs to the
// dimension of its name ("input-tokens" is "input_tokens"), else to those that take the usage of
// that name. A limit without a name is one of requests. What is absent or malformed is left out.
std::map<std::string, RateLimitStatus> RateLimits(const Headers& headers,
                                                  const std::map<std::string, Usage>& dimensions,
                                                  absl::Time now);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_SRC_RATE_LIMITS_H_
