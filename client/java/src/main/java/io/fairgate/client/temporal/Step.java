package io.fairgate.client.temporal;

import io.fairgate.client.Deferred;
import io.fairgate.client.Question;
import io.fairgate.client.Rejected;
import io.temporal.activity.ActivityInfo;
import io.temporal.failure.ApplicationFailure;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Optional;
import java.util.function.Supplier;

/** One run of an activity, in its thread. */
final class Step {
    private static final int REQUEST_ID_BYTES_MAX = 256;
    private static final int NUMBER_BYTES_MAX = 8; // "/" and the number of a question
    private static final ThreadLocal<Step> CURRENT = new ThreadLocal<>();

    private final Duration timerFloor;
    private final Duration maxHold;
    private final ActivityInfo info;
    private final Progress before;
    private int asked;

    Step(Duration timerFloor, Duration maxHold, ActivityInfo info, Optional<Progress> before) {
        this.timerFloor = timerFloor;
        this.maxHold = maxHold;
        this.info = info;
        this.before = before.orElseGet(() -> new Progress(requestId(info), 0, 0));
    }

    static Step current() {
        Step step = CURRENT.get();
        if (step == null) {
            throw new IllegalStateException(
                    "not in the thread of an activity of a worker with a FairgateInterceptor");
        }
        return step;
    }

    /** Does the activity, and makes failures of Temporal out of what is no failure. */
    <T> T run(Supplier<T> activity) {
        CURRENT.set(this);
        try {
            return activity.get();
        } catch (RuntimeException error) {
            throw translated(error);
        } finally {
            CURRENT.remove();
        }
    }

    Question filled(Question question) {
        if (info.isLocal() || info.getWorkflowId() == null) {
            // A local activity that is lost with its workflow task is run again as the same
            // attempt.
            throw ApplicationFailure.newNonRetryableFailure(
                    "only a workflow's activities that are not local can ask the gate",
                    "fairgate.Local");
        }
        asked++;
        Question.Builder builder =
                question.toBuilder().attempt(before.attemptsBefore() + info.getAttempt());
        if (question.requestId().isEmpty()) {
            builder.requestId(asked == 1 ? before.requestId() : before.requestId() + "/" + asked);
        }
        if (question.deadline().isEmpty()) {
            timeLeft().ifPresent(builder::deadline);
        }
        if (question.timerFloor().isZero()) {
            builder.timerFloor(timerFloor);
        }
        if (question.maxHold().isZero()) {
            builder.maxHold(maxHold);
        }
        return builder.build();
    }

    /** Until the end of schedule-to-close. What ends this attempt is no deadline of the work. */
    private Optional<Duration> timeLeft() {
        Duration whole = info.getScheduleToCloseTimeout();
        if (whole == null || whole.isZero()) {
            return Optional.empty();
        }
        // The clocks are two: a difference must not make more of the time than there was.
        long passedMs = Math.max(System.currentTimeMillis() - info.getScheduledTimestamp(), 0);
        return Optional.of(whole.minusMillis(passedMs));
    }

    private RuntimeException translated(RuntimeException error) {
        // As a rule it is the error itself; a program may have wrapped it.
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof Deferred deferred) {
                return new Deferral(deferred.delay(), afterDeferral())
                        .failure(deferred.getMessage());
            }
            if (cause instanceof Rejected rejected) {
                return ApplicationFailure.newNonRetryableFailure(
                        rejected.getMessage(),
                        FairgateInterceptor.REJECTED_TYPE,
                        rejected.reason().name(),
                        rejected.explanation());
            }
        }
        return error;
    }

    private Progress afterDeferral() {
        int failed = info.getAttempt() - 1;
        // Questions before the deferred one were granted: what they sent will be sent again, which
        // is another attempt.
        int over = asked <= 1 ? failed : failed + 1;
        return new Progress(
                before.requestId(),
                before.attemptsBefore() + over,
                before.failuresBefore() + failed);
    }

    /** Of the run, not of the workflow alone: those that continue it count from one again. */
    @SuppressWarnings("deprecation") // older SDKs have no getWorkflowRunId
    static String requestId(ActivityInfo info) {
        String id = String.join("/", info.getWorkflowId(), info.getRunId(), info.getActivityId());
        byte[] bytes = id.getBytes(StandardCharsets.UTF_8);
        return bytes.length + NUMBER_BYTES_MAX > REQUEST_ID_BYTES_MAX ? sha256(bytes) : id;
    }

    private static String sha256(byte[] bytes) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError("every Java has SHA-256", error);
        }
    }
}
