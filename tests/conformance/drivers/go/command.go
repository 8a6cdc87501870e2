package main

import (
	"encoding/json"
	"time"

	"fairgate.io/go/fairgate"
)

// command is one line of the protocol: ../../README.md.
type command struct {
	Op      string  `json:"op"`
	Address string  `json:"address"`
	Options options `json:"options"`

	question
	ContextDeadlineMS *float64 `json:"context_deadline_ms"`
	MaxWaitMS         any      `json:"max_wait_ms"`
	CancelAfterMS     *float64 `json:"cancel_after_ms"`
	actions           []action

	Count int      `json:"count"`
	Admit *command `json:"admit"`

	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	Body       json.RawMessage   `json:"body"` // of admit: its actions
	Dimensions []string          `json:"dimensions"`
	NowS       *float64          `json:"now_s"`
	Output     int               `json:"output"`
}

type options struct {
	RPCTimeoutMS      float64 `json:"rpc_timeout_ms"`
	FailOpen          *bool   `json:"fail_open"`
	BreakerFailures   *int    `json:"breaker_failures"`
	BreakerCooldownMS float64 `json:"breaker_cooldown_ms"`
	KeepaliveMS       float64 `json:"keepalive_ms"`
}

type question struct {
	Target       string           `json:"target"`
	Tenant       string           `json:"tenant"`
	Priority     string           `json:"priority"`
	Cost         fairgate.Amounts `json:"cost"`
	UpperBound   bool             `json:"upper_bound"`
	RequestID    string           `json:"request_id"`
	Attempt      int              `json:"attempt"`
	DeadlineMS   *float64         `json:"deadline_ms"`
	TimerFloorMS float64          `json:"timer_floor_ms"`
	MaxHoldMS    float64          `json:"max_hold_ms"`
	CheckOnly    bool             `json:"check_only"`
	TellsSent    bool             `json:"tells_sent"`
}

// action is one step of a block.
type action struct {
	Settle *struct {
		Actual       fairgate.Amounts `json:"actual"`
		Outcome      string           `json:"outcome"`
		RetryAfterMS *float64         `json:"retry_after_ms"`
		RateLimits   map[string]struct {
			Remaining *float64 `json:"remaining"`
			ResetMS   *float64 `json:"reset_ms"`
		} `json:"rate_limits"`
	} `json:"settle"`
	Response *struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"response"`
	Extend *struct {
		LeaseTTLMS float64          `json:"lease_ttl_ms"`
		UsedSoFar  fairgate.Amounts `json:"used_so_far"`
	} `json:"extend"`
	Sent    bool    `json:"sent"`
	NotSent bool    `json:"not_sent"`
	Raise   bool    `json:"raise"`
	Cancel  bool    `json:"cancel"`
	SleepMS float64 `json:"sleep_ms"`
}

// UnmarshalJSON reads the actions of an admission out of its body.
func (c *command) UnmarshalJSON(line []byte) error {
	type plain command
	if err := json.Unmarshal(line, (*plain)(c)); err != nil {
		return err
	}
	if (c.Op == "admit" || c.Op == "") && len(c.Body) > 0 {
		return json.Unmarshal(c.Body, &c.actions)
	}
	return nil
}

func (q *question) request() fairgate.Request {
	request := fairgate.Request{
		Target: q.Target, Tenant: q.Tenant, Priority: q.Priority, Cost: q.Cost, UpperBound: q.UpperBound,
		RequestID: q.RequestID, Attempt: q.Attempt, CheckOnly: q.CheckOnly, TellsSent: q.TellsSent,
		TimerFloor: milliseconds(q.TimerFloorMS), MaxHold: milliseconds(q.MaxHoldMS),
	}
	if q.DeadlineMS != nil {
		request.Deadline = time.Now().Add(milliseconds(*q.DeadlineMS))
	}
	return request
}
