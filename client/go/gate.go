package fairgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairgate.io/go/fairgate/fairgatev1"
)

// The gate holds no longer, whatever is asked.
const maxHoldMax = time.Hour

// Gate is a connection to a gate; make one and keep it. Safe for concurrent use.
type Gate struct {
	options Options
	conn    *grpc.ClientConn
	stub    fairgatev1.AdmissionServiceClient

	background sync.WaitGroup

	mu       sync.Mutex // guards what follows
	closed   bool
	breaker  breaker
	counters Counters
}

// New makes a gate object for an address as gRPC names it: "host:port", "dns:///name:port" or "unix:/path". It connects
// with the first question. Errors: an address or an option that gRPC does not understand.
func New(address string, options Options) (*Gate, error) {
	options = options.withDefaults()
	credentials := options.Credentials
	if credentials == nil {
		credentials = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(credentials),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: options.Keepalive, Timeout: 5 * time.Second}),
		// The default backs off to two minutes, which would outlast the breaker by far.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithIdleTimeout(0), // connecting anew would eat the next question's time
		grpc.WithDisableRetry(), // what is safe is tried again here
		grpc.WithDisableServiceConfig(),
	}, options.DialOptions...)...)
	if err != nil {
		return nil, fmt.Errorf("fairgate: %w", err)
	}
	return &Gate{
		options: options,
		conn:    conn,
		stub:    fairgatev1.NewAdmissionServiceClient(conn),
		breaker: breaker{failuresMax: options.BreakerFailures, cooldown: options.BreakerCooldown},
	}, nil
}

// Close waits for the releases that are on their way, at most Options.RPCTimeout, and closes the connection.
func (g *Gate) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.mu.Unlock()
	g.background.Wait()
	return g.conn.Close()
}

// Counters are the answers so far.
func (g *Gate) Counters() Counters {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counters
}

// Admit asks once. The call is nil when there is an error:
//
//   - *Deferred: give the worker's slot back, sleep its Delay, ask again with its RequestID
//   - *Rejected: waiting would not help. A context whose deadline passes while the gate thinks gives this, too, and
//     errors.Is(err, context.DeadlineExceeded)
//   - *GateError: the gate refuses the question, or, with Options.FailClosed, does not answer
//   - the context's error, when it is cancelled; the question is then withdrawn in the background
//
// A call ends with Call.Close; the context's values, but not its end, go with what settles it.
func (g *Gate) Admit(ctx context.Context, request Request) (*Call, error) {
	asked, err := admitRequest(request)
	if err != nil {
		g.note(&request, time.Now(), Grant{}, err)
		return nil, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, cancelledError(ctx)
	}
	if g.isClosed() {
		return nil, ErrClosed
	}

	due := dueAt(ctx, request.Deadline)
	exchange := g.newExchange(g.options.RPCTimeout+min(max(request.MaxHold, 0), maxHoldMax), due)
	if !due.IsZero() {
		asked.Deadline = durationpb.New(due.Sub(exchange.began))
	}
	var response *fairgatev1.AdmitResponse
	pointless := !exchange.until.After(exchange.began)
	if !pointless {
		exchange.run(ctx, func(ctx context.Context, options ...grpc.CallOption) (err error) {
			response, err = g.stub.Admit(ctx, asked, options...)
			return err
		})
	}

	withdraw := func() {
		if exchange.maybeDecided && !request.CheckOnly {
			g.releaseLater(ctx, withdrawRequest(request.Target, asked.RequestId, int(asked.Attempt)))
		}
	}
	if exchange.cancelled {
		withdraw()
		return nil, cancelledError(ctx)
	}
	grant := Grant{RequestID: asked.RequestId, Attempt: int(asked.Attempt)}
	maybeLeased := false
	switch {
	case exchange.answered:
		grant, err = admitOutcome(response)
	case exchange.refusal != nil:
		err = exchange.refusal
	case pointless:
		err = lateRejection(asked, "the deadline had passed", false)
	case exchange.hurried && (exchange.timedOut || !time.Now().Before(due)):
		// The caller's time ran out, which is no sign that the gate is away and no reason to call.
		err = lateRejection(asked, "the deadline passed before the gate answered", true)
		withdraw()
	case g.options.FailClosed:
		err = unreachable()
	default:
		grant.Degraded, grant.FailedOpen, grant.Debited = true, true, Amounts{}
		maybeLeased = exchange.maybeDecided && !request.CheckOnly
	}
	g.note(&request, exchange.began, grant, err)
	if err != nil {
		return nil, err
	}
	grant.Target = request.Target
	return newCall(g, context.WithoutCancel(ctx), request, grant, maybeLeased), nil
}

// AdmitWait asks until the call may go or is rejected, and sleeps the delays in the caller's goroutine, at most maxWait
// in all (Forever: until the context ends). A wait that is longer than what is left is not begun: the place in line is
// given up, and the *Deferred is returned. With Request.CheckOnly it is Admit.
func (g *Gate) AdmitWait(ctx context.Context, request Request, maxWait time.Duration) (*Call, error) {
	began := time.Now()
	for {
		call, err := g.Admit(ctx, request)
		var deferred *Deferred
		if !errors.As(err, &deferred) || maxWait <= 0 || request.CheckOnly {
			return call, err
		}
		request.RequestID = deferred.RequestID // keeps the place
		withdrawal := withdrawRequest(request.Target, deferred.RequestID, deferred.Attempt)
		if deferred.Delay > maxWait-time.Since(began) {
			// Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
			g.releaseLater(ctx, withdrawal)
			return nil, err
		}
		timer := time.NewTimer(deferred.Delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			g.releaseLater(ctx, withdrawal)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, &Rejected{
					RequestID: deferred.RequestID, Attempt: deferred.Attempt, Degraded: true, local: true,
					Reason: DeadlineUnreachable, Message: "the deadline passed while waiting",
				}
			}
			return nil, cancelledError(ctx)
		}
	}
}

// Do admits, runs the work, and settles the call with what the work said, or with what its error tells: see Call.Failed.
// It returns the work's error, or what Admit returned.
func (g *Gate) Do(ctx context.Context, request Request, work func(context.Context, *Call) error) error {
	call, err := g.Admit(ctx, request)
	if err != nil {
		return err
	}
	defer call.Close()
	err = work(ctx, call)
	call.Failed(err)
	return err
}

// Withdraw gives up the place in line of a deferred question. *GateError: refused, or it could not be told.
func (g *Gate) Withdraw(ctx context.Context, target, requestID string, attempt int) (ReleaseReport, error) {
	return g.release(ctx, withdrawRequest(target, requestID, attempt), false)
}

// release sends one. With maybeLeased, nobody knows whether there is a lease: that it is lost is nobody's loss.
func (g *Gate) release(ctx context.Context, request *fairgatev1.ReleaseRequest, maybeLeased bool) (ReleaseReport, error) {
	exchange := g.newExchange(g.options.RPCTimeout, dueAt(ctx, time.Time{}))
	var response *fairgatev1.ReleaseResponse
	exchange.run(ctx, func(ctx context.Context, options ...grpc.CallOption) (err error) {
		response, err = g.stub.Release(ctx, request, options...)
		return err
	})
	var report ReleaseReport
	var err error
	result := "LOST"
	switch {
	case exchange.answered:
		report = releaseReport(response)
		result = report.Result.String()
	case exchange.refusal != nil:
		result, err = "ERROR", exchange.refusal
	case exchange.cancelled:
		err = cancelledError(ctx)
	default:
		err = unreachable()
	}
	if err != nil && maybeLeased {
		return report, err
	}
	if err != nil {
		g.mu.Lock()
		g.counters.ReleasesLost++
		g.mu.Unlock()
	}
	if g.options.OnRelease != nil {
		g.options.OnRelease(ReleaseEvent{
			Target: request.GetTarget(), Outcome: saidOf(request), Result: result, Duration: time.Since(exchange.began),
		})
	}
	return report, err
}

// releaseLater releases what may be at the gate; nobody waits for it but Close.
func (g *Gate) releaseLater(ctx context.Context, request *fairgatev1.ReleaseRequest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.background.Add(1)
	go func() {
		defer g.background.Done()
		if _, err := g.release(context.WithoutCancel(ctx), request, true); err != nil {
			g.options.Logger.Debug("fairgate: release", "request_id", request.GetRequestId(), "error", err)
		}
	}()
}

func (g *Gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// dueAt is the earlier of the two; zero: there is none.
func dueAt(ctx context.Context, explicit time.Time) time.Time {
	if due, ok := ctx.Deadline(); ok && (explicit.IsZero() || due.Before(explicit)) {
		return due
	}
	return explicit
}

func lateRejection(asked *fairgatev1.AdmitRequest, message string, degraded bool) *Rejected {
	return &Rejected{
		RequestID: asked.RequestId, Attempt: int(asked.Attempt), Degraded: degraded, local: true,
		Reason: DeadlineUnreachable, Message: message,
	}
}

// cancelledError holds both the context's error and its cause.
func cancelledError(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("fairgate: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("fairgate: %w", ctx.Err())
}
