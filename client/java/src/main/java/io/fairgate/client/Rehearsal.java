package io.fairgate.client;

import com.google.protobuf.Empty;
import com.google.protobuf.InvalidProtocolBufferException;
import io.fairgate.v1.AdmissionServiceGrpc;
import io.fairgate.v1.AdmitResponse;
import io.fairgate.v1.Grant;
import io.grpc.Context;
import io.grpc.MethodDescriptor;
import io.grpc.protobuf.ProtoUtils;

/**
 * Connects, and does once all that a question does, for a program that has just started: loading
 * the classes alone takes longer than a question may. The gate is asked for its health.
 */
final class Rehearsal {
    // No field of request or response is of interest.
    private static final MethodDescriptor<Empty, Empty> CHECK =
            MethodDescriptor.<Empty, Empty>newBuilder()
                    .setType(MethodDescriptor.MethodType.UNARY)
                    .setFullMethodName("grpc.health.v1.Health/Check")
                    .setRequestMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
                    .setResponseMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
                    .build();

    private Rehearsal() {}

    /** Whatever comes of it, within that time. */
    static void run(Connection connection, long timeoutNanos) {
        Health nobodys = new Health(GateOptions.builder().breakerFailures(0).build());
        long untilNanos = System.nanoTime() + timeoutNanos;
        Context context = Context.current().fork();
        new Exchange<>(
                        connection,
                        nobodys,
                        CHECK,
                        Empty.getDefaultInstance(),
                        context,
                        untilNanos,
                        true)
                .run()
                .join();
        readAnAnswer();
    }

    private static void readAnAnswer() {
        Question question = Question.builder("", "").tokens(1).build();
        AdmitResponse.Builder answer = AdmitResponse.newBuilder();
        answer.setGrant(Grant.newBuilder().putAllDebited(question.cost()));
        AdmissionServiceGrpc.getAdmitMethod().streamRequest(Wire.admitRequest(question).build());
        try {
            Wire.admitOutcome(AdmitResponse.parseFrom(answer.build().toByteString()));
        } catch (InvalidProtocolBufferException never) {
            throw new IllegalStateException(never);
        }
    }
}
