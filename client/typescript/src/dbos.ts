/**
 * DBOS: who is deferred ends its step, and the workflow sleeps durably until its turn.
 *
 *     const dbosGate = new DBOSGate(gate);
 *     const complete = dbosGate.step("complete", async (call, prompt: string) => …, { queue: "calls" });
 *
 *     const chat = DBOS.registerWorkflow(async (prompt: string) => {
 *       return await complete.run({ target: "openai", tenant: "acme", tokens: 900 }, prompt);
 *     }, { name: "chat" });
 *
 * DBOS counts a workflow that sleeps as one that runs: it keeps its slot in its queue. So where slots are few it is the
 * step alone that goes through their queue, as a child workflow which ends when it is deferred. The workflow that sleeps
 * is in no queue, or in one that is not limited.
 *
 * @packageDocumentation
 */
import { DBOS, type StepConfig } from "@dbos-inc/dbos-sdk";
import type { Call } from "./call.js";
import { type Outcome, Steps } from "./durable.js";
import { Rejected } from "./errors.js";
import type { Gate } from "./gate.js";
import type { Question } from "./options.js";

const DEFAULT_POLLING_INTERVAL_MS = 1000;
// Of DBOS's steps.
const DEFAULT_MAX_ATTEMPTS = 3;
const DEFAULT_INTERVAL_SECONDS = 1;
const DEFAULT_BACKOFF_RATE = 2;
const INTERVAL_SECONDS_MAX = 3600;

/** How steps ask. */
export interface DBOSGateOptions {
  /** The shortest sleep that is worth its writes to the database; the timer itself has no floor. Default 0. */
  timerFloorMs?: number;
  /** A question may be held by the gate that long instead of being deferred, which keeps the slot. Default 0. */
  maxHoldMs?: number;
}

/**
 * A question of a step. `requestId` is the ids of the workflow and of the first step, unless given. `deadlineMs` counts
 * from the first question on, sleeps and retries included.
 */
export type StepQuestion = Omit<
  Question,
  "attempt" | "checkOnly" | "maxHoldMs" | "maxWaitMs" | "signal" | "timerFloorMs"
>;

/** A step's own retries, as of DBOS.runStep; maxAttempts counts sends, over all deferrals. */
export interface StepOptions extends Omit<StepConfig, "name"> {
  /** Name of the queue whose slots it takes; left out: none, the step is done where its workflow runs. */
  queue?: string;
  /** How often to look whether it has ended in its queue. Default 1000. */
  pollingIntervalMs?: number;
}

/** What a step hands on to the one that is done in its place. */
interface Progress {
  requestId: string | undefined;
  attempt: number;
  dueAtMs: number | undefined;
}

/** What a step leaves: recorded, as the arguments of a child workflow are. */
type Done<T> = Outcome<T> & { progress: Progress };

/** Makes steps that run with the gate's permission; make one, where workflows are registered. */
export class DBOSGate {
  readonly #steps: Steps;
  readonly #options: DBOSGateOptions;

  constructor(gate: Gate, options: DBOSGateOptions = {}) {
    this.#steps = new Steps(gate);
    this.#options = options;
  }

  /**
   * A step: `action` gets the call, and arguments that can be recorded. Before DBOS.launch(), as workflows are
   * registered: with a queue it registers one by the name `fairgate.NAME`.
   */
  step<Args extends unknown[], T>(
    name: string,
    action: (call: Call, ...args: Args) => Promise<T>,
    options: StepOptions = {},
  ): AdmittedStep<Args, T> {
    const doStep: DoStep<Args, T> = async (question, { requestId, attempt, dueAtMs }, args) => {
      const asked = { ...question, ...this.#options, requestId: requestId ?? "" };
      return await this.#steps.do(asked, dueAtMs, attempt, (call) => action(call, ...args));
    };
    return new AdmittedStep(name, doStep, options);
  }
}

type DoStep<Args, T> = (question: StepQuestion, progress: Progress, args: Args) => Promise<Outcome<T>>;
type Once<Args, T> = (question: StepQuestion, progress: Progress, args: Args) => Promise<Done<T>>;

/** See DBOSGate.step. */
export class AdmittedStep<Args extends unknown[], T> {
  readonly #name: string;
  readonly #doStep: DoStep<Args, T>;
  readonly #options: StepOptions;
  readonly #inQueue: Once<Args, T> | undefined;

  /** @internal */
  constructor(name: string, doStep: DoStep<Args, T>, options: StepOptions) {
    this.#name = name;
    this.#doStep = doStep;
    this.#options = options;
    if (options.queue !== undefined) {
      const once: Once<Args, T> = (question, progress, args) => this.#once(question, progress, args);
      this.#inQueue = DBOS.registerWorkflow(once, { name: `fairgate.${name}` });
    }
  }

  /**
   * In a workflow: does the step with `args` when the gate lets it go; resolves with its result. Rejects with Rejected,
   * and with what the step rejects with.
   */
  async run(question: StepQuestion, ...args: Args): Promise<T> {
    let progress: Progress = { requestId: question.requestId, attempt: 1, dueAtMs: undefined };
    for (;;) {
      const outcome = await this.#do(question, progress, args);
      progress = outcome.progress;
      if (outcome.kind === "done") return outcome.result;
      if (outcome.kind === "rejected") throw rejected(outcome.reason, outcome.explanation, progress);
      progress = { ...progress, attempt: outcome.attempt };
      await DBOS.sleep(outcome.delayMs);
    }
  }

  async #do(question: StepQuestion, progress: Progress, args: Args): Promise<Done<T>> {
    const { queue, pollingIntervalMs = DEFAULT_POLLING_INTERVAL_MS } = this.#options;
    if (queue === undefined || this.#inQueue === undefined) return await this.#once(question, progress, args);
    const handle = await DBOS.startWorkflow(this.#inQueue, { queueName: queue })(question, progress, args);
    return await handle.getResult({ pollingIntervalMs });
  }

  /** A step's worth, by the workflow itself or by its child in the queue. */
  async #once(question: StepQuestion, progress: Progress, args: Args): Promise<Done<T>> {
    const step = async (): Promise<Done<T>> => {
      const begun = begin(progress, question.deadlineMs);
      return { ...(await this.#doStep(question, begun, args)), progress: begun };
    };
    return await DBOS.runStep(step, { ...restOf(this.#options, progress.attempt - 1), name: this.#name });
  }
}

/** In a step. The first one has no id yet, and no instant to count from. */
function begin({ requestId, attempt, dueAtMs }: Progress, leftMs: number | undefined): Progress {
  return {
    requestId: requestId ?? `${DBOS.workflowID}/${DBOS.stepID}`,
    attempt,
    dueAtMs: dueAtMs ?? (leftMs === undefined ? undefined : Date.now() + leftMs),
  };
}

/** What is left of the retry policy: DBOS counts the attempts of each step from one. */
export function restOf(options: StepOptions, failures: number): StepConfig {
  const { queue: _, pollingIntervalMs: __, ...rest } = options;
  if (failures === 0 || !rest.retriesAllowed) return rest;
  const factor = (rest.backoffRate ?? DEFAULT_BACKOFF_RATE) ** failures;
  return {
    ...rest,
    maxAttempts: Math.max((rest.maxAttempts ?? DEFAULT_MAX_ATTEMPTS) - failures, 1),
    intervalSeconds: Math.min((rest.intervalSeconds ?? DEFAULT_INTERVAL_SECONDS) * factor, INTERVAL_SECONDS_MAX),
  };
}

function rejected(reason: Rejected["reason"], explanation: string, { requestId, attempt }: Progress): Rejected {
  return new Rejected({ reason, explanation, requestId: requestId ?? "", attempt, degraded: false });
}
