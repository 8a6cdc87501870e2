package io.fairgate.client;

import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * A permission to call, and the lease that goes with it. {@link #close} settles with what was said
 * last. Nothing said, for example because of an exception: unknown, the estimate stays charged, for
 * the provider may have counted the call. With {@link Question#tellsSent} and before {@link #sent}:
 * not sent. Safe for threads.
 */
public final class Call implements Answer, AutoCloseable {
    private static final System.Logger LOG = System.getLogger("io.fairgate.client");

    private final Core core;
    private final Question question;
    private final Wire.Granted granted;
    private final boolean maybeLeased; // failed open without knowing whether the gate decided

    // Guarded by this
    private boolean open; // there is something to end
    private boolean sent;
    private Duration leaseExpiresIn;
    private Settlement settlement;
    private ReleaseReport report;

    Call(Core core, Question question, Wire.Granted granted, boolean maybeLeased) {
        this.core = core;
        this.question = question;
        this.granted = granted;
        this.maybeLeased = maybeLeased;
        open = !question.checkOnly() && (!granted.failedOpen() || maybeLeased);
        sent = !question.tellsSent();
        leaseExpiresIn = granted.leaseExpiresIn();
    }

    /** As asked. */
    public String target() {
        return question.target();
    }

    @Override
    public String requestId() {
        return granted.requestId();
    }

    @Override
    public int attempt() {
        return granted.attempt();
    }

    @Override
    public boolean degraded() {
        return granted.degraded();
    }

    /** The gate could not be asked. */
    public boolean failedOpen() {
        return granted.failedOpen();
    }

    /** What was debited by dimension; empty when failed open. */
    public Map<String, Double> debited() {
        return granted.debited();
    }

    /** Given before, to the same request id and attempt. */
    public boolean repeated() {
        return granted.repeated();
    }

    /** Version of the policy that decided; 0: none. */
    public long configVersion() {
        return granted.configVersion();
    }

    /** How long the lease lives without a settlement, from the grant or the last extension. */
    public synchronized Duration leaseExpiresIn() {
        return leaseExpiresIn;
    }

    /**
     * The call succeeded, and used this. Dimensions that are absent are unknown and stay charged.
     * Nothing is sent before {@link #close}; what was said last holds.
     */
    public void settle(Map<String, ? extends Number> actual) {
        settle(Settlement.of(CallOutcome.OK).withActual(actual));
    }

    /** As {@link #settle(Map)}, for one dimension. */
    public void settle(String dimension, double actual) {
        settle(Map.of(dimension, actual));
    }

    /** How the call ended, and what it used. */
    public synchronized void settle(Settlement settlement) {
        this.settlement = settlement;
    }

    /**
     * As a provider's response says: its status, its usage in the token dimensions that the
     * question or the grant names, what it says of their limits and of that of requests, and, of a
     * 429, its wait. Returns what was understood.
     */
    public Settlement settle(Response response) {
        Settlement understood = response.settlement(usageDimensions(), Instant.now());
        settle(understood);
        return understood;
    }

    /**
     * The call ended with an exception, unless something was said before. An HTTP response in it,
     * as in those of OpenAI's and Anthropic's SDKs, tells how; without one the outcome stays
     * unknown. {@link Gate#run} calls this.
     */
    public synchronized void failed(Throwable error) {
        if (settlement == null && sent) {
            Response.in(error).ifPresent(this::settle);
        }
    }

    /** With tellsSent: the request leaves now; from here on the provider may have counted it. */
    public synchronized void sent() {
        sent = true;
    }

    /** The call never left: everything is refunded. */
    public void notSent() {
        settle(Settlement.of(CallOutcome.NOT_SENT));
    }

    /**
     * Ends the lease as said, also in a thread that is interrupted and when its {@code
     * io.grpc.Context} has ended. Waits for the gate, at most the options' rpcTimeout; where it is
     * not known whether there is a lease, it does not wait. Never throws, because the work is done:
     * a settlement that fails is logged, counted ({@link Counters#releasesLost}), and the lease
     * ends by itself. The second time it does nothing.
     */
    @Override
    public void close() {
        if (maybeLeased) {
            take().ifPresent(
                            said ->
                                    core.releaseLater(
                                            Wire.settle(target(), requestId(), attempt(), said)));
            return;
        }
        try {
            release();
        } catch (GateException error) {
            LOG.log(
                    System.Logger.Level.WARNING,
                    "settlement of {0}: {1}",
                    requestId(),
                    error.getMessage());
        }
    }

    /**
     * {@link #close} for who wants to know: sends what was said and tells what the gate made of it.
     * Empty: there was nothing to end.
     *
     * @throws GateException refused, or not told
     */
    public Optional<ReleaseReport> release() {
        Optional<Settlement> said = take();
        if (said.isEmpty()) {
            return Optional.empty();
        }
        ReleaseReport made =
                core.release(
                        Wire.settle(target(), requestId(), attempt(), said.get()), maybeLeased);
        synchronized (this) {
            report = made;
        }
        return Optional.of(made);
    }

    /**
     * What the gate made of the settlement; empty before, without a lease, and when it was lost.
     */
    public synchronized Optional<ReleaseReport> report() {
        return Optional.ofNullable(report);
    }

    /**
     * Keeps the lease alive for ttl from now (zero: the target's), for long streams, and returns
     * its new life. Usage so far raises the charge where it is above what was debited.
     *
     * @throws GateException.NoLease there is no open lease (any more)
     * @throws GateException refused, or it could not be told
     */
    public Duration extend(Duration ttl, Map<String, ? extends Number> usedSoFar) {
        synchronized (this) {
            if (!open || failedOpen()) {
                throw new GateException.NoLease("no open lease");
            }
        }
        ReleaseReport made =
                core.release(
                        Wire.extend(
                                target(), requestId(), attempt(), ttl, Values.amounts(usedSoFar)),
                        false);
        boolean lives =
                made.result() == ReleaseResult.EXTENDED || made.result() == ReleaseResult.QUEUED;
        synchronized (this) {
            if (!lives) {
                open = false;
                throw new GateException.NoLease("the lease has ended: " + made.result());
            }
            leaseExpiresIn = made.leaseExpiresIn();
            return leaseExpiresIn;
        }
    }

    /** The settlement that ends the lease, once. */
    private synchronized Optional<Settlement> take() {
        if (!open) {
            return Optional.empty();
        }
        open = false;
        if (settlement != null) {
            return Optional.of(settlement);
        }
        return Optional.of(Settlement.of(sent ? CallOutcome.UNKNOWN : CallOutcome.NOT_SENT));
    }

    /** Of the dimensions that the question or the grant names, those that hold token usage. */
    private Map<String, Usage> usageDimensions() {
        Map<String, Usage> known = new HashMap<>(Usage.DIMENSIONS);
        known.putAll(core.options.usageDimensions);
        known.keySet()
                .removeIf(
                        name -> !question.cost().containsKey(name) && !debited().containsKey(name));
        return known;
    }
}
