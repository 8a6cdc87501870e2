package io.fairgate.client;

/**
 * The answers since the gate object was made.
 *
 * @param granted calls that may go, by the gate's word
 * @param deferred questions that wait
 * @param rejected questions that waiting would not help
 * @param failedOpen the gate could not be asked, and the call went nevertheless
 * @param errors admissions that ended with a {@link GateException}
 * @param breakerSkips admissions and releases that did not go out, because the breaker was open
 * @param releasesLost settlements that did not reach the gate or were refused; their leases end by
 *     themselves
 */
public record Counters(
        long granted,
        long deferred,
        long rejected,
        long failedOpen,
        long errors,
        long breakerSkips,
        long releasesLost) {}
