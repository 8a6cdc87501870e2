package io.fairgate.client;

import io.grpc.Channel;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import java.util.concurrent.TimeUnit;

/** gRPC's channel to the gate, kept. */
final class Connection {
    private static final long KEEPALIVE_TIMEOUT_S = 5;
    private static final int TCP_CONNECT_TIMEOUT_MS = 1000;
    private static final long CLOSE_TIMEOUT_MS = 1000;
    private static final long RECONNECT_INTERVAL_NANOS = TimeUnit.MILLISECONDS.toNanos(200);

    private final ManagedChannel channel;
    private long reconnectAtNanos = System.nanoTime(); // guarded by this

    /** IllegalArgumentException: an address that gRPC does not understand. */
    Connection(String address, GateOptions options) {
        ManagedChannelBuilder<?> builder =
                Grpc.newChannelBuilder(address, options.credentials)
                        .keepAliveTime(options.keepalive.toNanos(), TimeUnit.NANOSECONDS)
                        .keepAliveTimeout(KEEPALIVE_TIMEOUT_S, TimeUnit.SECONDS)
                        .directExecutor() // what runs there completes a future
                        .idleTimeout(
                                365,
                                TimeUnit.DAYS) // connecting anew would eat the next question's time
                        .disableRetry() // what is safe is tried again here
                        .disableServiceConfigLookUp();
        if (builder instanceof NettyChannelBuilder netty) {
            netty.withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, TCP_CONNECT_TIMEOUT_MS);
        }
        options.channel.accept(builder);
        channel = builder.build();
    }

    /**
     * To ask by. gRPC backs off to two minutes after connections that failed, which would outlast
     * the breaker by far, and cannot be told otherwise: it is shaken instead.
     */
    Channel channel() {
        if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE && mayReconnect()) {
            channel.resetConnectBackoff();
        }
        return channel;
    }

    private synchronized boolean mayReconnect() {
        long nowNanos = System.nanoTime();
        if (nowNanos - reconnectAtNanos < 0) {
            return false;
        }
        reconnectAtNanos = nowNanos + RECONNECT_INTERVAL_NANOS;
        return true;
    }

    void close() {
        channel.shutdown();
        try {
            if (!channel.awaitTermination(CLOSE_TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
                channel.shutdownNow();
            }
        } catch (InterruptedException error) {
            channel.shutdownNow();
            Thread.currentThread().interrupt();
        }
    }
}
