package io.fairgate.client;

import java.time.Duration;
import java.util.List;
import java.util.Locale;

/**
 * Give the worker's slot back, sleep {@link #delay}, and ask again with the same request id and
 * attempt.
 */
public final class Deferred extends NotAdmitted implements Answer {
    private final Duration delay;
    private final Duration projectedWait;
    private final long place;
    private final transient List<Limit> limitedBy;

    Deferred(
            String requestId,
            int attempt,
            boolean degraded,
            Duration delay,
            Duration projectedWait,
            long place,
            List<Limit> limitedBy) {
        super(
                String.format(
                        Locale.ROOT,
                        "%s: ask again in %.3f s",
                        requestId,
                        delay.toMillis() / 1000.0),
                requestId,
                attempt,
                degraded);
        this.delay = delay;
        this.projectedWait = projectedWait;
        this.place = place;
        this.limitedBy = limitedBy;
    }

    /** How long to sleep. */
    public Duration delay() {
        return delay;
    }

    /** When the turn is expected, without corrections for timers. */
    public Duration projectedWait() {
        return projectedWait;
    }

    /** Place in line: calls of the same flow that are ahead, plus 1; 0: no place is kept. */
    public long place() {
        return place;
    }

    /** What keeps the call from going now, narrowest first. */
    public List<Limit> limitedBy() {
        return limitedBy == null ? List.of() : limitedBy;
    }
}
