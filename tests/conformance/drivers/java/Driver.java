import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.fairgate.client.Answer;
import io.fairgate.client.Call;
import io.fairgate.client.CallOutcome;
import io.fairgate.client.Gate;
import io.fairgate.client.GateException;
import io.fairgate.client.GateOptions;
import io.fairgate.client.NotAdmitted;
import io.fairgate.client.Response;
import io.fairgate.client.Settlement;
import io.fairgate.client.TokenEstimator;
import io.fairgate.client.Usage;
import io.fairgate.client.Version;
import io.grpc.Context;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The Java client's driver. A cancellation is an interrupt of the thread that asks. */
public final class Driver {
    private static final class ApplicationException extends Exception {}

    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    private final List<Map<String, Object>> events = new ArrayList<>(); // guarded by itself
    private Gate gate;

    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer;
            try {
                answer = driver.answer(GSON.fromJson(line, Command.class));
            } catch (Exception error) {
                error.printStackTrace();
                answer = Map.of("driver_error", error.toString());
            }
            out.println(GSON.toJson(answer));
        }
        driver.threads.shutdownNow();
        driver.timer.shutdownNow();
    }

    private Map<String, Object> answer(Command asked) throws Exception {
        switch (asked.op) {
            case "hello":
                return Map.of("client", "java", "version", Version.get());
            case "open":
                open(asked);
                return Map.of();
            case "admit":
                return threads.submit(() -> admit(asked)).get(); // the next one is not interrupted
            case "burst":
                return burst(asked);
            case "withdraw":
                try {
                    String result =
                            gate.withdraw(asked.target, asked.request_id, asked.attempt)
                                    .result()
                                    .name();
                    return Map.of("released", result);
                } catch (GateException error) {
                    return Map.of("code", error.code().name());
                }
            case "counters":
                return Answers.of(gate.counters());
            case "events":
                synchronized (events) {
                    List<Map<String, Object>> seen = List.copyOf(events);
                    events.clear();
                    return Map.of("events", seen);
                }
            case "settlement":
                return settlement(asked);
            case "estimate":
                TokenEstimator estimator = TokenEstimator.DEFAULT.withOutput(asked.output);
                return Map.of("tokens", estimator.tokens(asked.body));
            case "close":
                gate.close();
                return Map.of();
            default:
                throw new IllegalArgumentException("unknown op " + asked.op);
        }
    }

    private void open(Command asked) {
        if (gate != null) {
            gate.close(); // of a case that did not
        }
        synchronized (events) {
            events.clear();
        }
        GateOptions.Builder options =
                GateOptions.builder()
                        .onEvent(
                                event -> {
                                    synchronized (events) {
                                        events.add(Answers.of(event));
                                    }
                                });
        Command.Options said = asked.options;
        Optional.ofNullable(said.rpc_timeout_ms)
                .map(Command::milliseconds)
                .ifPresent(options::rpcTimeout);
        Optional.ofNullable(said.fail_open).ifPresent(options::failOpen);
        Optional.ofNullable(said.breaker_failures).ifPresent(options::breakerFailures);
        Optional.ofNullable(said.breaker_cooldown_ms)
                .map(Command::milliseconds)
                .ifPresent(options::breakerCooldown);
        Optional.ofNullable(said.keepalive_ms)
                .map(Command::milliseconds)
                .ifPresent(options::keepalive);
        gate = new Gate(asked.address, options.build());
    }

    private Map<String, Object> burst(Command asked) throws Exception {
        List<Future<Map<String, Object>>> answers = new ArrayList<>();
        for (int n = 0; n < asked.count; n++) {
            answers.add(threads.submit(() -> admit(asked.admit)));
        }
        Map<String, Integer> outcomes = new HashMap<>();
        double slowestMs = 0;
        for (Future<Map<String, Object>> future : answers) {
            Map<String, Object> answer = future.get();
            outcomes.merge((String) answer.get("outcome"), 1, Integer::sum);
            slowestMs = Math.max(slowestMs, (Double) answer.get("elapsed_ms"));
        }
        return Map.of("outcomes", outcomes, "elapsed_ms_max", slowestMs);
    }

    private Map<String, Object> admit(Command asked) throws Exception {
        if (asked.context_deadline_ms == null) {
            return admitHere(asked);
        }
        long within = (long) (asked.context_deadline_ms * 1e6);
        try (Context.CancellableContext context =
                Context.current().withDeadlineAfter(within, TimeUnit.NANOSECONDS, timer)) {
            return context.call(() -> admitHere(asked));
        }
    }

    private Map<String, Object> admitHere(Command asked) throws Exception {
        Future<?> cancellation = null;
        if (asked.cancel_after_ms != null) {
            long after = (long) (asked.cancel_after_ms * 1e6);
            cancellation =
                    timer.schedule(Thread.currentThread()::interrupt, after, TimeUnit.NANOSECONDS);
        }
        long began = System.nanoTime();
        try {
            Call call = ask(asked);
            Map<String, Object> said = timed(Answers.of(call), began);
            said.putAll(leave(call, asked));
            call.report()
                    .ifPresent(
                            report -> {
                                said.put("released", report.result().name());
                                said.put("refunded", report.refunded());
                            });
            return said;
        } catch (NotAdmitted answer) {
            return timed(Answers.of((Answer) answer), began);
        } catch (GateException error) {
            return timed(Answers.of(error), began);
        } catch (CancellationException cancelled) {
            return timed(
                    new HashMap<>(Map.of("outcome", "CANCELLED", "ended_by", "cancelled")), began);
        } finally {
            if (cancellation != null) {
                cancellation.cancel(false);
            }
            Thread.interrupted(); // the pool's thread is used again
        }
    }

    private static Map<String, Object> timed(Map<String, Object> said, long began) {
        said.put("elapsed_ms", (System.nanoTime() - began) / 1e6);
        return said;
    }

    private Call ask(Command asked) {
        if (asked.max_wait_ms == null || asked.max_wait_ms.isJsonNull()) {
            return gate.admit(asked.question());
        }
        boolean isForever = asked.max_wait_ms.getAsJsonPrimitive().isString();
        return gate.admitWait(
                asked.question(),
                isForever ? Gate.FOREVER : Command.milliseconds(asked.max_wait_ms.getAsDouble()));
    }

    /** Does what the block does, and leaves it. */
    private static Map<String, Object> leave(Call call, Command asked) {
        Map<String, Object> said = new HashMap<>();
        try (call) {
            for (Command.Action action : actions(asked)) {
                act(call, action, said);
            }
        } catch (ApplicationException error) {
            said.put("ended_by", "application");
        } catch (InterruptedException error) {
            said.put("ended_by", "cancelled");
        }
        return said;
    }

    private static Command.Action[] actions(Command asked) {
        return asked.body == null
                ? new Command.Action[0]
                : GSON.fromJson(asked.body, Command.Action[].class);
    }

    private static void act(Call call, Command.Action action, Map<String, Object> said)
            throws ApplicationException, InterruptedException {
        if (action.settle != null) {
            Double wait = action.settle.retry_after_ms;
            call.settle(
                    new Settlement(
                            CallOutcome.valueOf(action.settle.outcome),
                            action.settle.actual,
                            Optional.ofNullable(wait).map(Command::milliseconds),
                            action.settle.rateLimits()));
        } else if (action.response != null) {
            Command.Response response = action.response;
            call.settle(Response.of(response.status, response.headers, response.body));
        } else if (action.extend != null) {
            Command.Extend extend = action.extend;
            said.put(
                    "extended_ms",
                    Command.inMs(
                            call.extend(
                                    Command.milliseconds(extend.lease_ttl_ms),
                                    extend.used_so_far)));
        } else if (action.sent) {
            call.sent();
        } else if (action.not_sent) {
            call.notSent();
        } else if (action.raise) {
            throw new ApplicationException();
        } else if (action.cancel) {
            Thread.currentThread().interrupt(); // and close() runs in a thread that is interrupted
            throw new InterruptedException();
        } else if (action.sleep_ms > 0) {
            Thread.sleep((long) action.sleep_ms);
        }
    }

    private static Map<String, Object> settlement(Command asked) {
        Map<String, Usage> dimensions = new HashMap<>();
        asked.dimensions.forEach(name -> dimensions.put(name, Usage.DIMENSIONS.get(name)));
        Instant now =
                asked.now_s == null
                        ? Instant.now()
                        : Instant.ofEpochMilli((long) (asked.now_s * 1000));
        return Answers.of(
                Response.of(asked.status, asked.headers, asked.body).settlement(dimensions, now));
    }
}
