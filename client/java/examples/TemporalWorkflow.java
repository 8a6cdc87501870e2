import static io.fairgate.client.temporal.FairgateInterceptor.ofActivity;

import io.fairgate.client.Call;
import io.fairgate.client.Gate;
import io.fairgate.client.Question;
import io.fairgate.client.temporal.FairgateInterceptor;
import io.temporal.activity.Activity;
import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.worker.WorkerFactoryOptions;
import io.temporal.worker.WorkerOptions;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Calls of two tenants through one slot of a Temporal worker: [SERVER [GATE [TARGET]]].
 *
 * <p>Who is deferred sleeps in its workflow and gives the slot to whoever may go.
 */
public final class TemporalWorkflow {
    private TemporalWorkflow() {}

    /** The activity. */
    @ActivityInterface
    public interface Provider {
        /** Makes one call, and gives the tokens that it used. */
        int complete(String tenant);
    }

    /** The workflow, which knows nothing of the gate. */
    @WorkflowInterface
    public interface Completions {
        /** Makes so many calls, one after the other, and gives the tokens used. */
        @WorkflowMethod
        int run(String tenant, int calls);
    }

    private record GatedProvider(Gate gate, String target) implements Provider {
        @Override
        public int complete(String tenant) {
            Question question = Question.builder(target, tenant).tokens(900).build();
            try (Call call = gate.admit(ofActivity(question))) {
                Thread.sleep(20); // stands for the external call
                call.settle("tokens", 640);
                return 640;
            } catch (InterruptedException error) {
                throw Activity.wrap(error);
            }
        }
    }

    /** Its code. */
    public static final class CompletionsWorkflow implements Completions {
        private final Provider provider =
                Workflow.newActivityStub(
                        Provider.class,
                        ActivityOptions.newBuilder()
                                .setStartToCloseTimeout(Duration.ofSeconds(30))
                                .build());

        @Override
        public int run(String tenant, int calls) {
            int total = 0;
            for (int number = 0; number < calls; number++) {
                total += provider.complete(tenant);
            }
            return total;
        }
    }

    public static void main(String[] arguments) {
        String server = arguments.length > 0 ? arguments[0] : "127.0.0.1:7233";
        String address = arguments.length > 1 ? arguments[1] : Gate.DEFAULT_ADDRESS;
        String target = arguments.length > 2 ? arguments[2] : "openai-prod";
        String queue = "completions-" + System.currentTimeMillis();
        WorkflowServiceStubs service =
                WorkflowServiceStubs.newServiceStubs(
                        WorkflowServiceStubsOptions.newBuilder().setTarget(server).build());
        WorkflowClient client = WorkflowClient.newInstance(service);
        WorkerFactory factory =
                WorkerFactory.newInstance(
                        client,
                        WorkerFactoryOptions.newBuilder()
                                .setWorkerInterceptors(new FairgateInterceptor())
                                .build());
        try (Gate gate = new Gate(address)) {
            Worker worker =
                    factory.newWorker(
                            queue,
                            WorkerOptions.newBuilder()
                                    .setMaxConcurrentActivityExecutionSize(1)
                                    .build());
            worker.registerWorkflowImplementationTypes(CompletionsWorkflow.class);
            worker.registerActivitiesImplementations(new GatedProvider(gate, target));
            factory.start();
            CompletableFuture.allOf(
                            Map.of("acme", 6, "globex", 2).entrySet().stream()
                                    .map(of -> started(client, queue, of.getKey(), of.getValue()))
                                    .toArray(CompletableFuture[]::new))
                    .join();
            factory.shutdownNow();
        }
        service.shutdownNow();
    }

    private static CompletableFuture<Void> started(
            WorkflowClient client, String queue, String tenant, int calls) {
        WorkflowOptions options =
                WorkflowOptions.newBuilder()
                        .setTaskQueue(queue)
                        .setWorkflowId(queue + "/" + tenant)
                        .build();
        Completions completions = client.newWorkflowStub(Completions.class, options);
        long beganMs = System.currentTimeMillis();
        return WorkflowClient.execute(completions::run, tenant, calls)
                .thenAccept(
                        used -> {
                            double seconds = (System.currentTimeMillis() - beganMs) / 1000.0;
                            System.out.printf(
                                    "%s: %d calls, %d tokens, %.1f s%n",
                                    tenant, calls, used, seconds);
                        });
    }
}
