package temporal

import (
	"errors"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Of a retry policy that does not say, as the server has it.
const (
	defaultInitialInterval    = time.Second
	defaultBackoffCoefficient = 2.0
	defaultIntervalsMax       = 100 // MaximumInterval in InitialIntervals
)

type workflowInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (w *workflowInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	ours := &workflowOutbound{}
	ours.Next = outbound
	return w.Next.Init(ours)
}

// workflowOutbound is deterministic: it knows only what the history holds.
type workflowOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (o *workflowOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	began := workflow.Now(ctx)
	first := o.Next.ExecuteActivity(ctx, activityType, args...) // now, so that commands keep their order
	admitted, settable := workflow.NewFuture(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		settable.Set(o.untilAdmitted(ctx, began, first, activityType, args))
	})
	return admitted
}

// untilAdmitted gives the activity's result as it was encoded: the future that it is set to decodes it.
func (o *workflowOutbound) untilAdmitted(
	ctx workflow.Context, began time.Time, future workflow.Future, activityType string, args []any,
) (any, error) {
	options := workflow.GetActivityOptions(ctx)
	whole := options.ScheduleToCloseTimeout
	for {
		result, err := encoded(ctx, future)
		deferral, ok := deferralOf(err)
		if !ok {
			return result, err
		}
		delay := time.Duration(deferral.DelayMS) * time.Millisecond
		if whole > 0 && workflow.Now(ctx).Sub(began)+delay >= whole {
			return nil, err
		}
		timer := workflow.NewTimerWithOptions(ctx, delay, workflow.TimerOptions{Summary: "deferred by the gate"})
		if err := timer.Get(ctx, nil); err != nil {
			return nil, err
		}
		again := options
		again.RetryPolicy = restOf(options.RetryPolicy, deferral.Next.FailuresBefore)
		if whole > 0 {
			// The timer may have been late: then the server says that it is over.
			again.ScheduleToCloseTimeout = max(whole-workflow.Now(ctx).Sub(began), time.Millisecond)
		}
		payload, err := converter.GetDefaultDataConverter().ToPayload(deferral.Next)
		if err != nil {
			return nil, err
		}
		interceptor.WorkflowHeader(ctx)[Header] = payload
		future = o.Next.ExecuteActivity(workflow.WithActivityOptions(ctx, again), activityType, args...)
	}
}

// encoded waits for an activity and gives its result undecoded: nobody here knows its type.
func encoded(ctx workflow.Context, future workflow.Future) (any, error) {
	if future.IsReady() { // it was not scheduled
		return nil, future.Get(ctx, nil)
	}
	raw, settable := workflow.NewFuture(ctx)
	settable.Chain(future)
	var payloads *commonpb.Payloads
	if err := raw.Get(ctx, &payloads); err != nil {
		return nil, err
	}
	if payloads == nil {
		return nil, nil
	}
	return payloads, nil
}

func deferralOf(err error) (deferral, bool) {
	var failed *temporal.ActivityError
	var told *temporal.ApplicationError
	var deferral deferral
	if !errors.As(err, &failed) || !errors.As(failed.Unwrap(), &told) || told.Type() != DeferredType {
		return deferral, false
	}
	return deferral, told.Details(&deferral) == nil
}

// restOf is what is left of a policy: the server counts a scheduled activity's attempts from one.
func restOf(policy *temporal.RetryPolicy, failures int) *temporal.RetryPolicy {
	if failures == 0 {
		return policy
	}
	rest := temporal.RetryPolicy{}
	if policy != nil {
		rest = *policy
	}
	if rest.InitialInterval == 0 {
		rest.InitialInterval = defaultInitialInterval
	}
	if rest.BackoffCoefficient == 0 {
		rest.BackoffCoefficient = defaultBackoffCoefficient
	}
	if rest.MaximumInterval == 0 {
		rest.MaximumInterval = rest.InitialInterval * defaultIntervalsMax
	}
	interval := float64(rest.InitialInterval)
	for range failures { // a power of a large number would overflow
		interval *= rest.BackoffCoefficient
		if interval >= float64(rest.MaximumInterval) {
			interval = float64(rest.MaximumInterval)
			break
		}
	}
	rest.InitialInterval = time.Duration(interval)
	if rest.MaximumAttempts > 0 {
		rest.MaximumAttempts = max(rest.MaximumAttempts-int32(failures), 1)
	}
	return &rest
}
