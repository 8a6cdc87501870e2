package fairgate

import (
	"net/http"
	"testing"
	"time"
)

func TestBreaker(t *testing.T) {
	now := time.Unix(1000, 0)
	breaker := breaker{failuresMax: 2, cooldown: time.Second}
	breaker.failed(now)
	if !breaker.allows(now) {
		t.Error("opened by one failure")
	}
	breaker.failed(now)
	if breaker.allows(now.Add(999 * time.Millisecond)) {
		t.Error("not open")
	}
	now = now.Add(time.Second)
	if !breaker.allows(now) || breaker.allows(now) {
		t.Error("one caller tries after the cooldown, and only one")
	}
	breaker.succeeded()
	if !breaker.allows(now) {
		t.Error("not closed by an answer")
	}
}

func TestSettlementOfAnSDKsObject(t *testing.T) {
	type usage struct {
		TotalTokens int `json:"total_tokens"`
	}
	type completion struct {
		Usage usage `json:"usage"`
	}
	settlement := Response{Body: &completion{usage{29}}}.Settlement(map[string]Usage{"tpm": TotalTokens}, time.Now())
	if settlement.Outcome != OK || settlement.Actual["tpm"] != 29 {
		t.Errorf("%+v", settlement)
	}
	settlement = Response{Body: rawObject{}}.Settlement(map[string]Usage{"tokens": TotalTokens}, time.Now())
	if settlement.Actual["tokens"] != 8 {
		t.Errorf("%+v", settlement)
	}
}

type rawObject struct{}

func (rawObject) RawJSON() string { return `{"usage": {"input_tokens": 5, "output_tokens": 3}}` }

func TestWaitsAreWholeMillisecondsWithinADay(t *testing.T) {
	now := time.Date(2026, 8, 7, 20, 59, 30, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"0.0014": time.Millisecond, "48h": 24 * time.Hour, "1.5s": 1500 * time.Millisecond, "1d": 24 * time.Hour,
		"Fri, 07 Aug 2026 21:00:00 GMT": 30 * time.Second, "2026-08-07T21:00:00": 30 * time.Second,
	} {
		if got, ok := parseWait(text, now); !ok || got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"", "-1", "1e3", "soon", "5 s", "1s2"} {
		if got, ok := parseWait(text, now); ok {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestTheLongestResetOfWhatIsUsedUpCounts(t *testing.T) {
	header := http.Header{}
	for name, value := range map[string]string{
		"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s",
		"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "9s",
		"x-ratelimit-limit-images": "-1", "x-ratelimit-reset-images": "99s",
	} {
		header.Set(name, value)
	}
	settlement := Response{Status: 429, Header: header}.Settlement(nil, time.Now())
	if settlement.RetryAfter == nil || *settlement.RetryAfter != 2*time.Second {
		t.Errorf("%+v", settlement)
	}
}

func TestEstimator(t *testing.T) {
	if got := EstimateTokens("five!"); got != 2 {
		t.Errorf("text that is no JSON: %d", got)
	}
	body := map[string]any{"messages": []map[string]string{{"role": "user", "content": "abcde"}}, "max_tokens": 10, "n": 2}
	if got := EstimateTokens(body); got != 22 {
		t.Errorf("a value: %d", got)
	}
	estimator := Estimator{Count: func(text string) int { return len(text) }, Output: 7}
	if got := estimator.Tokens([]byte(`{"prompt": "abcde"}`)); got != 12 {
		t.Errorf("with a tokenizer: %d", got)
	}
}
