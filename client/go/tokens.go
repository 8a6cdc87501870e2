package fairgate

import (
	"math"
	"unicode/utf8"
)

const charactersPerToken = 4

var (
	textFields   = []string{"system", "instructions", "messages", "input", "prompt", "tools", "functions"}
	outputFields = []string{"max_completion_tokens", "max_output_tokens", "max_tokens"}
	// Values that are ids, names of kinds, or data that is not counted by its characters.
	notText = map[string]bool{
		"cache_control": true, "call_id": true, "data": true, "file": true, "file_data": true, "id": true,
		"image_url": true, "input_audio": true, "media_type": true, "role": true, "source": true, "tool_call_id": true,
		"tool_use_id": true, "type": true, "url": true,
	}
)

// Estimator estimates the tokens of requests. The zero value counts four characters (code points) as one token.
type Estimator struct {
	// Count counts the tokens of a text with a tokenizer.
	Count func(text string) int
	// Output is expected where the body sets no bound on it.
	Output int
}

// EstimateTokens is what a request may use: its input, at four characters a token, and the bound that it sets on its
// output (max_completion_tokens, max_output_tokens, max_tokens), times the number of choices ("n").
//
// The body is JSON text, decoded JSON, or a value that marshals to it, in the shape of OpenAI's or Anthropic's APIs; text
// that is no JSON object is a prompt.
func EstimateTokens(body any) int { return Estimator{}.Tokens(body) }

// Tokens is EstimateTokens with this estimator's settings.
func (e Estimator) Tokens(body any) int {
	request, ok := decoded(body).(map[string]any)
	if !ok {
		request = map[string]any{}
		switch text := body.(type) {
		case string:
			request["prompt"] = text
		case []byte:
			request["prompt"] = string(text)
		}
	}
	characters, counted := 0, 0
	for _, field := range textFields {
		eachText(request[field], func(text string) {
			if e.Count != nil {
				counted += e.Count(text)
			} else {
				characters += utf8.RuneCountInString(text)
			}
		})
	}
	tokens := counted + (characters+charactersPerToken-1)/charactersPerToken
	output := e.Output
	for _, name := range outputFields {
		if bound, ok := count(request[name]); ok {
			output = bound
			break
		}
	}
	if choices, ok := count(request["n"]); ok {
		output *= choices
	}
	return tokens + output
}

func eachText(value any, do func(string)) {
	switch value := value.(type) {
	case string:
		do(value)
	case map[string]any:
		for key, inner := range value {
			if !notText[key] {
				eachText(inner, do)
			}
		}
	case []any:
		for _, inner := range value {
			eachText(inner, do)
		}
	}
}

// count is a positive whole number.
func count(value any) (int, bool) {
	number, ok := value.(float64)
	if !ok || number < 1 || number != math.Trunc(number) || number > math.MaxInt32 {
		return 0, false
	}
	return int(number), true
}
