// The Go worker: `temporal_go run SERVER QUEUE GATE OPTIONS`, or `replay HISTORY`. tests/engines/common.py says what it does.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairgate.io/go/fairgate"
	fgtemporal "fairgate.io/go/fairgate/temporal"
)

const rpcTimeout = 5 * time.Second

// options are WorkerOptions of common.py.
type options struct {
	Slots      int     `json:"slots"`
	Part       string  `json:"part"`
	Mode       string  `json:"mode"`
	DieAt      string  `json:"die_at"`
	FailSends  int     `json:"fail_sends"`
	TimerFloor float64 `json:"timer_floor_s"`
	MaxHold    float64 `json:"max_hold_s"`
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }

func main() {
	if os.Args[1] == "replay" {
		replay(os.Args[2])
		return
	}
	var options options
	if err := json.Unmarshal([]byte(os.Args[5]), &options); err != nil {
		log.Fatal(err)
	}
	run(os.Args[2], os.Args[3], os.Args[4], options)
}

func run(server, queue, gateAddress string, options options) {
	temporal, err := client.Dial(client.Options{HostPort: server, Logger: sdklog.NewStructuredLogger(slog.New(
		slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}),
	))})
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	gate, err := fairgate.New(gateAddress, fairgate.Options{RPCTimeout: rpcTimeout})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()

	worker.SetStickyWorkflowCacheSize(2000)
	w := worker.New(temporal, queue, worker.Options{
		MaxConcurrentActivityExecutionSize: options.Slots,
		StickyScheduleToStartTimeout:       time.Second, // for those who wait until a killed one is missed
		Interceptors:                       interceptors(options),
		DisableWorkflowWorker:              options.Part == "steps",
		LocalActivityWorkerOnly:            options.Part == "workflows",
	})
	if options.Part != "steps" {
		w.RegisterWorkflowWithOptions(Calls, workflow.RegisterOptions{Name: "Calls"})
	}
	steps := &Steps{options: options, gate: gate}
	w.RegisterActivityWithOptions(steps.Call, activity.RegisterOptions{Name: "call"})
	if err := w.Start(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	w.Stop()
}

func interceptors(options options) []interceptor.WorkerInterceptor {
	floor := seconds(options.TimerFloor)
	if floor == 0 {
		floor = -1
	}
	return []interceptor.WorkerInterceptor{
		fgtemporal.NewInterceptor(fgtemporal.Options{TimerFloor: floor, MaxHold: seconds(options.MaxHold)}),
	}
}

func replay(history string) {
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{Interceptors: interceptors(options{})})
	if err != nil {
		log.Fatal(err)
	}
	replayer.RegisterWorkflowWithOptions(Calls, workflow.RegisterOptions{Name: "Calls"})
	if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, history); err != nil {
		log.Fatal(err)
	}
	fmt.Println("replayed")
}
