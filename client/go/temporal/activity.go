package temporal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"fairgate.io/go/fairgate"
)

const (
	requestIDBytesMax = 256
	numberBytesMax    = 8 // "/" and the number of a question
)

// progress is what a deferral hands over to the activity that is scheduled in its place.
type progress struct {
	RequestID string `json:"request_id"`
	// Of the gate: attempts that are over.
	AttemptsBefore int `json:"attempts_before"`
	// Attempts that the retry policy has used up. Fewer than AttemptsBefore once a send was followed by a deferral.
	FailuresBefore int `json:"failures_before"`
}

// deferral is the detail of an error of DeferredType.
type deferral struct {
	DelayMS int64    `json:"delay_ms"`
	Next    progress `json:"next"`
}

// step is one run of an activity.
type step struct {
	options Options
	info    activity.Info
	before  progress
	asked   atomic.Int32
}

type stepKey struct{}

// Admit is gate.Admit with what the running activity knows: request id, attempt, deadline, timer floor and hold. Fields
// that are given hold. The second question of one activity has a request id of its own, and so on. Return its error as it
// is, or wrapped.
//
// The deadline is the end of schedule-to-close. The context's, which ends this attempt, is none: a wait that is longer
// does not happen in this attempt.
func Admit(ctx context.Context, gate *fairgate.Gate, request fairgate.Request) (*fairgate.Call, error) {
	step, ok := ctx.Value(stepKey{}).(*step)
	if !ok {
		return nil, errors.New("fairgate: not in an activity of a worker with temporal.NewInterceptor")
	}
	if step.info.IsLocalActivity {
		// One that is lost with its workflow task is run again as the same attempt.
		return nil, temporal.NewNonRetryableApplicationError("local activities cannot ask the gate", "fairgate.Local", nil)
	}
	return gate.Admit(undated{ctx}, step.filled(request))
}

// undated hides a context's deadline, which still ends it.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

func (s *step) filled(request fairgate.Request) fairgate.Request {
	number := s.asked.Add(1)
	if request.RequestID == "" {
		request.RequestID = s.before.RequestID
		if number > 1 {
			request.RequestID += fmt.Sprintf("/%d", number)
		}
	}
	if request.Attempt == 0 {
		request.Attempt = s.before.AttemptsBefore + int(s.info.Attempt)
	}
	if request.Deadline.IsZero() && s.info.ScheduleToCloseTimeout > 0 {
		// The clocks are two: a difference must not make more of the time than there was.
		passed := max(time.Since(s.info.ScheduledTime), 0)
		request.Deadline = time.Now().Add(s.info.ScheduleToCloseTimeout - passed)
	}
	if request.TimerFloor == 0 {
		request.TimerFloor = s.options.TimerFloor
	}
	if request.MaxHold == 0 {
		request.MaxHold = s.options.MaxHold
	}
	return request
}

// translated makes errors of Temporal out of what is no failure, or cannot be mended by a retry.
func (s *step) translated(err error) error {
	var deferred *fairgate.Deferred
	var rejected *fairgate.Rejected
	switch {
	case errors.As(err, &deferred):
		return temporal.NewApplicationErrorWithOptions(deferred.Error(), DeferredType, temporal.ApplicationErrorOptions{
			NonRetryable: true,
			Category:     temporal.ApplicationErrorCategoryBenign,
			Details: []any{deferral{
				DelayMS: int64((deferred.Delay + time.Millisecond - 1) / time.Millisecond),
				Next:    s.afterDeferral(),
			}},
		})
	case errors.As(err, &rejected):
		return temporal.NewApplicationErrorWithOptions(rejected.Error(), RejectedType, temporal.ApplicationErrorOptions{
			NonRetryable: true,
			Details:      []any{rejected.Reason.String(), rejected.Message},
		})
	default:
		return err
	}
}

func (s *step) afterDeferral() progress {
	failed := int(s.info.Attempt) - 1
	over := failed
	if s.asked.Load() > 1 {
		// Questions before the deferred one were granted: what they sent will be sent again, which is another attempt.
		over++
	}
	return progress{
		RequestID:      s.before.RequestID,
		AttemptsBefore: s.before.AttemptsBefore + over,
		FailuresBefore: s.before.FailuresBefore + failed,
	}
}

// requestID is of the run, not of the workflow alone: runs that continue it count their activities from one again.
func requestID(info activity.Info) string {
	id := fmt.Sprintf("%s/%s/%s", info.WorkflowExecution.ID, info.WorkflowExecution.RunID, info.ActivityID)
	if len(id)+numberBytesMax > requestIDBytesMax {
		sum := sha256.Sum256([]byte(id))
		return hex.EncodeToString(sum[:])
	}
	return id
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
	options Options
}

func (i *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	step := &step{options: i.options, info: info, before: progress{RequestID: requestID(info)}}
	if payload, ok := interceptor.Header(ctx)[Header]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &step.before); err != nil {
			return nil, fmt.Errorf("fairgate: header: %w", err)
		}
	}
	result, err := i.Next.ExecuteActivity(context.WithValue(ctx, stepKey{}, step), in)
	return result, step.translated(err)
}
