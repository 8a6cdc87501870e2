package io.fairgate.client;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelBuilder;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;

/** How to reach a gate, and what to do when that fails. */
public final class GateOptions {
    final Duration rpcTimeout;
    final Duration connectTimeout;
    final boolean failOpen;
    final int breakerFailures;
    final Duration breakerCooldown;
    final Duration keepalive;
    final ChannelCredentials credentials;
    final Consumer<ManagedChannelBuilder<?>> channel;
    final Map<String, Usage> usageDimensions;
    final Consumer<GateEvent> onEvent;

    private GateOptions(Builder builder) {
        rpcTimeout = builder.rpcTimeout;
        connectTimeout = builder.connectTimeout;
        failOpen = builder.failOpen;
        breakerFailures = builder.breakerFailures;
        breakerCooldown = builder.breakerCooldown;
        keepalive = builder.keepalive;
        credentials = builder.credentials;
        channel = builder.channel;
        usageDimensions = builder.usageDimensions;
        onEvent = builder.onEvent;
    }

    /** The defaults. */
    public static GateOptions defaults() {
        return builder().build();
    }

    /** The defaults, to be changed. */
    public static Builder builder() {
        return new Builder();
    }

    /** Makes {@link GateOptions}; what is not said is at its default. */
    public static final class Builder {
        private Duration rpcTimeout = Duration.ofMillis(100);
        private Duration connectTimeout = Duration.ofSeconds(2);
        private boolean failOpen = true;
        private int breakerFailures = 3;
        private Duration breakerCooldown = Duration.ofSeconds(1);
        private Duration keepalive = Duration.ofSeconds(30);
        private ChannelCredentials credentials = InsecureChannelCredentials.create();
        private Consumer<ManagedChannelBuilder<?>> channel = builder -> {};
        private Map<String, Usage> usageDimensions = Map.of();
        private Consumer<GateEvent> onEvent = event -> {};

        private Builder() {}

        /**
         * The longest time to wait for an answer, 100 ms; {@link Question#maxHold} comes on top.
         */
        public Builder rpcTimeout(Duration rpcTimeout) {
            this.rpcTimeout = rpcTimeout;
            return this;
        }

        /**
         * How long making a {@link Gate} may take to connect and to ask the gate for its health, 2
         * s. A Java program that has just started needs longer for its first question than {@link
         * #rpcTimeout} allows. It is no error that the gate is not there; zero: do neither.
         */
        public Builder connectTimeout(Duration connectTimeout) {
            this.connectTimeout = connectTimeout;
            return this;
        }

        /**
         * Whether a call may go, marked and counted, when the gate cannot be reached: true.
         * Otherwise that is a {@link GateException.Unreachable}. An answer of the gate itself is
         * never turned into a permission.
         */
        public Builder failOpen(boolean failOpen) {
            this.failOpen = failOpen;
            return this;
        }

        /**
         * So many failures in a row, 3, open the breaker: for {@link #breakerCooldown} nobody waits
         * for the gate, then one caller tries for all. 0: no breaker.
         */
        public Builder breakerFailures(int breakerFailures) {
            this.breakerFailures = breakerFailures;
            return this;
        }

        /** 1 s. */
        public Builder breakerCooldown(Duration breakerCooldown) {
            this.breakerCooldown = breakerCooldown;
            return this;
        }

        /**
         * Interval of pings while an answer is awaited, which detect a silent peer: 30 s, at least
         * 10.
         */
        public Builder keepalive(Duration keepalive) {
            this.keepalive = keepalive;
            return this;
        }

        /** Of the transport; not encrypted unless given. */
        public Builder credentials(ChannelCredentials credentials) {
            this.credentials = credentials;
            return this;
        }

        /** Changes gRPC's channel: interceptors, for example for traces or with tokens. */
        public Builder channel(Consumer<ManagedChannelBuilder<?>> channel) {
            this.channel = channel;
            return this;
        }

        /** Dimensions of yours that hold token usage, besides {@link Usage#DIMENSIONS}. */
        public Builder usageDimensions(Map<String, Usage> usageDimensions) {
            this.usageDimensions = Map.copyOf(usageDimensions);
            return this;
        }

        /**
         * Called with each answer, release and change of the breaker, by several threads: be quick.
         */
        public Builder onEvent(Consumer<GateEvent> onEvent) {
            this.onEvent = onEvent;
            return this;
        }

        /** What was said. */
        public GateOptions build() {
            return new GateOptions(this);
        }
    }
}
