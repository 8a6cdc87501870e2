/**
 * Asks a Fairgate gate before a call to an API with hard quotas, and settles after it.
 *
 * <pre>{@code
 * try (Gate gate = new Gate("127.0.0.1:50051")) {
 *   Question question = Question.builder("openai-prod", "acme").tokens(9000).build();
 *   try (Call call = gate.admit(question)) { // Deferred, Rejected, GateException
 *     // here goes the external call
 *     call.settle("tokens", 8700);
 *   }
 * }
 * }</pre>
 *
 * <p>Make one {@link io.fairgate.client.Gate} and keep it: it holds one connection and is safe for
 * concurrent use.
 */
package io.fairgate.client;
