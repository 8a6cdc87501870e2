package io.fairgate.client;

import io.fairgate.client.GateEvent.AdmitOutcome;
import io.fairgate.v1.AdmissionServiceGrpc;
import io.fairgate.v1.AdmitRequest;
import io.fairgate.v1.AdmitResponse;
import io.fairgate.v1.ReleaseRequest;
import io.fairgate.v1.ReleaseResponse;
import io.grpc.Context;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Asks and releases, and decides what answers mean. Safe for threads. */
final class Core {
    // The gate holds no longer, whatever is asked.
    private static final Duration MAX_HOLD_MAX = Duration.ofHours(1);
    private static final System.Logger LOG = System.getLogger("io.fairgate.client");

    final GateOptions options;
    final Health health;
    private final Connection connection;
    private final Set<CompletableFuture<?>> background = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Core(String address, GateOptions options) {
        this.options = options;
        health = new Health(options);
        connection = new Connection(address, options);
        if (!options.connectTimeout.isZero()) {
            Rehearsal.run(connection, Values.nanos(options.connectTimeout));
        }
    }

    void close() {
        closed = true;
        CompletableFuture.allOf(background.toArray(CompletableFuture[]::new)).join();
        connection.close();
    }

    // Questions

    /** Throws GateException, and CancellationException. */
    Answer ask(Question question, Optional<Deadline> due) {
        if (Thread.currentThread().isInterrupted() || Exchange.isCancelled(Context.current())) {
            throw cancellation();
        }
        if (closed) {
            throw new IllegalStateException("the gate object is closed");
        }
        final long beganNanos = System.nanoTime();
        AdmitRequest.Builder asked = Wire.admitRequest(question);
        long leftNanos = due.map(d -> d.timeRemaining(TimeUnit.NANOSECONDS)).orElse(Long.MAX_VALUE);
        if (due.isPresent()) {
            asked.setDeadline(Wire.toProto(Duration.ofNanos(leftNanos)));
        }
        AdmitRequest request = asked.build();
        if (leftNanos <= 0) {
            return noted(
                    question, beganNanos, () -> late(request, "the deadline had passed", false));
        }
        long budgetNanos = Values.nanos(options.rpcTimeout) + holdNanos(question);
        Exchange<AdmitRequest, AdmitResponse> exchange =
                new Exchange<>(
                        connection,
                        health,
                        AdmissionServiceGrpc.getAdmitMethod(),
                        request,
                        Context.current(),
                        beganNanos + Math.min(budgetNanos, leftNanos),
                        leftNanos < budgetNanos);
        Exchange.Result<AdmitResponse> result = interruptibly(exchange);
        return noted(question, beganNanos, () -> conclude(question, request, result));
    }

    private static long holdNanos(Question question) {
        long hold = Values.nanos(question.maxHold());
        return Math.min(Math.max(hold, 0), MAX_HOLD_MAX.toNanos());
    }

    /** The thread's interrupt cancels the exchange, and stays. */
    private static <R> Exchange.Result<R> interruptibly(Exchange<?, R> exchange) {
        CompletableFuture<Exchange.Result<R>> done = exchange.run();
        try {
            return done.get();
        } catch (InterruptedException interrupt) {
            exchange.cancel();
            Exchange.Result<R> result = done.join();
            Thread.currentThread().interrupt();
            return result;
        } catch (ExecutionException never) {
            throw new IllegalStateException(never);
        }
    }

    private Answer conclude(
            Question question, AdmitRequest request, Exchange.Result<AdmitResponse> result) {
        if (result.response != null) {
            Object outcome = Wire.admitOutcome(result.response);
            return outcome instanceof Wire.Granted granted
                    ? new Call(this, question, granted, false)
                    : (Answer) outcome;
        }
        if (result.refusal != null) {
            throw here(result.refusal);
        }
        boolean maybeLeased = result.maybeDecided && !question.checkOnly();
        if (maybeLeased && (result.cancelled || result.ranOutOfTime)) {
            releaseLater(
                    Wire.withdraw(
                            request.getTarget(), request.getRequestId(), request.getAttempt()));
        }
        if (result.cancelled) {
            throw cancellation();
        }
        if (result.ranOutOfTime) {
            // The caller's time ran out, which is no sign that the gate is away and no reason to
            // call.
            return late(request, "the deadline passed before the gate answered", true);
        }
        if (!options.failOpen) {
            throw new GateException.Unreachable();
        }
        Wire.Granted without =
                Wire.Granted.failedOpen(request.getRequestId(), request.getAttempt());
        return new Call(this, question, without, maybeLeased);
    }

    private static Rejected late(AdmitRequest request, String explanation, boolean degraded) {
        return Rejected.late(request.getRequestId(), request.getAttempt(), explanation, degraded);
    }

    static CancellationException cancellation() {
        CancellationException cancelled = new CancellationException("cancelled");
        cancelled.initCause(Context.current().cancellationCause());
        return cancelled;
    }

    /** It was made in a thread of the transport; the caller's stack says more. */
    private static GateException here(GateException refusal) {
        refusal.fillInStackTrace();
        return refusal;
    }

    /** Counts an answer and calls the hook; a cancellation is none. */
    private Answer noted(Question question, long beganNanos, Supplier<Answer> conclusion) {
        Answer answer;
        try {
            answer = conclusion.get();
        } catch (GateException error) {
            note(question, beganNanos, AdmitOutcome.ERROR, false, Duration.ZERO);
            throw error;
        }
        if (answer instanceof Call call) {
            AdmitOutcome outcome =
                    call.failedOpen() ? AdmitOutcome.FAILED_OPEN : AdmitOutcome.GRANTED;
            note(question, beganNanos, outcome, call.degraded(), Duration.ZERO);
        } else if (answer instanceof Deferred deferred) {
            note(question, beganNanos, AdmitOutcome.DEFERRED, answer.degraded(), deferred.delay());
        } else {
            note(question, beganNanos, AdmitOutcome.REJECTED, answer.degraded(), Duration.ZERO);
        }
        return answer;
    }

    private void note(
            Question question,
            long beganNanos,
            AdmitOutcome outcome,
            boolean degraded,
            Duration delay) {
        Duration duration = Duration.ofNanos(System.nanoTime() - beganNanos);
        health.admitted(
                new GateEvent.Admit(
                        question.target(),
                        question.tenant(),
                        question.priority(),
                        outcome,
                        degraded,
                        duration,
                        delay));
    }

    // Releases: they go out whatever becomes of the caller.

    /**
     * Throws GateException. maybeLeased: nobody knows whether there is a lease: that it is lost is
     * nobody's loss.
     */
    ReleaseReport release(ReleaseRequest request, boolean maybeLeased) {
        long beganNanos = System.nanoTime();
        Exchange.Result<ReleaseResponse> result = releasing(request).run().join();
        released(request, result, beganNanos, maybeLeased);
        if (result.response == null) {
            throw result.refusal == null ? new GateException.Unreachable() : here(result.refusal);
        }
        return Wire.releaseReport(result.response);
    }

    /** What may be at the gate; that it is lost is nobody's loss, and nobody but close() waits. */
    void releaseLater(ReleaseRequest request) {
        long beganNanos = System.nanoTime();
        CompletableFuture<Exchange.Result<ReleaseResponse>> done = releasing(request).run();
        background.add(done);
        done.thenAccept(
                result -> {
                    background.remove(done);
                    released(request, result, beganNanos, true);
                });
    }

    /** Counts what is lost and calls the hook. */
    private void released(
            ReleaseRequest request,
            Exchange.Result<ReleaseResponse> result,
            long beganNanos,
            boolean maybeLeased) {
        String came;
        if (result.response != null) {
            came = Wire.releaseReport(result.response).result().name();
        } else if (maybeLeased) {
            LOG.log(System.Logger.Level.DEBUG, "release of {0}: lost", request.getRequestId());
            return;
        } else {
            health.releaseLost();
            came = result.refusal == null ? "LOST" : "ERROR";
        }
        Duration duration = Duration.ofNanos(System.nanoTime() - beganNanos);
        health.released(
                new GateEvent.Release(request.getTarget(), Wire.saidBy(request), came, duration));
    }

    private Exchange<ReleaseRequest, ReleaseResponse> releasing(ReleaseRequest request) {
        return new Exchange<>(
                connection,
                health,
                AdmissionServiceGrpc.getReleaseMethod(),
                request,
                Context.current().fork(), // with its values and without its end
                System.nanoTime() + Values.nanos(options.rpcTimeout),
                false);
    }
}
