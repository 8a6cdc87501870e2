package fairgate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairgate.io/go/fairgate/fairgatev1"
)

var question = Request{Target: "t", Tenant: "a", Cost: Amounts{"tokens": 900}}

func TestDeferredIsATypedError(t *testing.T) {
	fake := &fakeGate{admit: func(_ context.Context, asked *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
		return deferring(asked, 7*time.Second), nil
	}}
	gate := start(t, fake, Options{})
	call, err := gate.Admit(context.Background(), question)
	var deferred *Deferred
	if call != nil || !errors.As(fmt.Errorf("wrapped: %w", err), &deferred) {
		t.Fatalf("%v, %v", call, err)
	}
	if deferred.Delay != 7*time.Second || len(deferred.RequestID) != 32 || deferred.Attempt != 1 {
		t.Errorf("%+v", deferred)
	}
}

func TestErrorsSayWhatTheyAre(t *testing.T) {
	for code, kind := range map[codes.Code]error{codes.InvalidArgument: ErrBadRequest, codes.NotFound: ErrUnknownTarget} {
		fake := &fakeGate{admit: func(context.Context, *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
			return nil, status.Error(code, "no")
		}}
		_, err := start(t, fake, Options{}).Admit(context.Background(), question)
		if !errors.Is(err, kind) || status.Code(err) != code {
			t.Errorf("%s: %v", code, err)
		}
	}
	_, err := connect(t, nobody(t), Options{FailClosed: true}).Admit(context.Background(), question)
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("unreachable: %v", err)
	}
	_, err = connect(t, nobody(t), Options{}).Admit(context.Background(), Request{Target: "t", Tenant: "a", Attempt: -1})
	if !errors.Is(err, ErrBadRequest) {
		t.Errorf("attempt: %v", err)
	}
}

func TestADeadlineThatPassesIsARejectAndTheContextsError(t *testing.T) {
	fake := &fakeGate{admit: func(ctx context.Context, _ *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	gate := start(t, fake, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := gate.Admit(ctx, question)
	var rejected *Rejected
	if !errors.As(err, &rejected) || rejected.Reason != DeadlineUnreachable || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if gate.Counters().FailedOpen != 0 {
		t.Error("failed open")
	}
}

func TestACancelledContextIsNotAsked(t *testing.T) {
	fake := &fakeGate{}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("shutting down")
	cancel(why)
	_, err := start(t, fake, Options{}).Admit(ctx, question)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || len(fake.admits) != 0 {
		t.Fatalf("%v, asked %d times", err, len(fake.admits))
	}
}

func TestClosing(t *testing.T) {
	say := map[string]struct {
		do   func(*Call)
		want fairgatev1.CallOutcome
	}{
		"nothing":  {func(*Call) {}, fairgatev1.CallOutcome_CALL_OUTCOME_UNSPECIFIED},
		"settled":  {func(c *Call) { c.Settle(Amounts{"tokens": 8}) }, fairgatev1.CallOutcome_CALL_OUTCOME_OK},
		"not sent": {func(c *Call) { c.NotSent() }, fairgatev1.CallOutcome_CALL_OUTCOME_NOT_SENT},
		"last word": {func(c *Call) {
			c.NotSent()
			c.SettleAs(Settlement{Outcome: Timeout})
		}, fairgatev1.CallOutcome_CALL_OUTCOME_TIMEOUT},
		"failed":         {func(c *Call) { c.Failed(errors.New("?")) }, fairgatev1.CallOutcome_CALL_OUTCOME_UNSPECIFIED},
		"failed with it": {func(c *Call) { c.Failed(sdkError(503)) }, fairgatev1.CallOutcome_CALL_OUTCOME_SERVER_ERROR},
		"settled before": {func(c *Call) {
			c.Settle(nil)
			c.Failed(sdkError(503))
		}, fairgatev1.CallOutcome_CALL_OUTCOME_OK},
	}
	for name, said := range say {
		t.Run(name, func(t *testing.T) {
			fake := &fakeGate{}
			call, err := start(t, fake, Options{}).Admit(context.Background(), question)
			if err != nil {
				t.Fatal(err)
			}
			said.do(call)
			call.Close()
			call.Close()
			if got := settled(t, fake).GetOutcome(); got != said.want {
				t.Errorf("%s, not %s", got, said.want)
			}
		})
	}
	(*Call)(nil).Close()
}

type sdkErrorOf struct {
	StatusCode int
	Response   *http.Response
}

func (*sdkErrorOf) Error() string { return "the provider's" }

func sdkError(status int) error {
	return fmt.Errorf("wrapped: %w", &sdkErrorOf{status, &http.Response{StatusCode: status, Header: http.Header{}}})
}

func TestAPanicLeavesTheOutcomeUnknown(t *testing.T) {
	fake := &fakeGate{}
	gate := start(t, fake, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		_ = gate.Do(context.Background(), question, func(context.Context, *Call) error { panic("the work's") })
	}()
	if got := settled(t, fake).GetOutcome(); got != fairgatev1.CallOutcome_CALL_OUTCOME_UNSPECIFIED {
		t.Error(got)
	}
}

func TestSettlingOutlivesTheContext(t *testing.T) {
	fake := &fakeGate{}
	ctx, cancel := context.WithCancel(context.Background())
	err := start(t, fake, Options{}).Do(ctx, question, func(ctx context.Context, call *Call) error {
		cancel()
		call.Settle(Amounts{"tokens": 3})
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || settled(t, fake).GetActual()["tokens"] != 3 {
		t.Fatal(err)
	}
}

func TestAdmitWaitKeepsItsPlace(t *testing.T) {
	fake := &fakeGate{}
	fake.admit = func(_ context.Context, asked *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		if len(fake.admits) < 3 {
			return deferring(asked, time.Millisecond), nil
		}
		return granting(asked), nil
	}
	call, err := start(t, fake, Options{}).AdmitWait(context.Background(), question, Forever)
	if err != nil {
		t.Fatal(err)
	}
	call.Close()
	if len(fake.admits) != 3 || fake.admits[0].GetRequestId() != fake.admits[2].GetRequestId() {
		t.Error(fake.admits)
	}
}

func TestAdmitWaitEndsWithTheContext(t *testing.T) {
	fake := &fakeGate{admit: func(_ context.Context, asked *fairgatev1.AdmitRequest) (*fairgatev1.AdmitResponse, error) {
		return deferring(asked, time.Hour), nil
	}}
	gate := start(t, fake, Options{OnAdmit: nil})
	ctx, cancel := context.WithCancel(context.Background())
	gate.options.OnAdmit = func(AdmitEvent) { cancel() }
	_, err := gate.AdmitWait(ctx, question, Forever)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	gate.Close() // waits for the withdrawal
	if releases := fake.released(); len(releases) != 1 || releases[0].GetWithdraw() == nil {
		t.Error(releases)
	}
}

func TestALeaseThatEndedCannotBeExtended(t *testing.T) {
	fake := &fakeGate{release: func(*fairgatev1.ReleaseRequest) (*fairgatev1.ReleaseResponse, error) {
		return &fairgatev1.ReleaseResponse{Result: fairgatev1.ReleaseResult_RELEASE_RESULT_EXPIRED}, nil
	}}
	call, err := start(t, fake, Options{}).Admit(context.Background(), question)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Extend(context.Background(), time.Minute, nil); !errors.Is(err, ErrNoLease) {
		t.Error(err)
	}
	call.Close()
	if len(fake.released()) != 1 {
		t.Error("an ended lease was settled")
	}
}

func TestAClosedGateIsNoPermission(t *testing.T) {
	gate := start(t, &fakeGate{}, Options{})
	for range 2 {
		if err := gate.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := gate.Admit(context.Background(), question); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestManyAtOnce(t *testing.T) {
	fake := &fakeGate{}
	gate := start(t, fake, Options{})
	var all sync.WaitGroup
	for range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			err := gate.Do(context.Background(), question, func(_ context.Context, call *Call) error {
				call.Settle(Amounts{"tokens": 1})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	all.Wait()
	if gate.Counters().Granted != 50 || len(fake.released()) != 50 {
		t.Errorf("%+v, %d releases", gate.Counters(), len(fake.released()))
	}
}
