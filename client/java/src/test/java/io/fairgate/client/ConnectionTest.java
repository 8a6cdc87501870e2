package io.fairgate.client;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class ConnectionTest {
    // In five seconds gRPC's own backoff (1 s, 1.6 s, 2.6 s, ...) gets to four.
    private static final int ATTEMPTS_MIN = 8;
    private static final Duration WITHIN = Duration.ofSeconds(5);

    @Test
    void aGateThatIsAwayIsTriedMoreOftenThanGrpcWould() throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        GateOptions options =
                GateOptions.builder().breakerFailures(0).connectTimeout(Duration.ZERO).build();
        try (ServerSocket away = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Gate gate = new Gate("127.0.0.1:" + away.getLocalPort(), options)) {
            Thread hangingUp = new Thread(() -> hangUp(away, attempts));
            hangingUp.setDaemon(true);
            hangingUp.start();
            long beganNanos = System.nanoTime();
            while (attempts.get() < ATTEMPTS_MIN
                    && System.nanoTime() - beganNanos < WITHIN.toNanos()) {
                try (Call call = gate.admit(Question.builder("t", "a").build())) {
                    assertTrue(call.failedOpen());
                }
                Thread.sleep(20);
            }
        }
        assertTrue(attempts.get() >= ATTEMPTS_MIN, attempts + " attempts");
    }

    private static void hangUp(ServerSocket on, AtomicInteger attempts) {
        try {
            while (true) {
                on.accept().close();
                attempts.incrementAndGet();
            }
        } catch (IOException closed) {
            return; // the test is over
        }
    }
}
