package fairgate

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// A connection that broke is worth a second try on a fresh one; both carry the same ids, so that the gate decides once.
const triesMax = 2

// The channel may notice a moment later than the call that its connection is gone: until then it sends the next one into
// the same grave. The pause is random, so that not all who lost it come back at once.
const (
	pauseMin = 10 * time.Millisecond
	pauseMax = 20 * time.Millisecond
)

// exchange is one question or release, with its second try.
type exchange struct {
	gate    *Gate
	began   time.Time
	until   time.Time
	hurried bool // the caller's time is shorter than the gate's: its end says nothing about the gate

	answered     bool
	refusal      *GateError // the gate's own
	cancelled    bool       // by the caller
	timedOut     bool
	maybeDecided bool // unanswered, but the gate may have been asked
}

func (g *Gate) newExchange(budget time.Duration, due time.Time) *exchange {
	now := time.Now()
	x := &exchange{gate: g, began: now, until: now.Add(budget)}
	if !due.IsZero() && due.Before(x.until) {
		x.until, x.hurried = due, true
	}
	return x
}

// run tries, and tells the breaker how it went.
func (x *exchange) run(ctx context.Context, try func(context.Context, ...grpc.CallOption) error) {
	if !x.gate.breakerAllows() {
		return
	}
	for tries := 1; ; tries++ {
		var asked peer.Peer
		tryCtx, cancel := context.WithDeadline(ctx, x.until)
		err := try(tryCtx, grpc.Peer(&asked))
		cancel()
		if err == nil {
			x.answered = true
			x.gate.gateAnswered()
			return
		}
		said := status.Convert(err)
		if !noAnswer(said) {
			x.refusal = toError(said)
			x.gate.gateAnswered()
			return
		}
		wasConnected := asked.Addr != nil // without a peer the question never left
		x.maybeDecided = x.maybeDecided || wasConnected
		if errors.Is(ctx.Err(), context.Canceled) {
			x.cancelled = true
			return
		}
		x.timedOut = said.Code() == codes.DeadlineExceeded
		if x.timedOut || tries == triesMax || !time.Now().Before(x.until) {
			if !(x.timedOut && x.hurried) {
				x.gate.gateFailed()
			}
			return
		}
		if wasConnected {
			x.pause(ctx)
		}
	}
}

// pause before the second try; leaves that at least half of the time.
func (x *exchange) pause(ctx context.Context) {
	pause := min(pauseMin+rand.N(pauseMax-pauseMin), time.Until(x.until)/2)
	select {
	case <-time.After(pause):
	case <-ctx.Done(): // the try is going to tell
	}
}

// The breaker and the counters

func (g *Gate) breakerAllows() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.breaker.allows(time.Now()) {
		return true
	}
	g.counters.BreakerSkips++
	return false
}

func (g *Gate) gateAnswered() {
	g.mu.Lock()
	wasOpen := g.breaker.isOpen()
	g.breaker.succeeded()
	g.mu.Unlock()
	if wasOpen {
		g.options.Logger.Warn("fairgate: the gate answers again")
		g.tellBreaker(false)
	}
}

func (g *Gate) gateFailed() {
	g.mu.Lock()
	wasOpen := g.breaker.isOpen()
	g.breaker.failed(time.Now())
	opened := g.breaker.isOpen() && !wasOpen
	g.mu.Unlock()
	if opened {
		g.options.Logger.Warn("fairgate: the gate does not answer", "calls_go_on", !g.options.FailClosed)
		g.tellBreaker(true)
	}
}

func (g *Gate) tellBreaker(open bool) {
	if g.options.OnBreaker != nil {
		g.options.OnBreaker(BreakerEvent{Open: open})
	}
}

// note counts an answer and calls the hook.
func (g *Gate) note(request *Request, began time.Time, grant Grant, err error) {
	event := AdmitEvent{Target: request.Target, Tenant: request.Tenant, Priority: request.Priority}
	event.Duration = time.Since(began)
	g.mu.Lock()
	switch answer := err.(type) {
	case nil:
		event.Outcome, event.Degraded = Granted, grant.Degraded
		counter := &g.counters.Granted
		if grant.FailedOpen {
			event.Outcome, counter = FailedOpen, &g.counters.FailedOpen
		}
		*counter++
	case *Deferred:
		event.Outcome, event.Degraded, event.Delay = DeferredAnswer, answer.Degraded, answer.Delay
		g.counters.Deferred++
	case *Rejected:
		event.Outcome, event.Degraded = RejectedAnswer, answer.Degraded
		g.counters.Rejected++
	default:
		event.Outcome = ErrorAnswer
		g.counters.Errors++
	}
	g.mu.Unlock()
	if g.options.OnAdmit != nil {
		g.options.OnAdmit(event)
	}
}
