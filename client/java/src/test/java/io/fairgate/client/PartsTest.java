package io.fairgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.anthropic.core.JsonValue;
import com.anthropic.core.ObjectMappers;
import com.anthropic.models.messages.Message;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.gson.JsonParser;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PartsTest {
    private static final Instant NOW = Instant.parse("2026-08-07T20:59:30Z");
    private static final String USAGE =
            "{\"usage\": {\"input_tokens\": 5, \"output_tokens\": 3, \"cache_read_input_tokens\": 9}}";

    private static Settlement settlement(Response response) {
        return response.settlement(Map.of("tokens", Usage.TOTAL), NOW);
    }

    @Test
    void breaker() {
        Breaker breaker = new Breaker(2, 1000);
        breaker.failed(0);
        assertTrue(breaker.allows(0), "opened by one failure");
        breaker.failed(0);
        assertFalse(breaker.allows(999));
        assertTrue(breaker.allows(1000), "one caller tries after the cool-down");
        assertFalse(breaker.allows(1000), "and only one");
        breaker.succeeded();
        assertTrue(breaker.allows(1000));
    }

    @Test
    void bodiesMayBeTextTreesMapsOrBytes() throws Exception {
        for (Object body :
                List.of(
                        USAGE,
                        USAGE.getBytes("UTF-8"),
                        JsonParser.parseString(USAGE),
                        new ObjectMapper().readTree(USAGE),
                        Map.of("usage", Map.of("total_tokens", 8)))) {
            assertEquals(Map.of("tokens", 8.0), settlement(Response.of(200, body)).actual());
        }
        assertEquals(Map.of(), settlement(Response.of(200, "no JSON")).actual());
        assertEquals(Map.of(), settlement(Response.of(200, null)).actual());
    }

    @Test
    void messagesOfAnthropicsSdk() throws Exception {
        String json =
                """
        {"id": "m", "type": "message", "role": "assistant", "model": "claude", "content": [],
         "stop_reason": "end_turn", "stop_sequence": null,
         "usage": {"input_tokens": 20, "output_tokens": 30, "cache_creation_input_tokens": 100,
                   "cache_read_input_tokens": 5000}}
        """;
        Message message = ObjectMappers.jsonMapper().readValue(json, Message.class);
        Settlement settlement =
                Response.ofSdk(message)
                        .settlement(
                                Map.of("tokens", Usage.TOTAL, "input_tokens", Usage.INPUT), NOW);
        assertEquals(CallOutcome.OK, settlement.outcome());
        assertEquals(Map.of("tokens", 150.0, "input_tokens", 120.0), settlement.actual());
    }

    @Test
    void bodiesOfAnSdksErrorAreRead() {
        Object body =
                JsonValue.from(
                        Map.of("error", Map.of("details", List.of(Map.of("retryDelay", "59s")))));
        Error error = new Error(body);
        assertEquals(
                Optional.of(Duration.ofSeconds(59)),
                settlement(Response.in(error).orElseThrow()).retryAfter());
        assertEquals(Optional.empty(), Response.in(new RuntimeException()));
        assertEquals(Optional.empty(), Response.in(null));
    }

    /** Shaped as an SDK's. */
    public static final class Error extends RuntimeException {
        private final transient Object body;

        Error(Object body) {
            this.body = body;
        }

        public int statusCode() {
            return 429;
        }

        public java.net.http.HttpHeaders headers() {
            return java.net.http.HttpHeaders.of(Map.of(), (name, value) -> true);
        }

        public Object body() {
            return body;
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "0.0014|1",
                "48h|86400000",
                "1.5s|1500",
                "1d|86400000",
                "Fri, 07 Aug 2026 21:00:00 GMT|30000",
                "2026-08-07T21:00:00|30000"
            })
    void waitsAreWholeMillisecondsWithinADay(String text, long waitMs) {
        Settlement settlement = settlement(Response.of(429, Map.of("Retry-After", text), null));
        assertEquals(Optional.of(Duration.ofMillis(waitMs)), settlement.retryAfter());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "-1", "1e3", "soon", "5 s", "1s2"})
    void whatIsNoWaitIsNone(String text) {
        Settlement settlement = settlement(Response.of(429, Map.of("retry-after", text), null));
        assertEquals(Optional.empty(), settlement.retryAfter());
    }

    @Test
    void theLongestResetOfWhatIsUsedUpCounts() {
        Map<String, List<String>> headers =
                Map.of(
                        "x-ratelimit-remaining-requests", List.of("0"),
                        "x-ratelimit-reset-requests", List.of("2s"),
                        "x-ratelimit-remaining-tokens", List.of("5"),
                        "x-ratelimit-reset-tokens", List.of("9s"),
                        "x-ratelimit-limit-images", List.of("-1"),
                        "x-ratelimit-reset-images", List.of("99s"));
        Settlement settlement = settlement(Response.of(429, headers, null));
        assertEquals(Optional.of(Duration.ofSeconds(2)), settlement.retryAfter());
    }

    @Test
    void estimates() {
        assertEquals(2, TokenEstimator.DEFAULT.tokens("five!"), "text that is no JSON");
        assertEquals(0, TokenEstimator.DEFAULT.tokens(null));
        Map<String, Object> body =
                Map.of("messages", List.of(Map.of("content", "abcde")), "max_tokens", 10, "n", 2);
        assertEquals(22, TokenEstimator.DEFAULT.tokens(body));
        TokenEstimator estimator = TokenEstimator.DEFAULT.withCount(String::length).withOutput(7);
        assertEquals(12, estimator.tokens("{\"prompt\": \"abcde\"}".getBytes()));
    }

    @Test
    void numbersOfANewerGateAreUnspecified() {
        assertEquals(RejectReason.UNSPECIFIED, Values.numbered(RejectReason.values(), 99));
        assertEquals(CallOutcome.NOT_SENT, Values.numbered(CallOutcome.values(), 5));
    }

    @Test
    void namesAndNumbersAreTheContracts() {
        for (CallOutcome outcome : CallOutcome.values()) {
            String name = outcome == CallOutcome.UNKNOWN ? "UNSPECIFIED" : outcome.name();
            assertEquals(
                    "CALL_OUTCOME_" + name,
                    io.fairgate.v1.CallOutcome.forNumber(outcome.ordinal()).name());
        }
        for (RejectReason reason : RejectReason.values()) {
            assertEquals(
                    "REJECT_REASON_" + reason.name(),
                    io.fairgate.v1.RejectReason.forNumber(reason.ordinal()).name());
        }
        for (ReleaseResult result : ReleaseResult.values()) {
            assertEquals(
                    "RELEASE_RESULT_" + result.name(),
                    io.fairgate.v1.ReleaseResult.forNumber(result.ordinal()).name());
        }
    }
}
