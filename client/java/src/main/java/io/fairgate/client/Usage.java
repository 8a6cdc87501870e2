package io.fairgate.client;

import java.util.Map;

/** A kind of token usage that providers tell. */
public enum Usage {
    /** Input and output. */
    TOTAL,
    /** What counts against the provider's limit: Anthropic's cache reads are not in it. */
    INPUT,
    /** What was written. */
    OUTPUT;

    /** What a dimension of that name takes, unless {@link GateOptions} say otherwise. */
    public static final Map<String, Usage> DIMENSIONS =
            Map.of(
                    "tokens", TOTAL,
                    "total_tokens", TOTAL,
                    "input_tokens", INPUT,
                    "prompt_tokens", INPUT,
                    "output_tokens", OUTPUT,
                    "completion_tokens", OUTPUT);
}
