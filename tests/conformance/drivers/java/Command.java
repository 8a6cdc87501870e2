import com.google.gson.JsonElement;
import io.fairgate.client.Question;
import io.fairgate.client.RateLimitStatus;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** One line of the protocol: ../../README.md. Fields are spelt as there, for Gson. */
final class Command {
    String op = "";
    String address;
    Options options = new Options();

    String target;
    String tenant;
    String priority = "";
    Map<String, Double> cost = Map.of();
    boolean upper_bound;
    String request_id = "";
    int attempt = 1;
    Double deadline_ms;
    double timer_floor_ms;
    double max_hold_ms;
    boolean check_only;
    boolean tells_sent;
    Double context_deadline_ms;
    JsonElement max_wait_ms; // a number or "forever"
    Double cancel_after_ms;

    int count;
    Command admit;

    int status;
    Map<String, String> headers = Map.of();
    JsonElement body; // of admit: its actions
    List<String> dimensions = List.of("tokens");
    Double now_s;
    int output;

    static final class Options {
        Double rpc_timeout_ms;
        Boolean fail_open;
        Integer breaker_failures;
        Double breaker_cooldown_ms;
        Double keepalive_ms;
    }

    /** One step of a block. */
    static final class Action {
        Settle settle;
        Response response;
        Extend extend;
        boolean sent;
        boolean not_sent;
        boolean raise;
        boolean cancel;
        double sleep_ms;
    }

    static final class Settle {
        Map<String, Double> actual = Map.of();
        String outcome = "OK";
        Double retry_after_ms;
        Map<String, Status> rate_limits = Map.of();

        Map<String, RateLimitStatus> rateLimits() {
            Map<String, RateLimitStatus> told = new HashMap<>();
            rate_limits.forEach((name, status) -> told.put(name, status.told()));
            return told;
        }
    }

    static final class Status {
        Double remaining;
        Double reset_ms;

        RateLimitStatus told() {
            return new RateLimitStatus(
                    Optional.ofNullable(remaining),
                    Optional.ofNullable(reset_ms).map(Command::milliseconds));
        }
    }

    static final class Response {
        int status;
        Map<String, String> headers = Map.of();
        JsonElement body;
    }

    static final class Extend {
        double lease_ttl_ms;
        Map<String, Double> used_so_far = Map.of();
    }

    Question question() {
        Question.Builder question =
                Question.builder(target, tenant)
                        .priority(priority)
                        .cost(cost)
                        .upperBound(upper_bound)
                        .requestId(request_id)
                        .attempt(attempt)
                        .timerFloor(milliseconds(timer_floor_ms))
                        .maxHold(milliseconds(max_hold_ms))
                        .checkOnly(check_only)
                        .tellsSent(tells_sent);
        if (deadline_ms != null) {
            question.deadline(milliseconds(deadline_ms));
        }
        return question.build();
    }

    static Duration milliseconds(double ms) {
        return Duration.ofNanos((long) (ms * 1e6));
    }

    static double inMs(Duration duration) {
        return duration.toNanos() / 1e6;
    }
}
