import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.fairgate.client.Gate;
import io.fairgate.client.GateOptions;
import io.fairgate.client.temporal.FairgateInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import io.temporal.api.history.v1.History;
import io.temporal.api.workflowservice.v1.GetSystemInfoRequest;
import io.temporal.api.workflowservice.v1.GetSystemInfoResponse;
import io.temporal.api.workflowservice.v1.WorkflowServiceGrpc;
import io.temporal.client.WorkflowClient;
import io.temporal.common.WorkflowExecutionHistory;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.worker.WorkerFactoryOptions;
import io.temporal.worker.WorkerOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * The Java worker: {@code run SERVER QUEUE GATE OPTIONS}, or {@code replay JSON BYTES}, a history in
 * both forms. tests/engines/common.py says what it does.
 */
public final class TemporalWorker {
    private static final Duration RPC_TIMEOUT = Duration.ofSeconds(5);
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);

    private TemporalWorker() {}

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("replay")) {
            replay(History.parseFrom(Files.readAllBytes(Path.of(arguments[2]))));
            return;
        }
        Options options = JSON.readValue(arguments[4], Options.class);
        Gate gate =
                new Gate(arguments[3], GateOptions.builder().rpcTimeout(RPC_TIMEOUT).build());
        WorkerFactory factory = factory(at(arguments[1]), options);
        WorkerOptions workerOptions =
                WorkerOptions.newBuilder()
                        .setMaxConcurrentActivityExecutionSize(options.slots())
                        // For those who wait until a killed one is missed.
                        .setStickyQueueScheduleToStartTimeout(Duration.ofSeconds(1))
                        .build();
        Worker worker = factory.newWorker(arguments[2], workerOptions);
        if (!options.part().equals("steps")) {
            worker.registerWorkflowImplementationTypes(CallsWorkflow.class);
        }
        if (!options.part().equals("workflows")) {
            worker.registerActivitiesImplementations(new StepsActivities(options, gate));
        }
        StepsActivities.warmUp();
        factory.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(factory, gate)));
        System.out.println("ready");
    }

    private static WorkflowServiceStubsOptions.Builder at(String server) {
        return WorkflowServiceStubsOptions.newBuilder().setTarget(server);
    }

    private static WorkerFactory factory(WorkflowServiceStubsOptions.Builder at, Options options) {
        FairgateInterceptor interceptor =
                new FairgateInterceptor()
                        .withTimerFloor(Options.seconds(options.timerFloor()))
                        .withMaxHold(Options.seconds(options.maxHold()));
        return WorkerFactory.newInstance(
                WorkflowClient.newInstance(WorkflowServiceStubs.newServiceStubs(at.build())),
                WorkerFactoryOptions.newBuilder()
                        .setWorkflowCacheSize(1000)
                        .setMaxWorkflowThreadCount(1200)
                        .setWorkerInterceptors(interceptor)
                        .build());
    }

    private static void stop(WorkerFactory factory, Gate gate) {
        factory.shutdown();
        factory.awaitTermination(5, TimeUnit.SECONDS);
        gate.close();
    }

    /** As bytes, because JSON would need one more library. */
    private static void replay(History history) throws Exception {
        Worker worker = factory(nowhere(), Options.NONE).newWorker("replay");
        worker.registerWorkflowImplementationTypes(CallsWorkflow.class);
        worker.replayWorkflowExecution(new WorkflowExecutionHistory(history));
        System.out.println("replayed");
        System.exit(0);
    }

    /** The SDK asks a server what it can, even in a replay: this one can nothing. */
    private static WorkflowServiceStubsOptions.Builder nowhere() throws IOException {
        WorkflowServiceGrpc.WorkflowServiceImplBase service =
                new WorkflowServiceGrpc.WorkflowServiceImplBase() {
                    @Override
                    public void getSystemInfo(
                            GetSystemInfoRequest request,
                            StreamObserver<GetSystemInfoResponse> answer) {
                        answer.onNext(GetSystemInfoResponse.getDefaultInstance());
                        answer.onCompleted();
                    }
                };
        InProcessServerBuilder.forName("nowhere").addService(service).build().start();
        ManagedChannel channel = InProcessChannelBuilder.forName("nowhere").build();
        return WorkflowServiceStubsOptions.newBuilder().setChannel(channel);
    }
}
