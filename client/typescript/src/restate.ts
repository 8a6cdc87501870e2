/**
 * Restate: who is deferred ends its step, and the handler sleeps on a durable timer until its turn.
 *
 *     const restateGate = new RestateGate(gate);
 *     const reply = await restateGate.run(ctx, "ask", { target: "openai", tenant: "acme", tokens: 900 }, async (call) => {
 *       const response = await askTheProvider();
 *       call.settle({ response });
 *       return response.text;
 *     });
 *
 * `run` is `ctx.run` with the gate's permission. While the handler sleeps it is suspended, so its slot is free; Restate
 * suspends after the service's inactivityTimeout.
 *
 * @packageDocumentation
 */
import { type Context, type RunOptions, serde, TerminalError } from "@restatedev/restate-sdk";
import type { Call } from "./call.js";
import { type Outcome, Steps } from "./durable.js";
import { FairgateError } from "./errors.js";
import type { Gate } from "./gate.js";
import type { Question } from "./options.js";
import type { RejectReason } from "./values.js";

const INITIAL_RETRY_INTERVAL_MS = 50; // the SDK's defaults
const MAX_RETRY_INTERVAL_MS = 10_000;
const RETRY_INTERVAL_FACTOR = 2;
// By invocation, of whichever RestateGate. A replay makes the context anew and counts again from the start.
const callsOf = new WeakMap<Context, number>();

/** How steps ask. */
export interface RestateGateOptions {
  /** The shortest sleep that is worth its suspension; the durable timer itself has no floor. Default 0. */
  timerFloorMs?: number;
  /** A question may be held by the gate that long instead of being deferred, which keeps the slot. Default 0. */
  maxHoldMs?: number;
}

/**
 * A question of a step. `requestId` is the invocation's id and the number of the call in it, unless given. `deadlineMs`
 * counts from the call of `run`, sleeps and retries included.
 */
export type StepQuestion = Omit<
  Question,
  "attempt" | "checkOnly" | "maxHoldMs" | "maxWaitMs" | "signal" | "timerFloorMs"
>;

/** The step's own retry policy; times in milliseconds. maxRetryAttempts counts sends, over all deferrals. */
export type StepOptions<T> = Omit<RunOptions<T>, "initialRetryInterval" | "maxRetryInterval"> & {
  initialRetryInterval?: number;
  maxRetryInterval?: number;
};

/** Waiting would not help. Terminal, so that an invocation that does not catch it fails without a retry. */
export class Rejected extends TerminalError {
  override name = "Rejected";
  readonly reason: RejectReason;

  constructor(reason: RejectReason, explanation: string) {
    super(`${reason}: ${explanation}`, { errorCode: 422 });
    this.reason = reason;
  }
}

/** Runs steps with the gate's permission; make one per worker and keep it. */
export class RestateGate {
  readonly #gate: Gate;
  readonly #options: RestateGateOptions;
  readonly #steps: Steps;

  constructor(gate: Gate, options: RestateGateOptions = {}) {
    this.#gate = gate;
    this.#steps = new Steps(gate);
    this.#options = options;
  }

  /**
   * Does `action` as the step `name` when the gate lets it go; resolves with its result.
   *
   * Rejects with Rejected, and with TerminalError as ctx.run does.
   */
  async run<T>(
    ctx: Context,
    name: string,
    question: StepQuestion,
    action: (call: Call) => Promise<T>,
    options: StepOptions<T> = {},
  ): Promise<T> {
    const requestId = question.requestId ?? nextRequestId(ctx);
    const dueAtMs = question.deadlineMs === undefined ? undefined : (await ctx.date.now()) + question.deadlineMs;
    for (let attempt = 1; ;) {
      const asked = attempt;
      const durable = { ...question, ...this.#options, requestId };
      const step = (): Promise<Outcome<T>> => this.#steps.do(durable, dueAtMs, asked, action);
      const outcome = await ctx.run(name, step, restOf(options, asked - 1));
      if (outcome.kind === "done") return outcome.result;
      if (outcome.kind === "rejected") throw new Rejected(outcome.reason, outcome.explanation);
      attempt = outcome.attempt;
      try {
        await ctx.sleep(outcome.delayMs, `${name}: deferred`);
      } catch (error) {
        // The invocation was cancelled: its place is given up, or lost after a grace period.
        if (error instanceof TerminalError) await this.#withdraw({ target: question.target, requestId, attempt });
        throw error;
      }
    }
  }

  async #withdraw(place: { target: string; requestId: string; attempt: number }): Promise<void> {
    try {
      await this.#gate.withdraw(place);
    } catch (error) {
      if (!(error instanceof FairgateError)) throw error;
    }
  }
}

function nextRequestId(ctx: Context): string {
  const number = (callsOf.get(ctx) ?? 0) + 1;
  callsOf.set(ctx, number);
  return `${ctx.request().id}/${number}`;
}

/** What is left of the retry policy: Restate counts a step's attempts from its last entry in the journal. */
function restOf<T>({ serde: results, ...options }: StepOptions<T>, failures: number): RunOptions<Outcome<T>> {
  const rest: RunOptions<Outcome<T>> = { ...options, ...(results && { serde: outcomes(results) }) };
  if (failures === 0) return rest;
  if (options.maxRetryAttempts !== undefined) {
    rest.maxRetryAttempts = Math.max(options.maxRetryAttempts - failures, 1);
  }
  if (options.initialRetryInterval !== undefined || options.maxRetryAttempts !== undefined) {
    const factor = (options.retryIntervalFactor ?? RETRY_INTERVAL_FACTOR) ** failures;
    const longest = options.maxRetryInterval ?? MAX_RETRY_INTERVAL_MS;
    rest.initialRetryInterval = Math.min((options.initialRetryInterval ?? INITIAL_RETRY_INTERVAL_MS) * factor, longest);
  }
  return rest;
}

type Serde<T> = NonNullable<RunOptions<T>["serde"]>;

/** A result as its own serde writes it, within the JSON of the rest. */
function outcomes<T>(results: Serde<T>): Serde<Outcome<T>> {
  return {
    contentType: "application/json",
    serialize: (outcome) =>
      serde.json.serialize(
        outcome.kind === "done"
          ? { ...outcome, result: Buffer.from(results.serialize(outcome.result)).toString("base64") }
          : outcome,
      ),
    deserialize: (data) => {
      const outcome = serde.json.deserialize(data) as Outcome<string>;
      if (outcome.kind !== "done") return outcome;
      return { ...outcome, result: results.deserialize(Buffer.from(outcome.result, "base64")) };
    },
  };
}
