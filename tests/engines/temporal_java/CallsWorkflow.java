import io.temporal.activity.ActivityOptions;
import io.temporal.common.RetryOptions;
import io.temporal.workflow.Workflow;
import java.time.Duration;

/** Does the work's calls, one after the other. */
public final class CallsWorkflow implements Calls {
    @Override
    public void run(Work work) {
        ActivityOptions.Builder options =
                ActivityOptions.newBuilder()
                        .setStartToCloseTimeout(Options.seconds(work.attemptTimeout()))
                        .setRetryOptions(
                                RetryOptions.newBuilder()
                                        .setInitialInterval(Duration.ofMillis(100))
                                        .setMaximumAttempts(work.attemptsMax())
                                        .build());
        if (work.deadline() > 0) {
            options.setScheduleToCloseTimeout(Options.seconds(work.deadline()));
        }
        Steps steps = Workflow.newActivityStub(Steps.class, options.build());
        for (int n = 0; n < work.calls(); n++) {
            steps.call(work);
        }
        if (work.runs() > 1) {
            Workflow.continueAsNew(work.oneRunLess());
        }
    }
}
