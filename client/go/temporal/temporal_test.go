package temporal

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairgate.io/go/fairgate"
)

func TestRestOfAPolicy(t *testing.T) {
	for _, c := range []struct {
		policy       *temporal.RetryPolicy
		failures     int
		attemptsLeft int32
		interval     time.Duration
	}{
		{&temporal.RetryPolicy{MaximumAttempts: 3}, 2, 1, 4 * time.Second},
		{&temporal.RetryPolicy{}, 2, 0, 4 * time.Second},
		{nil, 3, 0, 8 * time.Second},
		{nil, 1_000_000, 0, 100 * time.Second},
		{&temporal.RetryPolicy{MaximumInterval: 3 * time.Second}, 2, 0, 3 * time.Second},
		{&temporal.RetryPolicy{BackoffCoefficient: 1}, 1000, 0, time.Second},
	} {
		rest := restOf(c.policy, c.failures)
		if rest.MaximumAttempts != c.attemptsLeft || rest.InitialInterval != c.interval {
			t.Errorf("after %d of %+v: %+v", c.failures, c.policy, rest)
		}
	}
	if policy := (&temporal.RetryPolicy{MaximumAttempts: 3}); restOf(policy, 0) != policy || restOf(nil, 0) != nil {
		t.Error("without failures a policy stays as it is")
	}
}

func TestLongIDsFitTheContract(t *testing.T) {
	info := activity.Info{WorkflowExecution: workflow.Execution{ID: "w", RunID: "r"}, ActivityID: "5"}
	if id := requestID(info); id != "w/r/5" {
		t.Error(id)
	}
	info.WorkflowExecution.ID = strings.Repeat("w", 500)
	one := requestID(info)
	info.ActivityID = "6"
	if other := requestID(info); len(one) != 64 || one == other {
		t.Error(one, other)
	}
}

func TestOutsideOfAWorker(t *testing.T) {
	if _, err := Admit(context.Background(), nil, fairgate.Request{}); err == nil {
		t.Error("no error")
	}
}
