/**
 * For Temporal workers: an activity that is deferred ends at once and gives its slot back, and the
 * workflow sleeps on a durable timer until its turn.
 *
 * <pre>{@code
 * WorkerFactoryOptions options =
 *     WorkerFactoryOptions.newBuilder().setWorkerInterceptors(new FairgateInterceptor()).build();
 *
 * public String complete(String prompt) { // an activity
 *   try (Call call = gate.admit(FairgateInterceptor.ofActivity(question))) {
 *     // here goes the external call
 *   }
 * }
 * }</pre>
 *
 * <p>A deferred activity fails with a failure of its own type that no retry policy retries. The
 * workflow's side of the interceptor sees it, sleeps, and schedules the activity again; the
 * workflow's code sees only the end. Workers of workflows and workers of activities both need the
 * interceptor; they may be written in different languages, because what is passed between them is
 * the same in all.
 *
 * <p>Needs {@code io.temporal:temporal-sdk}, which this package's users have and nobody else gets.
 */
package io.fairgate.client.temporal;
