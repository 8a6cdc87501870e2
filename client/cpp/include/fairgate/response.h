// What a provider's response amounts to, in the shapes of OpenAI's and Anthropic's APIs and of
// those that copy them.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_RESPONSE_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_RESPONSE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fairgate/values.h"

namespace fairgate::client {

// A kind of token usage that providers tell.
enum class Usage { kTotalTokens, kInputTokens, kOutputTokens };

// The usage that a dimension of that name takes: "tokens" and "total_tokens" the total;
// "input_tokens" and "prompt_tokens" the input; "output_tokens" and "completion_tokens" the output.
const std::map<std::string, Usage>& DefaultUsage();

struct Response {
  int status = 0;                                                 // HTTP's; 0: not known
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in any case
  std::string body = {};  // JSON; anything else tells nothing
};

// The settlement that a response amounts to in these dimensions; `now` matters for waits that are
// dates. 2xx is kOk, 429 kRateLimited, 408 and 504 kTimeout, other 5xx kServerError, the rest
// kUnknown; without a status, usage means kOk.
//
// Usage that is not told is left out, never zero. Input is what counts against the provider's
// limit: with Anthropic's usage, tokens read from its cache are not in it, tokens written are.
// Limits are told for these dimensions and for "requests".
Settlement SettlementOf(const Response& response, const std::map<std::string, Usage>& dimensions,
                        absl::Time now);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_RESPONSE_H_
