package io.fairgate.client;

import io.fairgate.v1.AdmissionServiceGrpc;
import io.fairgate.v1.AdmitRequest;
import io.fairgate.v1.AdmitResponse;
import io.fairgate.v1.Defer;
import io.fairgate.v1.Grant;
import io.fairgate.v1.ReleaseRequest;
import io.fairgate.v1.ReleaseResponse;
import io.fairgate.v1.ReleaseResult;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** Grants unless told otherwise, and keeps what it was asked. */
final class FakeGate extends AdmissionServiceGrpc.AdmissionServiceImplBase
        implements AutoCloseable {
    final List<AdmitRequest> admits = new CopyOnWriteArrayList<>();
    final List<ReleaseRequest> releases = new CopyOnWriteArrayList<>();
    volatile BiConsumer<AdmitRequest, StreamObserver<AdmitResponse>> answers =
            (asked, to) -> reply(to, granting(asked));
    volatile ReleaseResult result = ReleaseResult.RELEASE_RESULT_SETTLED;
    private final Server server;

    FakeGate() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        server =
                NettyServerBuilder.forAddress(new InetSocketAddress(loopback, 0))
                        .addService(this)
                        .build()
                        .start();
    }

    /** It answers with these. */
    FakeGate answering(Function<AdmitRequest, AdmitResponse> answer) {
        answers = (asked, to) -> reply(to, answer.apply(asked));
        return this;
    }

    /** Before this gate; a busy machine is no dead gate. */
    Gate connect() {
        return connect(GateOptions.builder());
    }

    Gate connect(GateOptions.Builder options) {
        return new Gate(
                "127.0.0.1:" + server.getPort(),
                options.rpcTimeout(Duration.ofSeconds(10)).build());
    }

    @Override
    public void admit(AdmitRequest asked, StreamObserver<AdmitResponse> to) {
        admits.add(asked);
        answers.accept(asked, to);
    }

    @Override
    public void release(ReleaseRequest asked, StreamObserver<ReleaseResponse> to) {
        releases.add(asked);
        reply(to, ReleaseResponse.newBuilder().setResult(result).build());
    }

    @Override
    public void close() {
        server.shutdownNow();
    }

    static <T> void reply(StreamObserver<T> to, T answer) {
        to.onNext(answer);
        to.onCompleted();
    }

    static AdmitResponse granting(AdmitRequest asked) {
        Grant.Builder grant = Grant.newBuilder().putAllDebited(asked.getCostMap());
        grant.setLeaseExpiresIn(com.google.protobuf.Duration.newBuilder().setSeconds(60));
        return answer(asked).setGrant(grant).build();
    }

    static AdmitResponse deferring(AdmitRequest asked, Duration delay) {
        return answer(asked)
                .setDefer(Defer.newBuilder().setRetryDelay(Wire.toProto(delay)))
                .build();
    }

    private static AdmitResponse.Builder answer(AdmitRequest asked) {
        return AdmitResponse.newBuilder()
                .setRequestId(asked.getRequestId())
                .setAttempt(asked.getAttempt());
    }
}
