package temporal

import (
	"context"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

const (
	// DeferredType is the type of a deferral's application error: seen in histories, and by workflows only if the wait
	// passes a deadline.
	DeferredType = "fairgate.Deferred"
	// RejectedType is the type of a rejection's application error; details: reason and message. Not retried, since
	// waiting would not help.
	RejectedType = "fairgate.Rejected"
	// Header on an activity that is scheduled again.
	Header = "fairgate"
)

// Options say how activities ask. The zero value has the defaults.
type Options struct {
	// TimerFloor is the shortest sleep that the server's durable timer can do: one second, unless its dynamic
	// configuration says otherwise (history.timerProcessorMaxTimeShift). Negative: none.
	TimerFloor time.Duration
	// MaxHold is how long a question may be held by the gate instead of being deferred. It keeps the slot meanwhile, and
	// spares the history a deferral that is shorter.
	MaxHold time.Duration
}

type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	options Options
}

// NewInterceptor is for the interceptors of worker.Options and of worker.WorkflowReplayerOptions; last in the list.
func NewInterceptor(options Options) interceptor.WorkerInterceptor {
	switch {
	case options.TimerFloor == 0:
		options.TimerFloor = time.Second
	case options.TimerFloor < 0:
		options.TimerFloor = 0
	}
	return &workerInterceptor{options: options}
}

func (w *workerInterceptor) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	inbound := &activityInbound{options: w.options}
	inbound.Next = next
	return inbound
}

func (w *workerInterceptor) InterceptWorkflow(
	_ workflow.Context, next interceptor.WorkflowInboundInterceptor,
) interceptor.WorkflowInboundInterceptor {
	inbound := &workflowInbound{}
	inbound.Next = next
	return inbound
}
