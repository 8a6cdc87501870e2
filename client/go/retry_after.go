package fairgate

import (
	"math"
	"net/http"
	"net/mail"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const retryAfterMax = 24 * time.Hour

// A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
const (
	epochMinS  = 1e9
	epochMinMS = 1e12
)

var (
	spansPattern  = regexp.MustCompile(`^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$`)
	spanPattern   = regexp.MustCompile(`(\d+(?:\.\d+)?)(ms|s|m|h|d)`)
	numberPattern = regexp.MustCompile(`^\d+(?:\.\d+)?$`)
	unitsS        = map[string]float64{"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
)

// retryAfter is how long a refusal says to wait. In this order: retry-after-ms; retry-after; retryDelay of a
// google.rpc.RetryInfo in the body; the longest reset among the limits that have nothing left or do not say.
func retryAfter(headers map[string]string, body any, now time.Time) (time.Duration, bool) {
	if milliseconds, ok := number(headers["retry-after-ms"]); ok {
		return clamp(milliseconds / 1000), true
	}
	for _, text := range []string{headers["retry-after"], googleDelay(body)} {
		if wait, ok := parseWait(text, now); ok {
			return wait, true
		}
	}
	var longest time.Duration
	found := false
	for _, limit := range limitsOf(headers) {
		if left, told := number(limit["remaining"]); told && left > 0 {
			continue
		}
		if wait, ok := parseWait(limit["reset"], now); ok {
			longest, found = max(longest, wait), true
		}
	}
	return longest, found
}

func googleDelay(body any) string {
	details, _ := object(body, "error")["details"].([]any)
	for _, detail := range details {
		fields, _ := detail.(map[string]any)
		if delay, ok := fields["retryDelay"].(string); ok {
			return delay
		}
	}
	return ""
}

// parseWait understands spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or milliseconds since 1970, RFC 3339 and
// HTTP dates. An instant that is over is a wait of 0.
func parseWait(text string, now time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if spansPattern.MatchString(text) {
		var wait float64
		for _, span := range spanPattern.FindAllStringSubmatch(text, -1) {
			value, _ := strconv.ParseFloat(span[1], 64)
			wait += value * unitsS[span[2]]
		}
		return clamp(wait), true
	}
	if value, ok := number(text); ok {
		if value >= epochMinMS {
			value /= 1000
		}
		if value >= epochMinS {
			value -= secondsOf(now)
		}
		return clamp(value), true
	}
	instant, ok := parseDate(text)
	if !ok {
		return 0, false
	}
	return clamp(secondsOf(instant) - secondsOf(now)), true
}

func parseDate(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05"} {
		if instant, err := time.Parse(layout, text); err == nil {
			return instant, true
		}
	}
	if instant, err := http.ParseTime(text); err == nil {
		return instant, true
	}
	instant, err := mail.ParseDate(text)
	return instant, err == nil
}

func number(text string) (float64, bool) {
	if !numberPattern.MatchString(text) {
		return 0, false
	}
	value, _ := strconv.ParseFloat(text, 64) // what is out of range is infinite
	return value, true
}

func secondsOf(instant time.Time) float64 { return float64(instant.UnixMilli()) / 1000 }

// clamp gives whole milliseconds, so that every client says the same.
func clamp(seconds float64) time.Duration {
	milliseconds := math.Min(math.Max(0, math.RoundToEven(seconds*1000)), float64(retryAfterMax.Milliseconds()))
	return time.Duration(milliseconds) * time.Millisecond
}
