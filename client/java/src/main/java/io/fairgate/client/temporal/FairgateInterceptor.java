package io.fairgate.client.temporal;

import io.fairgate.client.Question;
import io.temporal.activity.ActivityExecutionContext;
import io.temporal.common.interceptors.ActivityInboundCallsInterceptor;
import io.temporal.common.interceptors.ActivityInboundCallsInterceptorBase;
import io.temporal.common.interceptors.WorkerInterceptorBase;
import io.temporal.common.interceptors.WorkflowInboundCallsInterceptor;
import io.temporal.common.interceptors.WorkflowInboundCallsInterceptorBase;
import io.temporal.common.interceptors.WorkflowOutboundCallsInterceptor;
import java.time.Duration;
import java.util.Objects;

/**
 * For {@code WorkerFactoryOptions.setWorkerInterceptors}, of workers and of those that replay; with
 * others the first in the list. Does not change.
 */
public final class FairgateInterceptor extends WorkerInterceptorBase {
    /**
     * Type of a deferral's {@code ApplicationFailure}: seen in histories, and by workflows only if
     * the wait passes a deadline.
     */
    public static final String DEFERRED_TYPE = "fairgate.Deferred";

    /**
     * Type of a rejection's {@code ApplicationFailure}; details: reason and explanation. Not
     * retried, since waiting would not help.
     */
    public static final String REJECTED_TYPE = "fairgate.Rejected";

    /** On an activity that is scheduled again. */
    public static final String HEADER = "fairgate";

    private static final Duration DEFAULT_TIMER_FLOOR = Duration.ofSeconds(1);

    private final Duration timerFloor;
    private final Duration maxHold;

    /** With a timer floor of one second, and without holds. */
    public FairgateInterceptor() {
        this(DEFAULT_TIMER_FLOOR, Duration.ZERO);
    }

    private FairgateInterceptor(Duration timerFloor, Duration maxHold) {
        this.timerFloor = Objects.requireNonNull(timerFloor, "timerFloor");
        this.maxHold = Objects.requireNonNull(maxHold, "maxHold");
    }

    /**
     * With another shortest sleep of the server's durable timer: it is one second, unless the
     * server's dynamic configuration says otherwise ({@code history.timerProcessorMaxTimeShift}).
     */
    public FairgateInterceptor withTimerFloor(Duration timerFloor) {
        return new FairgateInterceptor(timerFloor, maxHold);
    }

    /**
     * With questions that the gate may hold that long instead of deferring them. It keeps the slot
     * meanwhile, and spares the history a deferral that is shorter.
     */
    public FairgateInterceptor withMaxHold(Duration maxHold) {
        return new FairgateInterceptor(timerFloor, maxHold);
    }

    /**
     * The question as the running activity asks it: request id, attempt, deadline, timer floor and
     * hold. What the question says itself holds, but for the attempt. The second question of one
     * activity has a request id of its own, and so on.
     *
     * @throws IllegalStateException the thread is not an activity's of a worker with this
     *     interceptor
     */
    public static Question ofActivity(Question question) {
        return Step.current().filled(question);
    }

    @Override
    public ActivityInboundCallsInterceptor interceptActivity(ActivityInboundCallsInterceptor next) {
        return new ActivityInbound(next);
    }

    @Override
    public WorkflowInboundCallsInterceptor interceptWorkflow(WorkflowInboundCallsInterceptor next) {
        return new WorkflowInboundCallsInterceptorBase(next) {
            @Override
            public void init(WorkflowOutboundCallsInterceptor outbound) {
                super.init(new WorkflowOutbound(outbound));
            }
        };
    }

    private final class ActivityInbound extends ActivityInboundCallsInterceptorBase {
        private ActivityExecutionContext context;

        private ActivityInbound(ActivityInboundCallsInterceptor next) {
            super(next);
        }

        @Override
        public void init(ActivityExecutionContext context) {
            this.context = context;
            super.init(context);
        }

        @Override
        public ActivityOutput execute(ActivityInput input) {
            Step step =
                    new Step(
                            timerFloor, maxHold, context.getInfo(), Progress.in(input.getHeader()));
            return step.run(() -> super.execute(input));
        }
    }
}
