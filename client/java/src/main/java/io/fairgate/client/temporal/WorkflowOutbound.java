package io.fairgate.client.temporal;

import io.temporal.activity.ActivityOptions;
import io.temporal.common.RetryOptions;
import io.temporal.common.interceptors.WorkflowOutboundCallsInterceptor;
import io.temporal.common.interceptors.WorkflowOutboundCallsInterceptorBase;
import io.temporal.workflow.CancellationScope;
import io.temporal.workflow.CompletablePromise;
import io.temporal.workflow.Promise;
import io.temporal.workflow.TimerOptions;
import io.temporal.workflow.Workflow;
import java.time.Duration;
import java.util.Optional;

/** The workflow's side. Deterministic: it knows only what the history holds. */
final class WorkflowOutbound extends WorkflowOutboundCallsInterceptorBase {
    private static final int DEFAULT_INTERVALS_MAX = 100; // maximum interval in initial intervals
    private static final TimerOptions TIMER =
            TimerOptions.newBuilder().setSummary("deferred by the gate").build();

    WorkflowOutbound(WorkflowOutboundCallsInterceptor next) {
        super(next);
    }

    @Override
    public <R> ActivityOutput<R> executeActivity(ActivityInput<R> input) {
        ActivityOutput<R> first = scheduled(input); // now, so that commands keep their order
        Admission<R> admission = new Admission<>(input);
        admission.follow(first.getResult());
        return new ActivityOutput<>(first.getActivityId(), admission.end);
    }

    private <R> ActivityOutput<R> scheduled(ActivityInput<R> input) {
        return super.executeActivity(input);
    }

    /**
     * An activity until it is deferred no more. Lives in callbacks: a workflow's thread for each
     * would take them from other workflows.
     */
    private final class Admission<R> {
        private final ActivityInput<R> asked;
        private final long beganMs = Workflow.currentTimeMillis();
        private final CancellationScope caller = CancellationScope.current();
        private final CompletablePromise<R> end = Workflow.newPromise();

        Admission(ActivityInput<R> asked) {
            this.asked = asked;
        }

        void follow(Promise<R> activity) {
            activity.handle(
                    (result, failure) -> {
                        if (failure == null) {
                            end.complete(result);
                        } else {
                            failing(() -> ended(failure));
                        }
                        return null;
                    });
        }

        private void ended(RuntimeException failure) {
            Optional<Deferral> deferral =
                    Deferral.in(failure).filter(told -> isInTime(told.delay()));
            if (deferral.isEmpty()) {
                end.completeExceptionally(failure);
                return;
            }
            inCallersScope(
                    () ->
                            Workflow.newTimer(deferral.get().delay(), TIMER)
                                    .handle(
                                            (nothing, cancelled) -> {
                                                failing(() -> slept(deferral.get(), cancelled));
                                                return null;
                                            }));
        }

        private void slept(Deferral deferral, RuntimeException cancelled) {
            if (cancelled != null) {
                end.completeExceptionally(cancelled);
                return;
            }
            ActivityInput<R> again =
                    new ActivityInput<>(
                            asked.getActivityName(),
                            asked.getResultClass(),
                            asked.getResultType(),
                            asked.getArgs(),
                            optionsAfter(deferral),
                            deferral.next().addedTo(asked.getHeader()));
            inCallersScope(() -> follow(scheduled(again).getResult()));
        }

        private ActivityOptions optionsAfter(Deferral deferral) {
            ActivityOptions options = asked.getOptions();
            ActivityOptions.Builder rest =
                    options.toBuilder()
                            .setRetryOptions(
                                    restOf(
                                            options.getRetryOptions(),
                                            deferral.next().failuresBefore()));
            Duration whole = options.getScheduleToCloseTimeout();
            if (whole != null && !whole.isZero()) {
                // The timer may have been late: then the server says that it is over.
                Duration left = whole.minusMillis(passedMs());
                rest.setScheduleToCloseTimeout(left.toMillis() > 0 ? left : Duration.ofMillis(1));
            }
            return rest.build();
        }

        private boolean isInTime(Duration delay) {
            Duration whole = asked.getOptions().getScheduleToCloseTimeout();
            return whole == null
                    || whole.isZero()
                    || delay.plusMillis(passedMs()).compareTo(whole) < 0;
        }

        private long passedMs() {
            return Workflow.currentTimeMillis() - beganMs;
        }

        /** Callbacks are in the workflow's own scope, which may be a wider one. */
        private void inCallersScope(Runnable work) {
            CancellationScope scope = Workflow.newDetachedCancellationScope(work);
            scope.run();
            caller.getCancellationRequest()
                    .thenApply(
                            reason -> {
                                scope.cancel(reason);
                                return null;
                            });
        }

        /** What a callback throws nobody would hear. */
        private void failing(Runnable work) {
            try {
                work.run();
            } catch (RuntimeException error) {
                end.completeExceptionally(error);
            }
        }
    }

    /** What is left of a policy: the server counts a scheduled activity's attempts from one. */
    static RetryOptions restOf(RetryOptions policy, int failures) {
        if (failures == 0) {
            return policy;
        }
        RetryOptions known = RetryOptions.newBuilder(policy).validateBuildWithDefaults();
        Duration longest = known.getMaximumInterval();
        if (longest == null) {
            longest = known.getInitialInterval().multipliedBy(DEFAULT_INTERVALS_MAX);
        }
        double intervalMs = known.getInitialInterval().toMillis();
        for (int n = 0; n < failures && intervalMs < longest.toMillis(); n++) {
            if (known.getBackoffCoefficient() == 1) {
                break; // it stays as it is, however many there were
            }
            intervalMs *= known.getBackoffCoefficient();
        }
        RetryOptions.Builder rest =
                known.toBuilder()
                        .setMaximumInterval(longest)
                        .setInitialInterval(
                                Duration.ofMillis((long) Math.min(intervalMs, longest.toMillis())));
        if (known.getMaximumAttempts() > 0) {
            rest.setMaximumAttempts(Math.max(known.getMaximumAttempts() - failures, 1));
        }
        return rest.build();
    }
}
