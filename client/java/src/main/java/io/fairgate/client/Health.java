package io.fairgate.client;

import java.util.EnumMap;
import java.util.function.Consumer;

/** The breaker, the counters and the hook. Safe for threads. */
final class Health {
    private enum Counter {
        GRANTED,
        DEFERRED,
        REJECTED,
        FAILED_OPEN,
        ERROR,
        BREAKER_SKIPS,
        RELEASES_LOST
    }

    private static final System.Logger LOG = System.getLogger("io.fairgate.client");

    private final boolean failOpen;
    private final Consumer<GateEvent> onEvent;
    private final Breaker breaker; // guarded by this
    private final EnumMap<Counter, Long> counts = new EnumMap<>(Counter.class); // guarded by this

    Health(GateOptions options) {
        failOpen = options.failOpen;
        onEvent = options.onEvent;
        breaker = new Breaker(options.breakerFailures, options.breakerCooldown.toNanos());
    }

    synchronized Counters counters() {
        return new Counters(
                count(Counter.GRANTED),
                count(Counter.DEFERRED),
                count(Counter.REJECTED),
                count(Counter.FAILED_OPEN),
                count(Counter.ERROR),
                count(Counter.BREAKER_SKIPS),
                count(Counter.RELEASES_LOST));
    }

    private long count(Counter counter) {
        return counts.getOrDefault(counter, 0L);
    }

    private synchronized void add(Counter counter) {
        counts.merge(counter, 1L, Long::sum);
    }

    /** Whether to ask the gate at all. */
    synchronized boolean allows() {
        if (breaker.allows(System.nanoTime())) {
            return true;
        }
        add(Counter.BREAKER_SKIPS);
        return false;
    }

    /** With whatever. */
    void gateAnswered() {
        synchronized (this) {
            boolean wasOpen = breaker.isOpen();
            breaker.succeeded();
            if (!wasOpen) {
                return;
            }
        }
        LOG.log(System.Logger.Level.WARNING, "the gate answers again");
        emit(new GateEvent.Breaker(false));
    }

    /** No answer. */
    void gateFailed() {
        synchronized (this) {
            boolean wasOpen = breaker.isOpen();
            breaker.failed(System.nanoTime());
            if (wasOpen || !breaker.isOpen()) {
                return;
            }
        }
        String consequence = failOpen ? ": calls go on without it" : "";
        LOG.log(System.Logger.Level.WARNING, "the gate does not answer" + consequence);
        emit(new GateEvent.Breaker(true));
    }

    void admitted(GateEvent.Admit event) {
        add(Counter.valueOf(event.outcome().name()));
        emit(event);
    }

    void released(GateEvent.Release event) {
        emit(event);
    }

    void releaseLost() {
        add(Counter.RELEASES_LOST);
    }

    private void emit(GateEvent event) {
        try {
            onEvent.accept(event);
        } catch (RuntimeException error) {
            LOG.log(System.Logger.Level.WARNING, "onEvent failed", error);
        }
    }
}
