package io.fairgate.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Grpc;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One question or release, with its second try. */
final class Exchange<Q, R> {
    /** What came of it. All of it unset: the breaker did not allow it, or nobody answered. */
    static final class Result<R> {
        /** The answer. */
        R response;

        /** The gate's own refusal. */
        GateException refusal;

        boolean cancelled;

        /** Unanswered, but the gate may have been asked. */
        boolean maybeDecided;

        /** The caller's own time ended before the gate answered. */
        boolean ranOutOfTime;
    }

    // A connection that broke is worth a second try on a fresh one; both carry the same ids, so
    // that the gate decides once.
    private static final int TRIES_MAX = 2;
    // The channel may notice a moment later than the call that its connection is gone: until then
    // it sends the next one into the same grave. At random, so that not all who lost it come back
    // at once.
    private static final long PAUSE_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long PAUSE_MAX_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final Connection connection;
    private final Health health;
    private final MethodDescriptor<Q, R> method;
    private final Q request;
    private final Context context;
    private final long untilNanos;
    private final boolean hurried;
    private final CompletableFuture<Result<R>> done = new CompletableFuture<>();
    private final Result<R> result = new Result<>();
    private int tries;
    private volatile boolean cancelled;
    private volatile ClientCall<Q, R> call;

    /**
     * hurried: the caller's time is shorter than the gate's, so its end says nothing about the
     * gate.
     */
    Exchange(
            Connection connection,
            Health health,
            MethodDescriptor<Q, R> method,
            Q request,
            Context context,
            long untilNanos,
            boolean hurried) {
        this.connection = connection;
        this.health = health;
        this.method = method;
        this.request = request;
        this.context = context;
        this.untilNanos = untilNanos;
        this.hurried = hurried;
    }

    /** Never fails. Ends in a thread of the transport. */
    CompletableFuture<Result<R>> run() {
        if (health.allows()) {
            sendInContext();
        } else {
            done.complete(result);
        }
        return done;
    }

    /** By the caller; run() ends soon. */
    void cancel() {
        cancelled = true;
        ClientCall<Q, R> underway = call;
        if (underway != null) {
            underway.cancel("the caller was cancelled", null);
        }
    }

    private void sendInContext() {
        context.run(this::send);
    }

    /** After a pause where a connection broke, which leaves the try at least half of the time. */
    private void sendAgain(boolean broke) {
        long pauseNanos = ThreadLocalRandom.current().nextLong(PAUSE_MIN_NANOS, PAUSE_MAX_NANOS);
        long leftNanos = untilNanos - System.nanoTime();
        if (broke) {
            CompletableFuture.delayedExecutor(
                            Math.min(pauseNanos, leftNanos / 2), TimeUnit.NANOSECONDS)
                    .execute(this::sendInContext);
        } else {
            sendInContext();
        }
    }

    private void send() {
        tries++;
        long leftNanos = Math.max(0, untilNanos - System.nanoTime());
        CallOptions options =
                CallOptions.DEFAULT.withDeadlineAfter(leftNanos, TimeUnit.NANOSECONDS);
        try {
            ClientCall<Q, R> sending = connection.channel().newCall(method, options);
            call = sending;
            ClientCalls.asyncUnaryCall(sending, request, new Observer(sending));
        } catch (RuntimeException error) {
            failed(error, false); // of an interceptor of the application
        }
        if (cancelled) {
            cancel(); // it came before there was a call to cancel
        }
    }

    private final class Observer implements StreamObserver<R> {
        private final ClientCall<Q, R> of;
        private R response;

        Observer(ClientCall<Q, R> of) {
            this.of = of;
        }

        @Override
        public void onNext(R value) {
            response = value;
        }

        @Override
        public void onCompleted() {
            result.response = response;
            health.gateAnswered();
            done.complete(result);
        }

        @Override
        public void onError(Throwable error) {
            boolean wasSent = of.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR) != null;
            failed(error, wasSent);
        }
    }

    private void failed(Throwable error, boolean wasSent) {
        Status status = Status.fromThrowable(error);
        if (!Wire.isNoAnswer(status, error)) {
            result.refusal = Wire.refusal(status, error);
            health.gateAnswered();
            done.complete(result);
            return;
        }
        result.maybeDecided |= wasSent; // without a peer the question never left
        if (cancelled || isCancelled(context)) {
            result.cancelled = true;
            done.complete(result);
            return;
        }
        boolean isOver = System.nanoTime() - untilNanos >= 0;
        boolean timedOut =
                status.getCode() == Status.Code.DEADLINE_EXCEEDED || context.isCancelled();
        if (!timedOut && !isOver && tries < TRIES_MAX) {
            sendAgain(wasSent);
            return;
        }
        result.ranOutOfTime = hurried && (timedOut || isOver);
        if (!(timedOut && hurried)) {
            health.gateFailed();
        }
        done.complete(result);
    }

    /** By the caller, as against its deadline. */
    static boolean isCancelled(Context context) {
        return context.isCancelled() && !(context.cancellationCause() instanceof TimeoutException);
    }
}
