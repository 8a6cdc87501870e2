import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityMethod;

/** The activity. */
@ActivityInterface
public interface Steps {
    @ActivityMethod(name = "call")
    void call(Work work);
}
