package io.fairgate.client;

import java.time.Duration;
import java.util.Map;

/**
 * What the gate made of a release.
 *
 * @param result what it did
 * @param refunded given back by dimension; negative: charged on top
 * @param degraded the gate could not ask its store
 * @param leaseExpiresIn the lease's new life after {@code EXTENDED}, zero otherwise
 */
public record ReleaseReport(
        ReleaseResult result,
        Map<String, Double> refunded,
        boolean degraded,
        Duration leaseExpiresIn) {}
