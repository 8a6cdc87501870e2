package fairgate

import (
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// DefaultAddress is where a gate listens unless told otherwise.
const DefaultAddress = "127.0.0.1:50051"

// Forever as the longest wait of AdmitWait: only the context ends it.
const Forever = time.Duration(math.MaxInt64)

// Options say how to reach a gate, and what to do when that fails. The zero value has the defaults.
type Options struct {
	// RPCTimeout is the longest time to wait for an answer, 100 ms unless given; Request.MaxHold comes on top.
	RPCTimeout time.Duration
	// FailClosed makes a gate that cannot be reached an error (ErrUnreachable). Otherwise the call may go, marked and
	// counted. An answer of the gate itself, Unavailable included, is never turned into a permission.
	FailClosed bool
	// BreakerFailures in a row open the breaker, 3 unless given: for BreakerCooldown nobody waits for the gate, then one
	// call tries it for all. Negative: no breaker.
	BreakerFailures int
	// BreakerCooldown is 1 s unless given.
	BreakerCooldown time.Duration
	// Keepalive is the interval of pings while an answer is awaited, which detect a silent peer: 30 s unless given, at
	// least 10 s.
	Keepalive time.Duration
	// Credentials of the transport; nil: not encrypted.
	Credentials credentials.TransportCredentials
	// DialOptions of gRPC, over the ones set here: interceptors, per-call credentials, a stats handler.
	DialOptions []grpc.DialOption
	// Hooks for metrics. They are called by the caller's goroutine, several at a time, and must be quick.
	OnAdmit   func(AdmitEvent)
	OnRelease func(ReleaseEvent)
	OnBreaker func(BreakerEvent)
	// UsageDimensions are dimensions of yours that hold token usage, besides DefaultUsage.
	UsageDimensions map[string]Usage
	// Logger is slog.Default() unless given.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.RPCTimeout <= 0 {
		o.RPCTimeout = 100 * time.Millisecond
	}
	if o.BreakerFailures == 0 {
		o.BreakerFailures = 3
	}
	if o.BreakerCooldown <= 0 {
		o.BreakerCooldown = time.Second
	}
	if o.Keepalive <= 0 {
		o.Keepalive = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// Request is one question. Fields as in fairgate.v1.AdmitRequest.
type Request struct {
	Target   string // required
	Tenant   string // required
	Priority string // a class of the target; empty: its default
	// Cost is the estimated use; "requests" is 1 unless given.
	Cost Amounts
	// UpperBound: the cost is a reservation that the call cannot pass; what is not used is given back.
	UpperBound bool
	// RequestID is idempotency key, ticket and lease id at once. Empty: one is made. Ask again after a Deferred with the
	// same one.
	RequestID string
	// Attempt: one is one HTTP send; whoever sends again asks with the next number. 0 and 1 both mean the first.
	Attempt int
	// Deadline at which the work is useless. The earlier of this and of the context's holds; zero: the context's alone.
	Deadline time.Time
	// TimerFloor is the shortest sleep that the caller's timer can do.
	TimerFloor time.Duration
	// MaxHold is how long the gate may hold its answer instead of deferring.
	MaxHold time.Duration
	// CheckOnly asks what the answer would be; nothing is debited, no place is kept, nothing is to be settled.
	CheckOnly bool
	// TellsSent: Call.Sent will be called right before the request leaves. A call that ends before that is not sent.
	TellsSent bool
}

// AdmitOutcome is an answer's kind, as metrics name it.
type AdmitOutcome string

// The kinds.
const (
	Granted        AdmitOutcome = "granted"
	FailedOpen     AdmitOutcome = "failed_open"
	DeferredAnswer AdmitOutcome = "deferred"
	RejectedAnswer AdmitOutcome = "rejected"
	ErrorAnswer    AdmitOutcome = "error"
)

// AdmitEvent is one question and its answer.
type AdmitEvent struct {
	Target, Tenant, Priority string
	Outcome                  AdmitOutcome
	Degraded                 bool
	Duration                 time.Duration // how long the caller waited for the answer
	Delay                    time.Duration // of a defer, 0 otherwise
}

// ReleaseEvent is one settlement, withdrawal or extension.
type ReleaseEvent struct {
	Target string
	// Outcome is what the caller said: a CallOutcome's name, "WITHDRAW" or "EXTEND".
	Outcome string
	// Result is a ReleaseResult's name; "LOST": it did not reach the gate; "ERROR": the gate refused it.
	Result   string
	Duration time.Duration
}

// BreakerEvent says that the breaker opened (the gate is not asked any more) or closed.
type BreakerEvent struct{ Open bool }
