package fairgate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a GateError is, for errors.Is.
var (
	// ErrUnreachable: the gate could not be asked, and Options.FailClosed is set.
	ErrUnreachable = errors.New("the gate does not answer")
	// ErrPolicyClosed: the gate's store is away, and the target's policy is to stay closed (Unavailable, said by the gate).
	ErrPolicyClosed = errors.New("the target's policy stays closed")
	// ErrBadRequest: InvalidArgument; GateError.Fields says what is wrong. Nothing changed.
	ErrBadRequest = errors.New("bad request")
	// ErrUnknownTarget: NotFound.
	ErrUnknownTarget = errors.New("unknown target")
	// ErrNoLease: there is no open lease (any more).
	ErrNoLease = errors.New("no open lease")
)

// ErrClosed is returned after Gate.Close.
var ErrClosed = errors.New("fairgate: the gate object is closed")

// Deferred is an answer: give the worker's slot back, sleep Delay, and ask again with the same request id and attempt.
type Deferred struct {
	RequestID string
	Attempt   int
	Degraded  bool // answered without the gate's store
	Delay     time.Duration
	// ProjectedWait is when the turn is expected, without corrections for timers.
	ProjectedWait time.Duration
	// Place in line: calls of the same flow that are ahead, plus 1; 0: no place is kept.
	Place     uint64
	LimitedBy []Limit
}

func (d *Deferred) Error() string {
	return fmt.Sprintf("fairgate: %s: ask again in %.3f s", d.RequestID, d.Delay.Seconds())
}

// Rejected is an answer: waiting would not help.
type Rejected struct {
	RequestID string
	Attempt   int
	Degraded  bool // answered without the gate's store, or, for a deadline that passed meanwhile, without the gate
	Reason    RejectReason
	Message   string // for people; names the dimension and the numbers
	Dimension string
	// Earliest time at which the call could go, from now, for DeadlineUnreachable; 0: not told.
	Earliest time.Duration
	local    bool
}

func (r *Rejected) Error() string {
	return fmt.Sprintf("fairgate: %s: %s: %s", r.RequestID, r.Reason, r.Message)
}

// Unwrap gives context.DeadlineExceeded where the deadline had passed, as against will.
func (r *Rejected) Unwrap() error {
	if r.local {
		return context.DeadlineExceeded
	}
	return nil
}

// FieldViolation is one bad field of a request.
type FieldViolation struct{ Field, Description string }

// GateError: the gate answered with a status, or could not be reached. Never an answer to wait for.
type GateError struct {
	Code    codes.Code
	Message string
	Fields  []FieldViolation
	kind    error
}

func (e *GateError) Error() string { return fmt.Sprintf("fairgate: %s: %s", e.Code, e.Message) }

// Unwrap gives ErrBadRequest, ErrUnknownTarget and their like.
func (e *GateError) Unwrap() error { return e.kind }

// GRPCStatus makes status.Code and status.FromError work.
func (e *GateError) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

func unreachable() *GateError {
	return &GateError{Code: codes.Unavailable, Message: ErrUnreachable.Error(), kind: ErrUnreachable}
}

func noLease(message string) *GateError {
	return &GateError{Code: codes.FailedPrecondition, Message: message, kind: ErrNoLease}
}
