package io.fairgate.client;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * May this call go? Fields as in {@code fairgate.v1.AdmitRequest}.
 *
 * @param target required
 * @param tenant required
 * @param priority a class of the target; empty: its default
 * @param cost the estimated use by dimension; "requests" is 1 unless given
 * @param upperBound the cost is a reservation that the call cannot pass; what is not used is given
 *     back
 * @param requestId idempotency key, ticket and lease id at once; empty: one is made. Ask again
 *     after a {@link Deferred} with the same one
 * @param attempt one is one HTTP send; whoever sends again asks with the next number
 * @param deadline time left until the work is useless, from the moment of asking; the earlier of
 *     this and of {@code io.grpc.Context}'s holds
 * @param timerFloor the shortest sleep that the caller's timer can do
 * @param maxHold how long the gate may hold its answer instead of deferring
 * @param checkOnly asks what the answer would be; nothing is debited, no place is kept, nothing is
 *     to be settled
 * @param tellsSent {@link Call#sent} will be called right before the request leaves; a call that
 *     ends before that is not sent
 */
public record Question(
        String target,
        String tenant,
        String priority,
        Map<String, Double> cost,
        boolean upperBound,
        String requestId,
        int attempt,
        Optional<Duration> deadline,
        Duration timerFloor,
        Duration maxHold,
        boolean checkOnly,
        boolean tellsSent) {
    /** Copies the cost. */
    public Question {
        Objects.requireNonNull(target, "target");
        Objects.requireNonNull(tenant, "tenant");
        cost = Map.copyOf(cost);
        if (attempt < 0) {
            throw new IllegalArgumentException("attempt: not a count: " + attempt);
        }
    }

    /** With everything else at its default. */
    public static Builder builder(String target, String tenant) {
        return new Builder(target, tenant);
    }

    /** For a question like this one. */
    public Builder toBuilder() {
        Builder builder = new Builder(target, tenant);
        builder.priority = priority;
        builder.cost.putAll(cost);
        builder.upperBound = upperBound;
        builder.requestId = requestId;
        builder.attempt = attempt;
        builder.deadline = deadline;
        builder.timerFloor = timerFloor;
        builder.maxHold = maxHold;
        builder.checkOnly = checkOnly;
        builder.tellsSent = tellsSent;
        return builder;
    }

    /** Makes a {@link Question}; what is not said is at its default. */
    public static final class Builder {
        private final String target;
        private final String tenant;
        private final Map<String, Double> cost = new LinkedHashMap<>();
        private String priority = "";
        private boolean upperBound;
        private String requestId = "";
        private int attempt = 1;
        private Optional<Duration> deadline = Optional.empty();
        private Duration timerFloor = Duration.ZERO;
        private Duration maxHold = Duration.ZERO;
        private boolean checkOnly;
        private boolean tellsSent;

        private Builder(String target, String tenant) {
            this.target = target;
            this.tenant = tenant;
        }

        /** A class of the target. */
        public Builder priority(String priority) {
            this.priority = priority;
            return this;
        }

        /** Short for {@code cost("tokens", amount)}. */
        public Builder tokens(double amount) {
            return cost("tokens", amount);
        }

        /** The estimated use of a dimension. */
        public Builder cost(String dimension, double amount) {
            cost.put(dimension, amount);
            return this;
        }

        /** The estimated use of several. */
        public Builder cost(Map<String, ? extends Number> amounts) {
            cost.putAll(Values.amounts(amounts));
            return this;
        }

        /** Whether the cost is a reservation. */
        public Builder upperBound(boolean upperBound) {
            this.upperBound = upperBound;
            return this;
        }

        /** The id to ask with. */
        public Builder requestId(String requestId) {
            this.requestId = requestId;
            return this;
        }

        /** The number of the HTTP send. */
        public Builder attempt(int attempt) {
            this.attempt = attempt;
            return this;
        }

        /** Time left for the work. */
        public Builder deadline(Duration deadline) {
            this.deadline = Optional.of(deadline);
            return this;
        }

        /** Of the caller's timer. */
        public Builder timerFloor(Duration timerFloor) {
            this.timerFloor = timerFloor;
            return this;
        }

        /** For the gate to hold its answer. */
        public Builder maxHold(Duration maxHold) {
            this.maxHold = maxHold;
            return this;
        }

        /** Whether only to ask what the answer would be. */
        public Builder checkOnly(boolean checkOnly) {
            this.checkOnly = checkOnly;
            return this;
        }

        /** Whether {@link Call#sent} will be called. */
        public Builder tellsSent(boolean tellsSent) {
            this.tellsSent = tellsSent;
            return this;
        }

        /** IllegalArgumentException: a negative attempt. */
        public Question build() {
            return new Question(
                    target,
                    tenant,
                    priority,
                    cost,
                    upperBound,
                    requestId,
                    attempt,
                    deadline,
                    timerFloor,
                    maxHold,
                    checkOnly,
                    tellsSent);
        }
    }
}
