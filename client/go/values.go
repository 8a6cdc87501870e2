package fairgate

import (
	"fmt"
	"time"
)

// Amounts are finite and not negative, by dimension name, in the dimension's own unit (one request, one token).
type Amounts map[string]float64

// CallOutcome is how the external call ended.
type CallOutcome int

// The numbers are those of fairgate.v1.CallOutcome.
const (
	Unknown     CallOutcome = iota // not known: the estimate stays charged
	OK                             // it succeeded
	RateLimited                    // the provider refused (429): the charge stays, the flow's turn is given back
	ServerError                    // the provider failed
	Timeout                        // nobody answered in time
	NotSent                        // the request never left: everything is refunded
)

var callOutcomes = [...]string{"UNSPECIFIED", "OK", "RATE_LIMITED", "SERVER_ERROR", "TIMEOUT", "NOT_SENT"}

// String is the name in the contract, without its prefix.
func (o CallOutcome) String() string { return nameOf(callOutcomes[:], int(o), "CallOutcome") }

// RejectReason is why waiting would not help.
type RejectReason int

// The numbers are those of fairgate.v1.RejectReason. A reason of a newer gate is ReasonUnspecified.
const (
	ReasonUnspecified RejectReason = iota
	CostExceedsCap
	TargetDisabled
	DeadlineUnreachable
	AlreadySettled
	Superseded
	TenantNotListed
)

var rejectReasons = [...]string{
	"UNSPECIFIED", "COST_EXCEEDS_CAP", "TARGET_DISABLED", "DEADLINE_UNREACHABLE", "ALREADY_SETTLED", "SUPERSEDED",
	"TENANT_NOT_LISTED",
}

// String is the name in the contract, without its prefix.
func (r RejectReason) String() string { return nameOf(rejectReasons[:], int(r), "RejectReason") }

// ReleaseResult is what a release did.
type ReleaseResult int

// The numbers are those of fairgate.v1.ReleaseResult. A result of a newer gate is ResultUnspecified.
const (
	ResultUnspecified    ReleaseResult = iota
	ResultSettled                      // the lease is settled
	ResultWithdrawn                    // the place in line is given up
	ResultExtended                     // the lease lives on
	ResultAlreadySettled               // settled before, or superseded; nothing changed
	ResultExpired                      // the lease had ended by itself; nothing changed
	ResultUnknown                      // no such request id and attempt; nothing changed
	ResultQueued                       // the gate keeps it until its store is back
)

var releaseResults = [...]string{
	"UNSPECIFIED", "SETTLED", "WITHDRAWN", "EXTENDED", "ALREADY_SETTLED", "EXPIRED", "UNKNOWN", "QUEUED",
}

// String is the name in the contract, without its prefix.
func (r ReleaseResult) String() string { return nameOf(releaseResults[:], int(r), "ReleaseResult") }

func nameOf(names []string, number int, kind string) string {
	if number < 0 || number >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, number)
	}
	return names[number]
}

// Limit is what keeps a call from going now.
type Limit struct {
	Layer     string // "target", "class" or "tenant"
	Dimension string // empty when no single dimension limits
}

// Settlement is what a call really used, and how it ended.
type Settlement struct {
	Outcome CallOutcome
	// Actual use; a dimension that is absent is unknown, and its estimate stays charged.
	Actual Amounts
	// RetryAfter is how long the provider asks to wait, 0 to 24 h, for RateLimited: the target pauses for it. Nil: it
	// does not say.
	RetryAfter *time.Duration
	// RateLimits by dimension: what the response said of the provider's own count.
	RateLimits map[string]RateLimitStatus
}

// RateLimitStatus is a provider's word on one of its limits, as in the headers x-ratelimit-{remaining,reset}-*.
type RateLimitStatus struct {
	Remaining *float64       // left after this call, in the dimension's unit, 0 to 1e12; nil: not told
	Reset     *time.Duration // until the running window ends, 0 to 24 h; nil: not told
}

// ReleaseReport is what the gate made of a release.
type ReleaseReport struct {
	Result   ReleaseResult
	Refunded Amounts // given back; negative: charged on top
	Degraded bool    // the gate could not ask its store
	// LeaseExpiresIn is the lease's new life after ResultExtended, 0 otherwise.
	LeaseExpiresIn time.Duration
}

// Counters are the answers since the gate object was made.
type Counters struct {
	Granted  uint64
	Deferred uint64
	Rejected uint64
	// FailedOpen: the gate could not be asked, and the call went nevertheless.
	FailedOpen uint64
	// Errors: an admission ended with a GateError.
	Errors uint64
	// BreakerSkips: admissions and releases that did not go out, because the breaker was open.
	BreakerSkips uint64
	// ReleasesLost: settlements that did not reach the gate or were refused; their leases end by themselves.
	ReleasesLost uint64
}
