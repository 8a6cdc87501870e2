/**
 * What adapters for durable engines share: which attempt a step asks as, and what it leaves behind for the workflow.
 *
 * An engine does a step again after a failure, and after a crash of which nobody knows how far the step had come. The
 * gate knows: an attempt that was granted before is over, whether its request left or not. So a step asks as the first
 * attempt that is not over, and one attempt stays one HTTP send. client/ADAPTERS.md tells how to write an adapter with it.
 */
import type { Call } from "./call.js";
import { Deferred, Rejected } from "./errors.js";
import type { Gate } from "./gate.js";
import type { Question } from "./options.js";
import type { RejectReason } from "./values.js";

const HINTS_MAX = 10_000;

/** A question that a step asks, the same each time but for the attempt. */
export type DurableQuestion = Omit<Question, "attempt" | "checkOnly" | "deadlineMs" | "maxWaitMs" | "signal"> & {
  requestId: string;
};

/** What a step leaves in the engine's store. */
export type Outcome<T> =
  | { kind: "done"; result: T }
  | { kind: "deferred"; delayMs: number; attempt: number }
  | { kind: "rejected"; reason: RejectReason; explanation: string };

/** Does steps. It keeps nothing that matters: what it remembers of failures spares questions, no more. */
export class Steps {
  readonly #gate: Gate;
  readonly #nextAttempts = new Map<string, number>();

  constructor(gate: Gate) {
    this.#gate = gate;
  }

  /**
   * Asks as `attempt`, or as the first later one that is not over, and makes the call when it may go. Rejects with what
   * `action` rejects with, after the lease was settled, and with GateError.
   *
   * `dueAtMs`: when the work is useless; of the wall clock, because steps are done on different machines.
   */
  async do<T>(
    question: DurableQuestion,
    dueAtMs: number | undefined,
    attempt: number,
    action: (call: Call) => Promise<T>,
  ): Promise<Outcome<T>> {
    const { requestId } = question;
    const answer = await this.#ask(question, dueAtMs, Math.max(attempt, this.#nextAttempts.get(requestId) ?? 1));
    if (answer instanceof Rejected) {
      return { kind: "rejected", reason: answer.reason, explanation: answer.explanation };
    }
    if (answer instanceof Deferred) {
      this.#nextAttempts.delete(requestId); // what is told on is durable
      return { kind: "deferred", delayMs: answer.delayMs, attempt: answer.attempt };
    }
    try {
      const result = await action(answer);
      await answer.leave(undefined);
      this.#nextAttempts.delete(requestId);
      return { kind: "done", result };
    } catch (error) {
      await answer.leave(error);
      this.#remember(requestId, answer.attempt + 1);
      throw error;
    }
  }

  /**
   * As the first attempt that is not over. One that was granted before is: somebody who died, or was given up, may have
   * sent it. The next one settles it as unknown.
   */
  async #ask(
    question: DurableQuestion,
    dueAtMs: number | undefined,
    firstAttempt: number,
  ): Promise<Call | Deferred | Rejected> {
    for (let attempt = firstAttempt; ; attempt += 1) {
      const answer = await this.#gate.tryAdmit({
        ...question,
        attempt,
        deadlineMs: dueAtMs === undefined ? undefined : dueAtMs - Date.now(),
      });
      const isOver =
        answer instanceof Rejected
          ? answer.reason === "ALREADY_SETTLED" || answer.reason === "SUPERSEDED"
          : !(answer instanceof Deferred) && answer.repeated;
      if (!isOver) return answer;
    }
  }

  #remember(requestId: string, attempt: number): void {
    this.#nextAttempts.delete(requestId);
    this.#nextAttempts.set(requestId, attempt);
    const [oldest] = this.#nextAttempts.keys();
    if (this.#nextAttempts.size > HINTS_MAX && oldest !== undefined) this.#nextAttempts.delete(oldest);
  }
}
