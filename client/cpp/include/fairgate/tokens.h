// Estimating the tokens of a request from its body.
#ifndef FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_TOKENS_H_
#define FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_TOKENS_H_

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"

namespace fairgate::client {

struct Estimator {
  // Counts the tokens of a text with a tokenizer. Empty: four characters (code points) are one.
  std::function<int64_t(absl::string_view text)> count;
  int64_t output = 0;  // tokens to expect where the body sets no bound on its output

  // See EstimateTokens().
  int64_t Tokens(absl::string_view body) const;
};

// Tokens that a request may use: its input, at four characters a token, and the bound that it sets
// on its output (max_completion_tokens, max_output_tokens, max_tokens), times the number of choices
// ("n"). The body is JSON in the shape of OpenAI's or Anthropic's APIs; text that is no JSON object
// is a prompt.
int64_t EstimateTokens(absl::string_view body);

}  // namespace fairgate::client

#endif  // FAIRGATE_CLIENT_CPP_INCLUDE_FAIRGATE_TOKENS_H_
