package io.fairgate.client;

/** Counts failures in a row; open, it lets one try through per cool-down. Its owner locks. */
final class Breaker {
    private final int failuresMax;
    private final long cooldownNanos;
    private int failures;
    private long retryAtNanos;

    /** failuresMax: not positive: never opens. */
    Breaker(int failuresMax, long cooldownNanos) {
        this.failuresMax = failuresMax;
        this.cooldownNanos = cooldownNanos;
    }

    boolean isOpen() {
        return failuresMax > 0 && failures >= failuresMax;
    }

    /** Whether this caller may ask; open, the first one after the cool-down tries for all. */
    boolean allows(long nowNanos) {
        if (!isOpen()) {
            return true;
        }
        if (nowNanos - retryAtNanos < 0) {
            return false;
        }
        retryAtNanos = nowNanos + cooldownNanos;
        return true;
    }

    void succeeded() {
        failures = 0;
    }

    void failed(long nowNanos) {
        if (failures < failuresMax) {
            failures++;
        }
        if (isOpen()) {
            retryAtNanos = nowNanos + cooldownNanos;
        }
    }
}
