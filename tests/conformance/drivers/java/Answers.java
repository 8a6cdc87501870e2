import io.fairgate.client.Answer;
import io.fairgate.client.Call;
import io.fairgate.client.Counters;
import io.fairgate.client.Deferred;
import io.fairgate.client.GateEvent;
import io.fairgate.client.GateException;
import io.fairgate.client.Limit;
import io.fairgate.client.RateLimitStatus;
import io.fairgate.client.Rejected;
import io.fairgate.client.Settlement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What the client says, in the protocol's words. */
final class Answers {
    private Answers() {}

    static Map<String, Object> of(Answer answer) {
        Map<String, Object> said = new HashMap<>();
        said.put("request_id", answer.requestId());
        said.put("attempt", answer.attempt());
        said.put("degraded", answer.degraded());
        if (answer instanceof Call call) {
            said.put("outcome", call.failedOpen() ? "FAILED_OPEN" : "GRANTED");
            said.put("debited", call.debited());
            said.put("lease_expires_in_ms", Command.inMs(call.leaseExpiresIn()));
            said.put("repeated", call.repeated());
        } else if (answer instanceof Deferred deferred) {
            said.put("outcome", "DEFERRED");
            said.put("delay_ms", Command.inMs(deferred.delay()));
            said.put("projected_wait_ms", Command.inMs(deferred.projectedWait()));
            said.put("place", deferred.place());
            List<Map<String, String>> limits = new ArrayList<>();
            for (Limit limit : deferred.limitedBy()) {
                limits.add(Map.of("layer", limit.layer(), "dimension", limit.dimension()));
            }
            said.put("limited_by", limits);
        } else if (answer instanceof Rejected rejected) {
            said.put("outcome", "REJECTED");
            said.put("reason", rejected.reason().name());
            said.put("message", rejected.explanation());
            said.put("dimension", rejected.dimension());
            rejected.earliest()
                    .ifPresent(earliest -> said.put("earliest_ms", Command.inMs(earliest)));
        }
        return said;
    }

    static Map<String, Object> of(GateException error) {
        List<Map<String, String>> fields = new ArrayList<>();
        for (GateException.FieldViolation bad : error.fields()) {
            fields.add(Map.of("field", bad.field(), "description", bad.description()));
        }
        Map<String, Object> said = new HashMap<>();
        said.put("outcome", "ERROR");
        said.put("code", error.code().name());
        said.put("message", error.getMessage());
        said.put("fields", fields);
        return said;
    }

    static Map<String, Object> of(Counters told) {
        Map<String, Object> said = new HashMap<>();
        said.put("granted", told.granted());
        said.put("deferred", told.deferred());
        said.put("rejected", told.rejected());
        said.put("failed_open", told.failedOpen());
        said.put("errors", told.errors());
        said.put("breaker_skips", told.breakerSkips());
        said.put("releases_lost", told.releasesLost());
        return said;
    }

    static Map<String, Object> of(GateEvent event) {
        if (event instanceof GateEvent.Admit admit) {
            Map<String, Object> said = new HashMap<>();
            said.put("event", "admit");
            said.put("outcome", admit.outcome().name());
            said.put("target", admit.target());
            said.put("tenant", admit.tenant());
            said.put("priority", admit.priority());
            said.put("degraded", admit.degraded());
            said.put("duration_ms", Command.inMs(admit.duration()));
            return said;
        }
        if (event instanceof GateEvent.Release release) {
            return Map.of(
                    "event", "release",
                    "outcome", release.outcome(),
                    "result", release.result(),
                    "target", release.target());
        }
        return Map.of("event", "breaker", "open", ((GateEvent.Breaker) event).open());
    }

    static Map<String, Object> of(Settlement settlement) {
        Map<String, Object> said = new HashMap<>();
        said.put("outcome", settlement.outcome().name());
        said.put("actual", settlement.actual());
        settlement.retryAfter().ifPresent(wait -> said.put("retry_after_ms", Command.inMs(wait)));
        Map<String, Object> limits = new HashMap<>();
        settlement.rateLimits().forEach((name, status) -> limits.put(name, of(status)));
        said.put("rate_limits", limits);
        return said;
    }

    private static Map<String, Object> of(RateLimitStatus status) {
        Map<String, Object> said = new HashMap<>();
        status.remaining().ifPresent(left -> said.put("remaining", left));
        status.reset().ifPresent(reset -> said.put("reset_ms", Command.inMs(reset)));
        return said;
    }
}
