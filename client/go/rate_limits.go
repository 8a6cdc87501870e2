package fairgate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

const remainingMax = 1e12 // the contract's

// Of a limit's headers: x-ratelimit-reset-tokens, anthropic-ratelimit-input-tokens-reset, x-ratelimit-reset.
var limitPattern = regexp.MustCompile(
	`^(?:x-|anthropic-)?ratelimit(?:-([a-z-]+?))?-(limit|remaining|reset)(?:-([a-z-]+))?$`)

// rateLimits is what is told of the limits of these dimensions and of "requests". A limit belongs to the dimension of its
// name ("input-tokens" is "input_tokens"), else to those that take the usage of that name. A limit without a name is one
// of requests. What is absent or malformed is left out.
func rateLimits(headers map[string]string, dimensions map[string]Usage, now time.Time) map[string]RateLimitStatus {
	limits := limitsOf(headers)
	told := map[string]RateLimitStatus{}
	names := slices.Sorted(maps.Keys(limits))
	for dimension, usage := range dimensions {
		candidates := []string{normal(dimension)}
		for _, name := range names {
			if DefaultUsage[name] == usage {
				candidates = append(candidates, name)
			}
		}
		tell(told, dimension, candidates, limits, now)
	}
	tell(told, "requests", []string{"requests", ""}, limits, now)
	return told
}

// tell adds what the first of these limits that tells anything says.
func tell(told map[string]RateLimitStatus, dimension string, names []string, limits map[string]limit, now time.Time) {
	for _, name := range names {
		var status RateLimitStatus
		if remaining, ok := number(limits[name]["remaining"]); ok && remaining <= remainingMax {
			status.Remaining = &remaining
		}
		if reset, ok := parseWait(limits[name]["reset"], now); ok {
			status.Reset = &reset
		}
		if status != (RateLimitStatus{}) {
			told[dimension] = status
			return
		}
	}
}

// limit has the texts of "limit", "remaining" and "reset" that are told.
type limit map[string]string

// limitsOf gives the limits by name; the first header in the order of names holds. Negative limits are placeholders, not
// limits.
func limitsOf(headers map[string]string) map[string]limit {
	limits := map[string]limit{}
	put := func(name, what, value string) {
		name = normal(name)
		if limits[name] == nil {
			limits[name] = limit{}
		}
		if limits[name][what] == "" {
			limits[name][what] = value
		}
	}
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		if header == "ratelimit" {
			listedLimits(headers[header], put)
		} else if match := limitPattern.FindStringSubmatch(header); match != nil {
			put(cmp.Or(match[1], match[3]), match[2], headers[header])
		}
	}
	maps.DeleteFunc(limits, func(_ string, of limit) bool {
		return strings.HasPrefix(of["limit"], "-") || strings.HasPrefix(of["remaining"], "-")
	})
	return limits
}

// listedLimits are those of the IETF's header: "requests";r=50;t=12, "tokens";r=5000;t=30.
func listedLimits(text string, put func(name, what, value string)) {
	for _, item := range strings.Split(text, ",") {
		parts := strings.Split(item, ";")
		name := strings.Trim(strings.TrimSpace(parts[0]), `"`)
		for _, parameter := range parts[1:] {
			key, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			switch key {
			case "r":
				put(name, "remaining", value)
			case "t":
				put(name, "reset", value)
			}
		}
	}
}

func normal(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
