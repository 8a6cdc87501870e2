import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;

/** The workflow. */
@WorkflowInterface
public interface Calls {
    @WorkflowMethod(name = "Calls")
    void run(Work work);
}
