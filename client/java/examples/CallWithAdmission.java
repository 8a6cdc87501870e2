import io.fairgate.client.Call;
import io.fairgate.client.Deferred;
import io.fairgate.client.Gate;
import io.fairgate.client.Question;
import io.fairgate.client.Rejected;
import io.fairgate.client.Response;

/** Calls something with a quota, with the gate's permission: [ADDRESS [TARGET [TENANT]]]. */
public final class CallWithAdmission {
    private CallWithAdmission() {}

    public static void main(String[] arguments) throws InterruptedException {
        String address = arguments.length > 0 ? arguments[0] : Gate.DEFAULT_ADDRESS;
        String target = arguments.length > 1 ? arguments[1] : "openai-prod";
        String tenant = arguments.length > 2 ? arguments[2] : "acme";
        Question question = Question.builder(target, tenant).tokens(900).build();
        try (Gate gate = new Gate(address)) {
            for (int number = 1; number <= 5; number++) {
                ask(gate, question, number);
            }
        }
    }

    private static void ask(Gate gate, Question question, int number) throws InterruptedException {
        try (Call call = gate.admit(question)) {
            call.settle(callTheProvider(number));
            System.out.printf("call %d: granted%s%n", number, call.degraded() ? ", degraded" : "");
        } catch (Deferred deferred) {
            // A worker of an engine gives its slot back here, and asks again with
            // deferred.requestId().
            double delay = deferred.delay().toNanos() / 1e9;
            System.out.printf("call %d: deferred by %.3f s%n", number, delay);
        } catch (Rejected rejected) {
            System.out.printf("call %d: rejected: %s%n", number, rejected.explanation());
        }
    }

    /** Stands for the external call, and answers as OpenAI's API does. */
    private static Response callTheProvider(int number) throws InterruptedException {
        Thread.sleep(20);
        return Response.of(
                200, "{\"id\": %d, \"usage\": {\"total_tokens\": 640}}".formatted(number));
    }
}
