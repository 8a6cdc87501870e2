package fairgate

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Grant is a permission, as it was given.
type Grant struct {
	Target    string
	RequestID string // the request's, or the one that was made
	// Attempt is at least 1. One attempt is one HTTP send: whoever sends again asks with the next number.
	Attempt int
	Debited Amounts // what was debited; empty when failed open
	// LeaseExpiresIn is how long the lease lives without a settlement.
	LeaseExpiresIn time.Duration
	Repeated       bool // given before, to the same request id and attempt
	Degraded       bool // given without the store (by the gate) or without the gate (failed open)
	FailedOpen     bool // the gate could not be asked
	// ConfigVersion of the policy that decided; 0: none.
	ConfigVersion uint64
}

// Call is a permission to call, and the lease that goes with it. Close it:
//
//	defer call.Close()
//
// settles with what was said last. Nothing said, because of a panic, an error or a cancellation: Unknown, the estimate
// stays charged, for the provider may have counted the call. With Request.TellsSent and before Sent: NotSent.
type Call struct {
	Grant

	gate        *Gate
	ctx         context.Context // the values of Admit's
	request     Request
	maybeLeased bool // failed open without knowing whether the gate decided

	mu         sync.Mutex // guards what follows
	open       bool       // there is something to end
	sent       bool
	settlement *Settlement
	report     *ReleaseReport
}

func newCall(gate *Gate, ctx context.Context, request Request, grant Grant, maybeLeased bool) *Call {
	return &Call{
		Grant: grant, gate: gate, ctx: ctx, request: request, maybeLeased: maybeLeased,
		open: !request.CheckOnly && (!grant.FailedOpen || maybeLeased),
		sent: !request.TellsSent,
	}
}

// Settle says that the call succeeded, and what it used. Dimensions that are absent are unknown and stay charged. Nothing
// is sent before Close; what was said last holds.
func (c *Call) Settle(actual Amounts) { c.SettleAs(Settlement{Outcome: OK, Actual: actual}) }

// SettleAs says how the call ended, and what it used.
func (c *Call) SettleAs(settlement Settlement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settlement = &settlement
}

// SettleResponse settles with a provider's response: its status, its usage in the token dimensions that the request or
// the grant names, what it says of their limits and of that of requests, and, of a 429, its wait. It returns what it
// understood.
func (c *Call) SettleResponse(response Response) Settlement {
	settlement := response.Settlement(c.usageDimensions(), time.Now())
	c.SettleAs(settlement)
	return settlement
}

// Failed says that the call ended with an error, unless something was said before. An HTTP response in it, as in those
// of OpenAI's and Anthropic's SDKs, tells how; without one the outcome stays unknown. Nil does nothing.
func (c *Call) Failed(err error) {
	response, ok := ResponseOf(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok && c.settlement == nil && c.sent {
		settlement := response.Settlement(c.usageDimensions(), time.Now())
		c.settlement = &settlement
	}
}

// Sent says, with Request.TellsSent, that the request leaves now: from here on the provider may have counted it.
func (c *Call) Sent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
}

// NotSent says that the call never left: everything is refunded.
func (c *Call) NotSent() { c.SettleAs(Settlement{Outcome: NotSent}) }

// Close ends the lease as said, also when Admit's context is over. It waits for the gate, at most Options.RPCTimeout;
// where it is not known whether there is a lease, it does not wait. It has no error, because the work is done: a
// settlement that fails is logged, counted (Counters.ReleasesLost), and the lease ends by itself. The second time, and
// on nil, it does nothing.
func (c *Call) Close() {
	if c == nil {
		return
	}
	if c.maybeLeased {
		if settlement, ok := c.take(); ok {
			c.gate.releaseLater(c.ctx, settleRequest(&c.Grant, settlement))
		}
		return
	}
	if _, err := c.Release(c.ctx); err != nil {
		c.gate.options.Logger.Warn("fairgate: settlement failed", "request_id", c.RequestID, "error", err)
	}
}

// Release is Close for who wants to know: it sends what was said and tells what the gate made of it. Nil: there was
// nothing to end. *GateError: refused, or not told.
func (c *Call) Release(ctx context.Context) (*ReleaseReport, error) {
	settlement, ok := c.take()
	if !ok {
		return nil, nil
	}
	report, err := c.gate.release(ctx, settleRequest(&c.Grant, settlement), c.maybeLeased)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report = &report
	return &report, nil
}

// Report is what the gate made of the settlement; nil before, without a lease, and when it was lost.
func (c *Call) Report() *ReleaseReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// Extend keeps the lease alive for ttl from now (0: the target's), for long streams, and returns its new life. Usage so
// far raises the charge where it is above what was debited. *GateError: errors.Is(err, ErrNoLease) when there is no open
// lease (any more), or the gate could not be told.
func (c *Call) Extend(ctx context.Context, ttl time.Duration, usedSoFar Amounts) (time.Duration, error) {
	c.mu.Lock()
	open := c.open && !c.FailedOpen
	c.mu.Unlock()
	if !open {
		return 0, noLease(ErrNoLease.Error())
	}
	report, err := c.gate.release(ctx, extendRequest(&c.Grant, ttl, usedSoFar), false)
	if err != nil {
		return 0, err
	}
	if report.Result != ResultExtended && report.Result != ResultQueued {
		c.take()
		return 0, noLease(fmt.Sprintf("the lease has ended: %s", report.Result))
	}
	return report.LeaseExpiresIn, nil
}

// take gives the settlement that ends the lease, once.
func (c *Call) take() (Settlement, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return Settlement{}, false
	}
	c.open = false
	switch {
	case c.settlement != nil:
		return *c.settlement, true
	case !c.sent:
		return Settlement{Outcome: NotSent}, true
	default:
		return Settlement{}, true
	}
}

// usageDimensions are those, of the ones that the request or the grant names, that hold token usage.
func (c *Call) usageDimensions() map[string]Usage {
	found := map[string]Usage{}
	for _, named := range []Amounts{c.request.Cost, c.Debited} {
		for name := range named {
			if usage, ok := c.gate.options.UsageDimensions[name]; ok {
				found[name] = usage
			} else if usage, ok := DefaultUsage[name]; ok {
				found[name] = usage
			}
		}
	}
	return found
}
