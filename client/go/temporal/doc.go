// Package temporal is for Temporal workers: an activity that is deferred ends at once and gives its slot back, and the
// workflow sleeps on a durable timer until its turn.
//
//	worker.New(client, "calls", worker.Options{
//		Interceptors: []interceptor.WorkerInterceptor{temporal.NewInterceptor(temporal.Options{})},
//	})
//
//	func Complete(ctx context.Context, prompt string) (string, error) {
//		call, err := temporal.Admit(ctx, gate, fairgate.Request{Target: "openai", Tenant: "acme"})
//		if err != nil {
//			return "", err
//		}
//		defer call.Close()
//		…
//	}
//
// A deferred activity fails with an error of its own type that no retry policy retries. The workflow's side of the
// interceptor sees it, sleeps, and schedules the activity again; the workflow's code sees only the end. Workers of
// workflows and workers of activities both need the interceptor; they may be written in different languages, because what
// is passed between them is the same in all: DeferredType with one detail, and the header Header.
package temporal
