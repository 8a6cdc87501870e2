package io.fairgate.client.temporal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fairgate.client.Question;
import io.temporal.activity.ActivityInfo;
import io.temporal.common.RetryOptions;
import io.temporal.common.converter.DefaultDataConverter;
import io.temporal.common.interceptors.Header;
import io.temporal.failure.ApplicationFailure;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What needs no server; the rest is tests/engines. */
class TemporalTest {
    private static final Question QUESTION = Question.builder("openai", "acme").build();

    private static void assertRest(
            RetryOptions policy, int failures, int attemptsLeft, long intervalMs) {
        RetryOptions rest = WorkflowOutbound.restOf(policy, failures);
        assertEquals(attemptsLeft, rest.getMaximumAttempts());
        assertEquals(Duration.ofMillis(intervalMs), rest.getInitialInterval());
    }

    private static RetryOptions.Builder policy() {
        return RetryOptions.newBuilder();
    }

    @Test
    void restOfAPolicy() {
        assertRest(policy().setMaximumAttempts(3).build(), 2, 1, 4000);
        assertRest(policy().setMaximumAttempts(3).build(), 5, 1, 32000);
        assertRest(policy().build(), 2, 0, 4000);
        assertRest(null, 3, 0, 8000);
        assertRest(null, 1_000_000, 0, 100_000);
        assertRest(policy().setMaximumInterval(Duration.ofSeconds(3)).build(), 2, 0, 3000);
        assertRest(policy().setBackoffCoefficient(1).build(), 1_000_000_000, 0, 1000);
    }

    @Test
    void withoutFailuresAPolicyStaysAsItIs() {
        RetryOptions policy = policy().setMaximumAttempts(3).build();
        assertSame(policy, WorkflowOutbound.restOf(policy, 0));
        assertNull(WorkflowOutbound.restOf(null, 0));
    }

    /** An activity's info with these answers, by the methods' names. */
    private static ActivityInfo info(Map<String, Object> answers) {
        Map<String, Object> all =
                new java.util.HashMap<>(
                        Map.of(
                                "getWorkflowId",
                                "w",
                                "getRunId",
                                "r",
                                "getActivityId",
                                "5",
                                "getAttempt",
                                1,
                                "isLocal",
                                false,
                                "getScheduleToCloseTimeout",
                                Duration.ZERO,
                                "getScheduledTimestamp",
                                System.currentTimeMillis()));
        all.putAll(answers);
        return (ActivityInfo)
                Proxy.newProxyInstance(
                        ActivityInfo.class.getClassLoader(),
                        new Class<?>[] {ActivityInfo.class},
                        (proxy, method, arguments) -> all.get(method.getName()));
    }

    private static Step step(Map<String, Object> answers, Progress before) {
        return new Step(
                Duration.ofSeconds(1), Duration.ZERO, info(answers), Optional.ofNullable(before));
    }

    @Test
    void aQuestionIsFilledByItsActivity() {
        Step step = step(Map.of("getAttempt", 2), new Progress("w/r/3", 4, 1));
        Question first = step.filled(QUESTION);
        assertEquals("w/r/3", first.requestId());
        assertEquals(6, first.attempt());
        assertEquals(Duration.ofSeconds(1), first.timerFloor());
        assertTrue(first.deadline().isEmpty());
        assertEquals("w/r/3/2", step.filled(QUESTION).requestId());
        Question own = QUESTION.toBuilder().requestId("own").maxHold(Duration.ofMillis(7)).build();
        assertEquals("own", step.filled(own).requestId());
        assertEquals(Duration.ofMillis(7), step.filled(own).maxHold());
    }

    @Test
    void theDeadlineIsTheEndOfScheduleToClose() {
        Map<String, Object> answers =
                Map.of(
                        "getScheduleToCloseTimeout",
                        Duration.ofSeconds(60),
                        "getScheduledTimestamp",
                        System.currentTimeMillis() - 20_000);
        Duration left = step(answers, null).filled(QUESTION).deadline().orElseThrow();
        assertTrue(left.compareTo(Duration.ofSeconds(40)) <= 0, left.toString());
        assertTrue(left.compareTo(Duration.ofSeconds(30)) > 0, left.toString());
        // The server's clock is ahead of this one.
        Map<String, Object> ahead =
                Map.of(
                        "getScheduleToCloseTimeout",
                        Duration.ofSeconds(60),
                        "getScheduledTimestamp",
                        System.currentTimeMillis() + 20_000);
        assertEquals(
                Duration.ofSeconds(60),
                step(ahead, null).filled(QUESTION).deadline().orElseThrow());
    }

    @Test
    void longIdsFitTheContract() {
        assertEquals("w/r/5", Step.requestId(info(Map.of())));
        String workflow = "w".repeat(500);
        String one = Step.requestId(info(Map.of("getWorkflowId", workflow)));
        String other =
                Step.requestId(info(Map.of("getWorkflowId", workflow, "getActivityId", "6")));
        assertEquals(64, one.length());
        assertNotEquals(one, other);
    }

    @Test
    void localActivitiesCannotAsk() {
        Step local = step(Map.of("isLocal", true), null);
        ApplicationFailure failure =
                assertThrows(ApplicationFailure.class, () -> local.filled(QUESTION));
        assertTrue(failure.isNonRetryable());
    }

    @Test
    void outsideOfAWorker() {
        assertThrows(IllegalStateException.class, () -> FairgateInterceptor.ofActivity(QUESTION));
        Step step = step(Map.of(), null);
        assertEquals("w/r/5", step.run(() -> FairgateInterceptor.ofActivity(QUESTION).requestId()));
        assertThrows(IllegalStateException.class, () -> FairgateInterceptor.ofActivity(QUESTION));
    }

    @Test
    void failuresOfTheActivityStayAsTheyAre() {
        RuntimeException error = new IllegalArgumentException("its own");
        Step step = step(Map.of(), null);
        assertSame(
                error,
                assertThrows(
                        IllegalArgumentException.class,
                        () ->
                                step.run(
                                        () -> {
                                            throw error;
                                        })));
    }

    @Test
    void whatIsPassedOnIsTheSameInEveryLanguage() {
        Progress progress = new Progress("w/r/5", 2, 1);
        Header header = progress.addedTo(Header.empty());
        String json = header.getValues().get("fairgate").getData().toStringUtf8();
        assertTrue(json.contains("\"attempts_before\":2"), json);
        assertEquals(Optional.of(progress), Progress.in(header));
        assertEquals(Optional.empty(), Progress.in(Header.empty()));
        ApplicationFailure failure =
                new Deferral(Duration.ofNanos(1_000_001), progress).failure("later");
        assertEquals("fairgate.Deferred", failure.getType());
        assertTrue(failure.isNonRetryable());
        assertEquals(0, failure.getStackTrace().length);
        assertEquals(
                Map.of("delay_ms", 2L, "next", progress.json()),
                failure.getDetails().get(0, Map.class));
        failure.setDataConverter(DefaultDataConverter.STANDARD_INSTANCE);
        assertFalse(failure.getDetails().getSize() == 0);
    }
}
