import com.fasterxml.jackson.annotation.JsonProperty;

/** That of common.py. */
public record Work(
        String work,
        String target,
        String upstream,
        String tenant,
        String priority,
        int calls,
        int runs,
        @JsonProperty("attempt_timeout_s") double attemptTimeout,
        @JsonProperty("attempts_max") int attemptsMax,
        @JsonProperty("deadline_s") double deadline) {
    Work oneRunLess() {
        return new Work(
                work, target, upstream, tenant, priority, calls, runs - 1, attemptTimeout,
                attemptsMax, deadline);
    }
}
