package io.fairgate.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.anthropic.core.JsonValue;
import com.anthropic.core.http.Headers;
import com.anthropic.errors.RateLimitException;
import io.fairgate.v1.CallOutcome;
import io.fairgate.v1.ReleaseResult;
import io.fairgate.v1.Settle;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class CallTest {
    private static final Question QUESTION = Question.builder("t", "a").tokens(900).build();
    private static final RateLimitException REFUSED =
            RateLimitException.builder()
                    .headers(Headers.builder().put("Retry-After", "7").build())
                    .body(JsonValue.from(Map.of()))
                    .build();

    private FakeGate fake;
    private Gate gate;

    @BeforeEach
    void start() throws IOException {
        fake = new FakeGate();
        gate = fake.connect();
    }

    @AfterEach
    void stop() {
        gate.close();
        fake.close();
    }

    private Settle settled(Consumer<Call> said) {
        fake.releases.clear();
        Call call = gate.admit(QUESTION);
        said.accept(call);
        call.close();
        call.close();
        assertEquals(1, fake.releases.size());
        return fake.releases.get(0).getSettle();
    }

    @Test
    void closingSaysWhatWasSaidLast() {
        assertEquals(CallOutcome.CALL_OUTCOME_UNSPECIFIED, settled(call -> {}).getOutcome());
        Settle used = settled(call -> call.settle("tokens", 8));
        assertEquals(CallOutcome.CALL_OUTCOME_OK, used.getOutcome());
        assertEquals(Map.of("tokens", 8.0), used.getActualMap());
        assertEquals(CallOutcome.CALL_OUTCOME_NOT_SENT, settled(Call::notSent).getOutcome());
        Consumer<Call> both =
                call -> {
                    call.notSent();
                    call.settle(Settlement.of(io.fairgate.client.CallOutcome.TIMEOUT));
                };
        assertEquals(CallOutcome.CALL_OUTCOME_TIMEOUT, settled(both).getOutcome());
    }

    @Test
    void anExceptionOfAnSdkTellsHowItEnded() {
        Exception wrapped = new IllegalStateException(REFUSED);
        Settle refused = settled(call -> call.failed(wrapped));
        assertEquals(CallOutcome.CALL_OUTCOME_RATE_LIMITED, refused.getOutcome());
        assertEquals(7, refused.getRetryAfter().getSeconds());
        Settle unknown = settled(call -> call.failed(new IOException("?")));
        assertEquals(CallOutcome.CALL_OUTCOME_UNSPECIFIED, unknown.getOutcome());
        Consumer<Call> before =
                call -> {
                    call.settle(Map.of());
                    call.failed(REFUSED);
                };
        assertEquals(CallOutcome.CALL_OUTCOME_OK, settled(before).getOutcome());
    }

    @Test
    void runningGivesTheWorksResultAndItsException() throws Exception {
        String result =
                gate.run(
                        QUESTION,
                        call -> {
                            call.settle("tokens", 3);
                            return "done";
                        });
        assertEquals("done", result);
        IOException why = new IOException("the work's own");
        IOException thrown =
                assertThrows(
                        IOException.class,
                        () ->
                                gate.run(
                                        QUESTION,
                                        call -> {
                                            throw why;
                                        }));
        assertSame(why, thrown);
        assertEquals(
                CallOutcome.CALL_OUTCOME_UNSPECIFIED,
                fake.releases.get(1).getSettle().getOutcome());
    }

    @Test
    void closingInAnInterruptedThreadSettles() {
        Call call = gate.admit(QUESTION);
        call.settle("tokens", 3);
        Thread.currentThread().interrupt();
        call.close();
        assertTrue(Thread.interrupted());
        assertEquals(Map.of("tokens", 3.0), fake.releases.get(0).getSettle().getActualMap());
        assertEquals(
                io.fairgate.client.ReleaseResult.SETTLED, call.report().orElseThrow().result());
    }

    @Test
    void aLeaseThatEndedCannotBeExtended() {
        fake.result = ReleaseResult.RELEASE_RESULT_EXPIRED;
        try (Call call = gate.admit(QUESTION)) {
            assertThrows(
                    GateException.NoLease.class,
                    () -> call.extend(Duration.ofMinutes(1), Map.of()));
        }
        assertEquals(1, fake.releases.size()); // an ended lease is not settled
    }

    @Test
    void dimensionsOfYoursTakeUsage() throws IOException {
        GateOptions.Builder options =
                GateOptions.builder().usageDimensions(Map.of("tpm", Usage.TOTAL));
        Question question = Question.builder("t", "a").cost("tpm", 50).build();
        try (Gate known = fake.connect(options);
                Call call = known.admit(question)) {
            call.settle(Response.of(200, "{\"usage\": {\"total_tokens\": 29}}"));
        }
        assertEquals(Map.of("tpm", 29.0), fake.releases.get(0).getSettle().getActualMap());
    }
}
