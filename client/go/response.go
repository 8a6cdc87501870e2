package fairgate

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// Usage is a kind of token usage that providers tell.
type Usage string

// The kinds.
const (
	TotalTokens  Usage = "total"
	InputTokens  Usage = "input"
	OutputTokens Usage = "output"
)

// DefaultUsage is the usage that a dimension of that name takes, unless Options.UsageDimensions says otherwise.
var DefaultUsage = map[string]Usage{
	"tokens":            TotalTokens,
	"total_tokens":      TotalTokens,
	"input_tokens":      InputTokens,
	"prompt_tokens":     InputTokens,
	"output_tokens":     OutputTokens,
	"completion_tokens": OutputTokens,
}

// Response is what is needed of a provider's response, in the shapes of OpenAI's and Anthropic's APIs and of those that
// copy them.
type Response struct {
	Status int // 0: not known
	Header http.Header
	// Body is JSON text ([]byte, string, json.RawMessage), decoded JSON, or a response object of an SDK.
	Body any
}

// HTTPResponse is an HTTP response whose body was read.
func HTTPResponse(response *http.Response, body []byte) Response {
	return Response{Status: response.StatusCode, Header: response.Header, Body: body}
}

// ResponseOf finds the HTTP response in an error chain: in any error with a field Response of type *http.Response, as
// those of OpenAI's and Anthropic's SDKs. An error's own JSON (RawJSON) is the body. False: there is none.
func ResponseOf(err error) (Response, bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		value := reflect.ValueOf(err)
		if value.Kind() == reflect.Pointer && !value.IsNil() {
			value = value.Elem()
		}
		if value.Kind() != reflect.Struct {
			continue
		}
		field := value.FieldByName("Response")
		if !field.IsValid() || !field.CanInterface() {
			continue
		}
		if response, ok := field.Interface().(*http.Response); ok && response != nil {
			return Response{Status: response.StatusCode, Header: response.Header, Body: rawJSON(err)}, true
		}
	}
	return Response{}, false
}

// Settlement is what the response amounts to in these dimensions, at a time that matters for waits that are dates.
//
// Usage that is not told is left out, never zero. Input is what counts against the provider's limit: with Anthropic's
// usage, tokens read from its cache are not in it, tokens written to it are. Limits are told for these dimensions and for
// "requests".
func (r Response) Settlement(dimensions map[string]Usage, now time.Time) Settlement {
	body, headers := decoded(r.Body), lowerCased(r.Header)
	usage := usageOf(body)
	settlement := Settlement{
		Outcome:    outcomeOf(r.Status, len(usage) > 0),
		Actual:     Amounts{},
		RateLimits: rateLimits(headers, dimensions, now),
	}
	for name, kind := range dimensions {
		if amount, ok := usage[kind]; ok {
			settlement.Actual[name] = amount
		}
	}
	if settlement.Outcome == RateLimited {
		if wait, ok := retryAfter(headers, body, now); ok {
			settlement.RetryAfter = &wait
		}
	}
	return settlement
}

// lowerCased is the first value of each header.
func lowerCased(header http.Header) map[string]string {
	headers := map[string]string{}
	for name, values := range header {
		if len(values) > 0 {
			headers[strings.ToLower(name)] = strings.TrimSpace(values[0])
		}
	}
	return headers
}

func outcomeOf(status int, usageKnown bool) CallOutcome {
	switch {
	case status == http.StatusTooManyRequests:
		return RateLimited
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return Timeout
	case status >= 500:
		return ServerError
	case status >= 200 && status < 300, status == 0 && usageKnown:
		return OK
	default:
		return Unknown
	}
}

func usageOf(body any) map[Usage]float64 {
	usage := object(body, "usage")
	if usage == nil {
		usage = object(object(body, "message"), "usage") // first event of Anthropic's streams
	}
	found := map[Usage]float64{}
	if usage == nil {
		return found
	}
	total, hasTotal := amountOf(usage, "total_tokens")
	reads, hasReads := amountOf(usage, "prompt_tokens", "input_tokens")
	writes, hasWrites := amountOf(usage, "completion_tokens", "output_tokens")
	// Anthropic has no total, and counts what went through its cache apart.
	if hasReads && !hasTotal {
		cached, _ := amountOf(usage, "cache_creation_input_tokens")
		reads += cached
	}
	if !hasTotal && hasReads && hasWrites {
		total, hasTotal = reads+writes, true
	}
	for kind, told := range map[Usage]struct {
		amount float64
		ok     bool
	}{InputTokens: {reads, hasReads}, OutputTokens: {writes, hasWrites}, TotalTokens: {total, hasTotal}} {
		if told.ok {
			found[kind] = told.amount
		}
	}
	return found
}

// amountOf is the first of these that is told.
func amountOf(usage map[string]any, names ...string) (float64, bool) {
	for _, name := range names {
		if amount, ok := usage[name].(float64); ok && amount >= 0 && !math.IsInf(amount, 0) {
			return amount, true
		}
	}
	return 0, false
}

func object(of any, name string) map[string]any {
	outer, _ := of.(map[string]any)
	inner, _ := outer[name].(map[string]any)
	return inner
}

// decoded is JSON text as maps, slices, strings and float64; nil where there is none.
func decoded(body any) any {
	var text []byte
	switch body := body.(type) {
	case nil:
		return nil
	case []byte:
		text = body
	case json.RawMessage:
		text = body
	case string:
		text = []byte(body)
	case io.Reader:
		return nil // not ours to read
	default:
		if raw := rawJSON(body); raw != "" {
			text = []byte(raw)
		} else if marshalled, err := json.Marshal(body); err == nil {
			text = marshalled
		}
	}
	var value any
	if json.Unmarshal(text, &value) != nil {
		return nil
	}
	return value
}

// rawJSON is what the SDKs' objects keep of the body.
func rawJSON(of any) string {
	if raw, ok := of.(interface{ RawJSON() string }); ok {
		return raw.RawJSON()
	}
	return ""
}
