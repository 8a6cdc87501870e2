package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairgate.io/go/fairgate"
	fgtemporal "fairgate.io/go/fairgate/temporal"
)

// Work is that of common.py.
type Work struct {
	Work           string  `json:"work"`
	Target         string  `json:"target"`
	Upstream       string  `json:"upstream"`
	Tenant         string  `json:"tenant"`
	Priority       string  `json:"priority"`
	Calls          int     `json:"calls"`
	Runs           int     `json:"runs"`
	AttemptTimeout float64 `json:"attempt_timeout_s"`
	AttemptsMax    int32   `json:"attempts_max"`
	Deadline       float64 `json:"deadline_s"`
}

// Calls does the work's calls, one after the other.
func Calls(ctx workflow.Context, work Work) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    seconds(work.AttemptTimeout),
		ScheduleToCloseTimeout: seconds(work.Deadline),
		RetryPolicy:            &sdk.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: work.AttemptsMax},
	})
	for range work.Calls {
		if err := workflow.ExecuteActivity(ctx, "call", work).Get(ctx, nil); err != nil {
			return err
		}
	}
	if work.Runs > 1 {
		work.Runs--
		return workflow.NewContinueAsNewError(ctx, Calls, work)
	}
	return nil
}

// Steps holds what the activity needs.
type Steps struct {
	options options
	gate    *fairgate.Gate
}

// Call is the activity.
func (s *Steps) Call(ctx context.Context, work Work) error {
	if s.options.Mode == "naive" {
		return s.naive(ctx, work)
	}
	call, err := fgtemporal.Admit(ctx, s.gate, fairgate.Request{
		Target: work.Target, Tenant: work.Tenant, Priority: work.Priority,
	})
	if err != nil {
		return err
	}
	defer call.Close()
	s.dieAt("granted")
	response, body, err := send(ctx, work, call.RequestID, call.Attempt, call.Degraded)
	if err != nil {
		return err
	}
	s.dieAt("answered")
	if call.Attempt <= s.options.FailSends {
		return errors.New("the connection broke")
	}
	call.SettleResponse(fairgate.HTTPResponse(response, body))
	return nil
}

func (s *Steps) naive(ctx context.Context, work Work) error {
	info := activity.GetInfo(ctx)
	for {
		response, _, err := send(ctx, work, info.ActivityID, int(info.Attempt), false)
		if err != nil || response.StatusCode == http.StatusOK {
			return err
		}
		wait, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(wait) * time.Second)
	}
}

func (s *Steps) dieAt(point string) {
	if s.options.DieAt == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may take a moment, in which nothing more is done
	}
}

func send(
	ctx context.Context, work Work, requestID string, attempt int, degraded bool,
) (*http.Response, []byte, error) {
	sent, err := json.Marshal(map[string]any{
		"work": work.Work, "tenant": work.Tenant, "priority": work.Priority,
		"request_id": requestID, "attempt": attempt, "degraded": degraded,
	})
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, work.Upstream, bytes.NewReader(sent))
	if err != nil {
		return nil, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, body, err
}
