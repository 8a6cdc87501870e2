package io.fairgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class GateTest {
    private static final Question QUESTION = Question.builder("t", "a").tokens(900).build();

    private FakeGate fake;
    private Gate gate;

    @BeforeEach
    void start() throws IOException {
        fake = new FakeGate();
        gate = fake.connect();
    }

    @AfterEach
    void stop() {
        gate.close();
        fake.close();
    }

    @Test
    void aDeferIsAnExceptionAndAValue() {
        fake.answering(asked -> FakeGate.deferring(asked, Duration.ofSeconds(7)));
        Deferred deferred = assertThrows(Deferred.class, () -> gate.admit(QUESTION));
        assertEquals(Duration.ofSeconds(7), deferred.delay());
        assertEquals(32, deferred.requestId().length());
        assertEquals(1, deferred.attempt());
        assertInstanceOf(Deferred.class, gate.tryAdmit(QUESTION));
        assertEquals(2, gate.counters().deferred());
    }

    @Test
    void statusesAreTypedExceptions() {
        fake.answers = (asked, to) -> to.onError(Status.NOT_FOUND.asException());
        assertThrows(GateException.UnknownTarget.class, () -> gate.admit(QUESTION));
        fake.answers = (asked, to) -> to.onError(Status.INVALID_ARGUMENT.asException());
        assertThrows(GateException.BadRequest.class, () -> gate.admit(QUESTION));
        fake.answers =
                (asked, to) -> to.onError(Status.INTERNAL.withDescription("?").asException());
        GateException error = assertThrows(GateException.class, () -> gate.admit(QUESTION));
        assertEquals(Status.Code.INTERNAL, error.code());
        assertTrue(
                List.of(error.getStackTrace()).toString().contains("GateTest"),
                "the caller's stack");
        assertThrows(
                IllegalArgumentException.class, () -> QUESTION.toBuilder().attempt(-1).build());
    }

    @Test
    void whoIsNotThereIsNoErrorUnlessAskedFor() throws IOException {
        int port;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = socket.getLocalPort();
        }
        GateOptions closed = GateOptions.builder().failOpen(false).build();
        try (Gate nobody = new Gate("127.0.0.1:" + port, closed)) {
            assertThrows(GateException.Unreachable.class, () -> nobody.admit(QUESTION));
        }
        try (Gate nobody = new Gate("127.0.0.1:" + port);
                Call call = nobody.admit(QUESTION)) {
            assertTrue(call.failedOpen() && call.degraded());
        }
    }

    @Test
    void whoAcceptsAndSaysNothingCostsOneConnectTimeoutAndThenTheQuestionsOwn() throws IOException {
        GateOptions options =
                GateOptions.builder()
                        .connectTimeout(Duration.ofMillis(50))
                        .rpcTimeout(Duration.ofMillis(50))
                        .build();
        long began = System.nanoTime();
        try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
                Gate hole = new Gate("127.0.0.1:" + silent.getLocalPort(), options);
                Call call = hole.admit(QUESTION)) {
            assertTrue(call.failedOpen());
            assertTrue(System.nanoTime() - began >= TimeUnit.MILLISECONDS.toNanos(100));
        }
    }

    @Test
    void aContextsDeadlineIsARejectAndWithdraws() throws Exception {
        fake.answers = (asked, to) -> {}; // thinks for ever
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
        try (Context.CancellableContext context =
                Context.current().withDeadlineAfter(200, TimeUnit.MILLISECONDS, timer)) {
            Answer answer = context.call(() -> gate.tryAdmit(QUESTION));
            Rejected rejected = assertInstanceOf(Rejected.class, answer);
            assertEquals(RejectReason.DEADLINE_UNREACHABLE, rejected.reason());
            assertTrue(rejected.degraded());
        } finally {
            timer.shutdownNow();
        }
        assertEquals(0, gate.counters().failedOpen());
        gate.close(); // waits for the withdrawal
        assertTrue(fake.releases.get(0).hasWithdraw());
    }

    @Test
    void aCancelledContextIsNotAsked() {
        Context.CancellableContext context = Context.current().withCancellation();
        Exception why = new Exception("shutting down");
        context.cancel(why);
        CancellationException cancelled =
                assertThrows(
                        CancellationException.class,
                        () -> context.call(() -> gate.admit(QUESTION)));
        assertSame(why, cancelled.getCause());
        assertEquals(List.of(), fake.admits);
    }

    @Test
    void aContextThatIsCancelledMeanwhileWithdraws() {
        Context.CancellableContext context = Context.current().withCancellation();
        fake.answers = (asked, to) -> context.cancel(null);
        assertThrows(CancellationException.class, () -> context.call(() -> gate.admit(QUESTION)));
        gate.close();
        assertTrue(fake.releases.get(0).hasWithdraw());
        assertEquals(0, gate.counters().errors());
    }

    @Test
    void anInterruptedThreadDoesNotAskAndStaysInterrupted() {
        Thread.currentThread().interrupt();
        assertThrows(CancellationException.class, () -> gate.admit(QUESTION));
        assertTrue(Thread.interrupted());
        assertEquals(List.of(), fake.admits);
    }

    @Test
    void waitingKeepsItsPlace() {
        fake.answering(
                asked ->
                        fake.admits.size() < 3
                                ? FakeGate.deferring(asked, Duration.ofMillis(1))
                                : FakeGate.granting(asked));
        gate.admitWait(QUESTION, Gate.FOREVER).close();
        assertEquals(3, fake.admits.size());
        assertEquals(fake.admits.get(0).getRequestId(), fake.admits.get(2).getRequestId());
    }

    @Test
    void waitingEndsWithTheContext() {
        Context.CancellableContext context = Context.current().withCancellation();
        fake.answering(asked -> FakeGate.deferring(asked, Duration.ofHours(1)));
        GateOptions.Builder options = GateOptions.builder().onEvent(event -> context.cancel(null));
        try (Gate cancelling = fake.connect(options)) {
            assertThrows(
                    CancellationException.class,
                    () -> context.call(() -> cancelling.admitWait(QUESTION, Gate.FOREVER)));
        }
        assertTrue(fake.releases.get(0).hasWithdraw());
    }

    @Test
    void waitingEndsWithTheContextsDeadline() throws Exception {
        fake.answering(asked -> FakeGate.deferring(asked, Duration.ofHours(1)));
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
        try (Context.CancellableContext context =
                Context.current().withDeadlineAfter(500, TimeUnit.MILLISECONDS, timer)) {
            Answer answer = context.call(() -> gate.tryAdmitWait(QUESTION, Gate.FOREVER));
            assertInstanceOf(Rejected.class, answer);
        } finally {
            timer.shutdownNow();
        }
    }

    @Test
    void aHookThatThrowsHarmsNobody() {
        GateOptions.Builder options =
                GateOptions.builder()
                        .onEvent(
                                event -> {
                                    throw new IllegalStateException("the hook's own");
                                });
        try (Gate hooked = fake.connect(options);
                Call call = hooked.admit(QUESTION)) {
            assertFalse(call.failedOpen());
        }
        assertEquals(1, fake.releases.size());
    }

    @Test
    void anInterceptorThatThrowsIsAnErrorAndNoPermission() {
        ClientInterceptor failing =
                new ClientInterceptor() {
                    @Override
                    public <Q, R> ClientCall<Q, R> interceptCall(
                            MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
                        throw new IllegalStateException("the interceptor's own");
                    }
                };
        GateOptions.Builder options =
                GateOptions.builder().channel(builder -> builder.intercept(failing));
        try (Gate failingGate = fake.connect(options)) {
            GateException error =
                    assertThrows(GateException.class, () -> failingGate.admit(QUESTION));
            assertEquals(Status.Code.UNKNOWN, error.code());
        }
    }

    @Test
    void aClosedGateIsNoPermission() {
        gate.close();
        gate.close();
        assertThrows(IllegalStateException.class, () -> gate.admit(QUESTION));
    }

    @Test
    void manyAtOnce() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        List<Future<?>> all = new ArrayList<>();
        for (int n = 0; n < 200; n++) {
            all.add(
                    threads.submit(
                            () -> {
                                try (Call call = gate.admit(QUESTION)) {
                                    call.settle("tokens", 1);
                                }
                            }));
        }
        for (Future<?> one : all) {
            one.get();
        }
        threads.shutdownNow();
        assertEquals(200, gate.counters().granted());
        assertEquals(200, fake.releases.size());
    }

    @Test
    void aGrantThatCrossesAnInterruptIsTaken() throws Exception {
        CompletableFuture<Thread> asking = new CompletableFuture<>();
        fake.answers =
                (asked, to) -> {
                    asking.join().interrupt();
                    FakeGate.reply(to, FakeGate.granting(asked));
                };
        asking.complete(Thread.currentThread());
        try (Call call = gate.admit(QUESTION)) {
            assertEquals(Map.of("tokens", 900.0), call.debited());
        } catch (CancellationException cancelled) {
            gate.close();
        }
        assertTrue(Thread.interrupted());
        assertEquals(1, fake.releases.size()); // a settlement or a withdrawal, never nothing
    }
}
