// Calls of two tenants through one slot of a Temporal worker: temporal_workflow [SERVER [GATE [TARGET]]].
//
// Who is deferred sleeps in its workflow and gives the slot to whoever may go.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"fairgate.io/go/fairgate"
	"fairgate.io/go/fairgate/temporal"
)

// provider holds what the activity needs.
type provider struct {
	gate   *fairgate.Gate
	target string
}

// Complete gives the tokens that one call used.
func (p *provider) Complete(ctx context.Context, tenant string) (int, error) {
	call, err := temporal.Admit(ctx, p.gate, fairgate.Request{
		Target: p.target, Tenant: tenant, Cost: fairgate.Amounts{"tokens": 900},
	})
	if err != nil {
		return 0, err
	}
	defer call.Close()
	time.Sleep(20 * time.Millisecond) // stands for the external call
	call.Settle(fairgate.Amounts{"tokens": 640})
	return 640, nil
}

// Completions makes so many calls of a tenant, one after the other, and gives the tokens used.
func Completions(ctx workflow.Context, tenant string, calls int) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 30 * time.Second})
	total := 0
	for range calls {
		var used int
		if err := workflow.ExecuteActivity(ctx, "Complete", tenant).Get(ctx, &used); err != nil {
			return total, err
		}
		total += used
	}
	return total, nil
}

func argument(number int, otherwise string) string {
	if len(os.Args) > number {
		return os.Args[number]
	}
	return otherwise
}

func main() {
	server, err := client.Dial(client.Options{HostPort: argument(1, "127.0.0.1:7233")})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	gate, err := fairgate.New(argument(2, fairgate.DefaultAddress), fairgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()

	queue := fmt.Sprintf("completions-%d", time.Now().UnixNano())
	w := worker.New(server, queue, worker.Options{
		MaxConcurrentActivityExecutionSize: 1,
		Interceptors:                       []interceptor.WorkerInterceptor{temporal.NewInterceptor(temporal.Options{})},
	})
	w.RegisterWorkflow(Completions)
	w.RegisterActivity(&provider{gate: gate, target: argument(3, "openai-prod")})
	if err := w.Start(); err != nil {
		log.Fatal(err)
	}
	defer w.Stop()

	began := time.Now()
	var tenants sync.WaitGroup
	for tenant, calls := range map[string]int{"acme": 6, "globex": 2} {
		tenants.Add(1)
		go func() {
			defer tenants.Done()
			options := client.StartWorkflowOptions{ID: queue + "/" + tenant, TaskQueue: queue}
			run, err := server.ExecuteWorkflow(context.Background(), options, Completions, tenant, calls)
			var used int
			if err == nil {
				err = run.Get(context.Background(), &used)
			}
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%s: %d calls, %d tokens, %.1f s\n", tenant, calls, used, time.Since(began).Seconds())
		}()
	}
	tenants.Wait()
}
