import static io.fairgate.client.temporal.FairgateInterceptor.ofActivity;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import io.fairgate.client.Call;
import io.fairgate.client.Gate;
import io.fairgate.client.Question;
import io.fairgate.client.Response;
import io.temporal.activity.Activity;
import io.temporal.activity.ActivityInfo;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.LinkedHashMap;
import java.util.Map;

/** What the activity does. */
final class StepsActivities implements Steps {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private final Options options;
    private final Gate gate;

    StepsActivities(Options options, Gate gate) {
        this.options = options;
        this.gate = gate;
    }

    /** A JVM's first request takes long, and figure 1 counts from the grant to the send. */
    static void warmUp() throws IOException, InterruptedException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> exchange.sendResponseHeaders(200, -1));
        server.start();
        String upstream = "http://127.0.0.1:" + server.getAddress().getPort();
        send(new Work("warm-up", "", upstream, "", "", 1, 1, 1, 1, 0), "", 1, false);
        server.stop(0);
    }

    @Override
    public void call(Work work) {
        try {
            if (options.mode().equals("naive")) {
                naive(work);
            } else {
                admitted(work);
            }
        } catch (IOException | InterruptedException error) {
            throw Activity.wrap(error);
        }
    }

    private void admitted(Work work) throws IOException, InterruptedException {
        Question question =
                Question.builder(work.target(), work.tenant()).priority(work.priority()).build();
        try (Call call = gate.admit(ofActivity(question))) {
            dieAt("granted");
            HttpResponse<String> response =
                    send(work, call.requestId(), call.attempt(), call.degraded());
            dieAt("answered");
            if (call.attempt() <= options.failSends()) {
                throw new IOException("the connection broke");
            }
            call.settle(Response.of(response));
        }
    }

    private void naive(Work work) throws IOException, InterruptedException {
        ActivityInfo info = Activity.getExecutionContext().getInfo();
        while (true) {
            HttpResponse<String> response =
                    send(work, info.getActivityId(), info.getAttempt(), false);
            if (response.statusCode() == 200) {
                return;
            }
            String wait = response.headers().firstValue("Retry-After").orElseThrow();
            Thread.sleep(Long.parseLong(wait) * 1000);
        }
    }

    private void dieAt(String point) throws IOException, InterruptedException {
        if (options.dieAt().equals(point)) {
            String pid = String.valueOf(ProcessHandle.current().pid());
            new ProcessBuilder("kill", "-KILL", pid).start().waitFor();
            Thread.sleep(Long.MAX_VALUE); // the signal may take a moment, in which nothing is done
        }
    }

    private static HttpResponse<String> send(
            Work work, String requestId, int attempt, boolean degraded)
            throws IOException, InterruptedException {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(work.upstream()))
                        .header("Content-Type", "application/json")
                        .POST(
                                HttpRequest.BodyPublishers.ofString(
                                        body(work, requestId, attempt, degraded)))
                        .build();
        return HTTP.send(request, HttpResponse.BodyHandlers.ofString());
    }

    private static String body(Work work, String requestId, int attempt, boolean degraded)
            throws JsonProcessingException {
        Map<String, Object> sent = new LinkedHashMap<>();
        sent.put("work", work.work());
        sent.put("tenant", work.tenant());
        sent.put("priority", work.priority());
        sent.put("request_id", requestId);
        sent.put("attempt", attempt);
        sent.put("degraded", degraded);
        return JSON.writeValueAsString(sent);
    }
}
