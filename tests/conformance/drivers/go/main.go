// The Go client's driver. Cancellation is that of the caller's context.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"

	"fairgate.io/go/fairgate"
)

var errApplication = errors.New("the block's own error")

// object is JSON.
type object = map[string]any

type program struct {
	gate *fairgate.Gate

	mu     sync.Mutex
	events []object
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<22)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	var running program
	for lines.Scan() {
		var asked command
		answer, err := object(nil), json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			answer, err = running.do(&asked)
		}
		if err != nil {
			answer = object{"driver_error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			panic(err)
		}
	}
}

func (p *program) do(asked *command) (object, error) {
	switch asked.Op {
	case "hello":
		return object{"client": "go", "version": fairgate.Version}, nil
	case "open":
		return object{}, p.open(asked)
	case "admit":
		return p.admit(asked), nil
	case "burst":
		return p.burst(asked), nil
	case "withdraw":
		report, err := p.gate.Withdraw(context.Background(), asked.Target, asked.RequestID, asked.Attempt)
		var refused *fairgate.GateError
		if errors.As(err, &refused) {
			return object{"code": codeName(refused.Code)}, nil
		}
		return object{"released": report.Result.String()}, err
	case "counters":
		told := p.gate.Counters()
		return object{
			"granted": told.Granted, "deferred": told.Deferred, "rejected": told.Rejected, "failed_open": told.FailedOpen,
			"errors": told.Errors, "breaker_skips": told.BreakerSkips, "releases_lost": told.ReleasesLost,
		}, nil
	case "events":
		p.mu.Lock()
		defer p.mu.Unlock()
		events := p.events
		p.events = nil
		return object{"events": events}, nil
	case "settlement":
		return settlement(asked)
	case "estimate":
		return object{"tokens": fairgate.Estimator{Output: asked.Output}.Tokens(asked.Body)}, nil
	case "close":
		return object{}, p.gate.Close()
	default:
		return nil, fmt.Errorf("unknown op %q", asked.Op)
	}
}

func (p *program) open(asked *command) (err error) {
	p.mu.Lock()
	p.events = nil
	p.mu.Unlock()
	options := fairgate.Options{
		RPCTimeout:      milliseconds(asked.Options.RPCTimeoutMS),
		FailClosed:      asked.Options.FailOpen != nil && !*asked.Options.FailOpen,
		BreakerCooldown: milliseconds(asked.Options.BreakerCooldownMS),
		Keepalive:       milliseconds(asked.Options.KeepaliveMS),
		OnAdmit: func(event fairgate.AdmitEvent) {
			p.saw(object{
				"event": "admit", "outcome": strings.ToUpper(string(event.Outcome)), "degraded": event.Degraded,
				"target": event.Target, "tenant": event.Tenant, "priority": event.Priority, "duration_ms": inMS(event.Duration),
			})
		},
		OnRelease: func(event fairgate.ReleaseEvent) {
			p.saw(object{"event": "release", "outcome": event.Outcome, "result": event.Result, "target": event.Target})
		},
		OnBreaker: func(event fairgate.BreakerEvent) { p.saw(object{"event": "breaker", "open": event.Open}) },
	}
	if failures := asked.Options.BreakerFailures; failures != nil {
		options.BreakerFailures = *failures
		if *failures == 0 {
			options.BreakerFailures = -1
		}
	}
	if p.gate != nil {
		p.gate.Close() // of a case that did not
	}
	p.gate, err = fairgate.New(asked.Address, options)
	return err
}

func (p *program) saw(event object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, event)
}

func (p *program) burst(asked *command) object {
	outcomes, slowest := map[string]int{}, 0.0
	var done sync.WaitGroup
	var mu sync.Mutex
	for range asked.Count {
		done.Add(1)
		go func() {
			defer done.Done()
			answer := p.admit(asked.Admit)
			mu.Lock()
			defer mu.Unlock()
			outcomes[answer["outcome"].(string)]++
			slowest = max(slowest, answer["elapsed_ms"].(float64))
		}()
	}
	done.Wait()
	return object{"outcomes": outcomes, "elapsed_ms_max": slowest}
}

func (p *program) admit(asked *command) object {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if asked.ContextDeadlineMS != nil {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, milliseconds(*asked.ContextDeadlineMS))
		defer end()
	}
	if asked.CancelAfterMS != nil {
		defer time.AfterFunc(milliseconds(*asked.CancelAfterMS), cancel).Stop()
	}
	began := time.Now()
	call, err := p.ask(ctx, asked)
	elapsed := inMS(time.Since(began))
	if err != nil {
		answer := refusal(err)
		answer["elapsed_ms"] = elapsed
		return answer
	}
	answer := granted(call)
	answer["elapsed_ms"] = elapsed
	inBlock(ctx, cancel, call, asked.actions, answer)
	if report := call.Report(); report != nil {
		answer["released"], answer["refunded"] = report.Result.String(), report.Refunded
	}
	return answer
}

func (p *program) ask(ctx context.Context, asked *command) (*fairgate.Call, error) {
	switch wait := asked.MaxWaitMS.(type) {
	case string: // "forever"
		return p.gate.AdmitWait(ctx, asked.request(), fairgate.Forever)
	case float64:
		return p.gate.AdmitWait(ctx, asked.request(), milliseconds(wait))
	default:
		return p.gate.Admit(ctx, asked.request())
	}
}

// inBlock does what the block does, and leaves it.
func inBlock(ctx context.Context, cancel func(), call *fairgate.Call, actions []action, answer object) {
	defer call.Close()
	for _, next := range actions {
		switch err := act(ctx, cancel, call, next, answer); {
		case errors.Is(err, errApplication):
			answer["ended_by"] = "application"
			call.Failed(err)
			return
		case errors.Is(err, context.Canceled):
			answer["ended_by"] = "cancelled"
			call.Failed(err)
			return
		case err != nil:
			answer["driver_error"] = err.Error()
			return
		}
	}
}

func act(ctx context.Context, cancel func(), call *fairgate.Call, do action, answer object) error {
	switch {
	case do.Settle != nil:
		outcome, err := outcomeOf(do.Settle.Outcome)
		if err != nil {
			return err
		}
		said := fairgate.Settlement{Outcome: outcome, Actual: do.Settle.Actual}
		if do.Settle.RetryAfterMS != nil {
			wait := milliseconds(*do.Settle.RetryAfterMS)
			said.RetryAfter = &wait
		}
		said.RateLimits = map[string]fairgate.RateLimitStatus{}
		for name, status := range do.Settle.RateLimits {
			told := fairgate.RateLimitStatus{Remaining: status.Remaining}
			if status.ResetMS != nil {
				reset := milliseconds(*status.ResetMS)
				told.Reset = &reset
			}
			said.RateLimits[name] = told
		}
		call.SettleAs(said)
	case do.Response != nil:
		call.SettleResponse(response(do.Response.Status, do.Response.Headers, do.Response.Body))
	case do.Sent:
		call.Sent()
	case do.NotSent:
		call.NotSent()
	case do.Raise:
		return errApplication
	case do.Cancel:
		cancel()
		return ctx.Err()
	case do.Extend != nil:
		life, err := call.Extend(ctx, milliseconds(do.Extend.LeaseTTLMS), do.Extend.UsedSoFar)
		answer["extended_ms"] = inMS(life)
		return err
	case do.SleepMS > 0:
		select {
		case <-time.After(milliseconds(do.SleepMS)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func granted(call *fairgate.Call) object {
	outcome := "GRANTED"
	if call.FailedOpen {
		outcome = "FAILED_OPEN"
	}
	return object{
		"outcome": outcome, "request_id": call.RequestID, "attempt": call.Attempt, "degraded": call.Degraded,
		"debited": call.Debited, "lease_expires_in_ms": inMS(call.LeaseExpiresIn), "repeated": call.Repeated,
	}
}

func refusal(err error) object {
	var deferred *fairgate.Deferred
	var rejected *fairgate.Rejected
	var refused *fairgate.GateError
	switch {
	case errors.As(err, &deferred):
		limits := []object{}
		for _, limit := range deferred.LimitedBy {
			limits = append(limits, object{"layer": limit.Layer, "dimension": limit.Dimension})
		}
		return object{
			"outcome": "DEFERRED", "request_id": deferred.RequestID, "attempt": deferred.Attempt, "degraded": deferred.Degraded,
			"delay_ms": inMS(deferred.Delay), "projected_wait_ms": inMS(deferred.ProjectedWait), "place": deferred.Place,
			"limited_by": limits,
		}
	case errors.As(err, &rejected):
		answer := object{
			"outcome": "REJECTED", "request_id": rejected.RequestID, "attempt": rejected.Attempt, "degraded": rejected.Degraded,
			"reason": rejected.Reason.String(), "message": rejected.Message, "dimension": rejected.Dimension,
		}
		if rejected.Earliest > 0 {
			answer["earliest_ms"] = inMS(rejected.Earliest)
		}
		return answer
	case errors.As(err, &refused):
		fields := []object{}
		for _, field := range refused.Fields {
			fields = append(fields, object{"field": field.Field, "description": field.Description})
		}
		return object{"outcome": "ERROR", "code": codeName(refused.Code), "message": refused.Message, "fields": fields}
	case errors.Is(err, context.Canceled):
		return object{"outcome": "CANCELLED", "ended_by": "cancelled"}
	default:
		return object{"driver_error": err.Error(), "outcome": "none"}
	}
}

func settlement(asked *command) (object, error) {
	dimensions := map[string]fairgate.Usage{}
	if asked.Dimensions == nil {
		asked.Dimensions = []string{"tokens"}
	}
	for _, name := range asked.Dimensions {
		dimensions[name] = fairgate.DefaultUsage[name]
	}
	now := time.Now()
	if asked.NowS != nil {
		now = time.UnixMilli(int64(*asked.NowS * 1000))
	}
	settled := response(asked.Status, asked.Headers, asked.Body).Settlement(dimensions, now)
	outcome := settled.Outcome.String()
	if settled.Outcome == fairgate.Unknown {
		outcome = "UNKNOWN"
	}
	limits := object{}
	for name, status := range settled.RateLimits {
		told := object{"remaining": status.Remaining}
		if status.Reset != nil {
			told["reset_ms"] = inMS(*status.Reset)
		}
		limits[name] = told
	}
	answer := object{"outcome": outcome, "actual": settled.Actual, "rate_limits": limits}
	if settled.RetryAfter != nil {
		answer["retry_after_ms"] = inMS(*settled.RetryAfter)
	}
	return answer, nil
}

func response(status int, headers map[string]string, body json.RawMessage) fairgate.Response {
	header := http.Header{}
	for name, value := range headers {
		header.Set(name, value)
	}
	return fairgate.Response{Status: status, Header: header, Body: body}
}

func outcomeOf(name string) (fairgate.CallOutcome, error) {
	if name == "" {
		return fairgate.OK, nil
	}
	for outcome := fairgate.Unknown; outcome <= fairgate.NotSent; outcome++ {
		if outcome.String() == name || (outcome == fairgate.Unknown && name == "UNKNOWN") {
			return outcome, nil
		}
	}
	return fairgate.Unknown, fmt.Errorf("unknown outcome %q", name)
}

// codeName turns InvalidArgument into INVALID_ARGUMENT.
func codeName(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	var name strings.Builder
	for at, letter := range code.String() {
		if at > 0 && unicode.IsUpper(letter) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(letter))
	}
	return name.String()
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func inMS(duration time.Duration) float64 { return float64(duration) / float64(time.Millisecond) }
