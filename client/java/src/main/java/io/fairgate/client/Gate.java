package io.fairgate.client;

import io.grpc.Context;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A connection to a gate; make one and keep it. Safe for threads. */
public final class Gate implements AutoCloseable {
    /** Where a gate listens unless told otherwise. */
    public static final String DEFAULT_ADDRESS = "127.0.0.1:50051";

    /** As the longest wait of {@link #admitWait}: only a cancellation or a deadline ends it. */
    public static final Duration FOREVER = Duration.ofSeconds(Long.MAX_VALUE);

    private final Core core;

    /** With the default options. */
    public Gate(String address) {
        this(address, GateOptions.defaults());
    }

    /**
     * Connects, and waits for that: see {@link GateOptions.Builder#connectTimeout}.
     *
     * @param address as gRPC names it: "host:port", "dns:///name:port" or "unix:/path"
     * @param options how to reach it
     * @throws IllegalArgumentException an address that gRPC does not understand
     */
    public Gate(String address, GateOptions options) {
        core = new Core(address, options);
    }

    /**
     * Waits for the releases that are on their way, at most the options' rpcTimeout, and closes the
     * connection.
     */
    @Override
    public void close() {
        core.close();
    }

    /** The answers so far. */
    public Counters counters() {
        return core.health.counters();
    }

    /**
     * Asks once: {@code try (Call call = gate.admit(question))}.
     *
     * @throws Deferred give the worker's slot back, sleep its delay, ask again with its request id
     * @throws Rejected waiting would not help; so does an {@code io.grpc.Context} whose deadline
     *     passes while the gate thinks
     * @throws GateException the gate refuses the question, or, with failOpen(false), does not
     *     answer
     * @throws CancellationException the thread was interrupted (and still is), or its {@code
     *     io.grpc.Context} is cancelled; the question is then withdrawn in the background
     */
    public Call admit(Question question) {
        return callOf(tryAdmit(question));
    }

    /** As {@link #admit}, with Deferred and Rejected as values. A {@link Call} has to be closed. */
    public Answer tryAdmit(Question question) {
        return core.ask(question, dueAt(question));
    }

    /**
     * Asks until the call may go or is rejected, and sleeps the delays in the caller's thread, at
     * most maxWait in all. A wait that is longer than what is left is not begun: the place in line
     * is given up, and Deferred is thrown. With checkOnly it is {@link #admit}.
     */
    public Call admitWait(Question question, Duration maxWait) {
        return callOf(tryAdmitWait(question, maxWait));
    }

    /** As {@link #admitWait}, with Deferred and Rejected as values. */
    public Answer tryAdmitWait(Question question, Duration maxWait) {
        Optional<Deadline> due = dueAt(question); // counts from the first question
        long beganNanos = System.nanoTime();
        Question asked = question;
        while (true) {
            Answer answer = core.ask(asked, due);
            if (!(answer instanceof Deferred deferred)
                    || Values.nanos(maxWait) <= 0
                    || asked.checkOnly()) {
                return answer;
            }
            asked = asked.toBuilder().requestId(deferred.requestId()).build(); // keeps the place
            Duration waited = Duration.ofNanos(System.nanoTime() - beganNanos);
            if (deferred.delay().compareTo(maxWait.minus(waited)) > 0) {
                // Somebody behind may go instead; a lost withdrawal only costs the gate a grace
                // period.
                withdrawLater(asked, deferred);
                return deferred;
            }
            if (!slept(deferred.delay())) {
                withdrawLater(asked, deferred);
                return endOfSleep(deferred);
            }
        }
    }

    /**
     * Does the work with the gate's permission, and settles when it ends: as the work said, else
     * with what its exception tells, see {@link Call#failed}. Returns and throws as the work does,
     * or as {@link #admit}.
     */
    public <T, X extends Exception> T run(Question question, Work<T, X> work) throws X {
        try (Call call = admit(question)) {
            try {
                return work.with(call);
            } catch (Throwable error) {
                call.failed(error);
                throw error;
            }
        }
    }

    /** What {@link #run} does with a permission. */
    @FunctionalInterface
    public interface Work<T, X extends Exception> {
        /** Does the external call. */
        T with(Call call) throws X;
    }

    /**
     * Gives up the place in line of a deferred question.
     *
     * @throws GateException refused, or it could not be told
     */
    public ReleaseReport withdraw(String target, String requestId, int attempt) {
        return core.release(Wire.withdraw(target, requestId, attempt), false);
    }

    private void withdrawLater(Question question, Deferred deferred) {
        core.releaseLater(
                Wire.withdraw(question.target(), deferred.requestId(), deferred.attempt()));
    }

    private static Call callOf(Answer answer) {
        if (answer instanceof NotAdmitted notAdmitted) {
            throw notAdmitted;
        }
        return (Call) answer;
    }

    /** The earlier of the question's and the context's; empty: there is none. */
    private static Optional<Deadline> dueAt(Question question) {
        Deadline context = Context.current().getDeadline();
        Optional<Deadline> explicit =
                question.deadline()
                        .map(within -> Deadline.after(Values.nanos(within), TimeUnit.NANOSECONDS));
        if (context == null) {
            return explicit;
        }
        return Optional.of(explicit.map(context::minimum).orElse(context));
    }

    /** False: the thread is interrupted, or its context has ended. */
    private static boolean slept(Duration delay) {
        Context context = Context.current();
        CountDownLatch ended = new CountDownLatch(1);
        Context.CancellationListener listener = of -> ended.countDown();
        context.addListener(listener, Runnable::run);
        try {
            return !ended.await(Values.nanos(delay), TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            return false;
        } finally {
            context.removeListener(listener);
        }
    }

    private static Answer endOfSleep(Deferred deferred) {
        if (Thread.currentThread().isInterrupted() || Exchange.isCancelled(Context.current())) {
            throw Core.cancellation();
        }
        String explanation = "the deadline passed while waiting";
        return Rejected.late(deferred.requestId(), deferred.attempt(), explanation, true);
    }
}
