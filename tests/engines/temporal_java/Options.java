import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Duration;

/** WorkerOptions of common.py. */
record Options(
        int slots,
        String part,
        String mode,
        @JsonProperty("die_at") String dieAt,
        @JsonProperty("fail_sends") int failSends,
        @JsonProperty("timer_floor_s") double timerFloor,
        @JsonProperty("max_hold_s") double maxHold) {
    static final Options NONE = new Options(1, "", "adapter", "", 0, 1, 0);

    static Duration seconds(double value) {
        return Duration.ofMillis(Math.round(value * 1000));
    }
}
