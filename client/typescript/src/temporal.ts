/**
 * Temporal: who is deferred gives its slot back, and the workflow sleeps on a durable timer until its turn.
 *
 *     Worker.create({ taskQueue, workflowsPath, activities, interceptors: fairgateInterceptors() });
 *
 *     async function complete(prompt: string) {
 *       return await gate.run({ target: "openai", tenant: "acme", tokens: 900, ...ofActivity() }, async (call) => …);
 *     }
 *
 * A deferred activity fails at once, with a failure of its own type that no retry policy retries. The workflow's side of
 * the interceptors sees it, sleeps, and schedules the activity again; the workflow's code sees only the end. Workers of
 * workflows and workers of activities both need the interceptors; they may be written in different languages, because
 * what is passed between them is the same in all: DEFERRED_TYPE with one detail, and the header HEADER.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import type { Context, Info } from "@temporalio/activity";
import { ApplicationFailure, ApplicationFailureCategory, defaultPayloadConverter } from "@temporalio/common";
import type { ActivityExecuteInput, ActivityInterceptorsFactory } from "@temporalio/worker";
import { Deferred, Rejected } from "./errors.js";
import { DEFERRED_TYPE, type Deferral, HEADER, type Progress, REJECTED_TYPE } from "./temporal-protocol.js";

export { DEFERRED_TYPE, HEADER, REJECTED_TYPE } from "./temporal-protocol.js";

const REQUEST_ID_BYTES_MAX = 256;
const NUMBER_BYTES_MAX = 8; // "/" and the number of a question

/** How activities ask. */
export interface TemporalOptions {
  /**
   * The shortest sleep that the server's durable timer can do. Default 1000, which is right unless the server's dynamic
   * configuration says otherwise (history.timerProcessorMaxTimeShift).
   */
  timerFloorMs?: number;
  /**
   * A question may be held by the gate that long instead of being deferred. It keeps the slot meanwhile, and spares the
   * history a deferral that is shorter. Default 0.
   */
  maxHoldMs?: number;
}

/** What a question takes from the activity that asks it. */
export interface ActivityQuestion {
  requestId: string;
  attempt: number;
  deadlineMs: number | undefined;
  timerFloorMs: number;
  maxHoldMs: number;
}

const steps = new AsyncLocalStorage<Step>();

/**
 * For a question: `{ target, tenant, …, ...ofActivity() }`. The second question of one activity has a requestId of its
 * own, and so on.
 */
export function ofActivity(): ActivityQuestion {
  const step = steps.getStore();
  if (step === undefined) throw new Error("not in an activity of a worker with fairgateInterceptors()");
  return step.question();
}

/** For `Worker.create({ interceptors })`; with others, both lists go behind theirs. */
export function fairgateInterceptors(options: TemporalOptions = {}): {
  activity: ActivityInterceptorsFactory[];
  workflowModules: string[];
} {
  const activity: ActivityInterceptorsFactory = (context: Context) => ({
    inbound: {
      execute: async (input, next) => {
        const step = new Step(options, context.info, input);
        return await steps.run(step, async () => {
          try {
            return await next(input);
          } catch (error) {
            throw step.translated(error);
          }
        });
      },
    },
  });
  // The extension is this file's own: sources are run as they are by some.
  const module = fileURLToPath(new URL(import.meta.url.replace(/temporal(\.\w+)$/, "temporal-workflow$1")));
  return { activity: [activity], workflowModules: [module] };
}

/** One run of an activity. */
class Step {
  private asked = 0;
  private readonly before: Progress;

  constructor(
    private readonly options: TemporalOptions,
    private readonly info: Info,
    input: ActivityExecuteInput,
  ) {
    const header = input.headers[HEADER];
    this.before =
      header === undefined
        ? { request_id: requestIdOf(info), attempts_before: 0, failures_before: 0 }
        : defaultPayloadConverter.fromPayload<Progress>(header);
  }

  question(): ActivityQuestion {
    if (this.info.isLocal || this.info.workflowExecution === undefined) {
      // A local activity that is lost with its workflow task is run again as the same attempt.
      throw ApplicationFailure.nonRetryable("only a workflow's activities that are not local can ask the gate");
    }
    this.asked += 1;
    const requestId = this.before.request_id;
    return {
      requestId: this.asked === 1 ? requestId : `${requestId}/${this.asked}`,
      attempt: this.before.attempts_before + this.info.attempt,
      deadlineMs: this.timeLeftMs(),
      timerFloorMs: this.options.timerFloorMs ?? 1000,
      maxHoldMs: this.options.maxHoldMs ?? 0,
    };
  }

  /** Failures of Temporal out of what is no failure, or cannot be mended by a retry. */
  translated(error: unknown): unknown {
    if (error instanceof Deferred) {
      const deferral: Deferral = { delay_ms: Math.ceil(error.delayMs), next: this.afterDeferral() };
      return ApplicationFailure.create({
        message: error.message,
        type: DEFERRED_TYPE,
        nonRetryable: true,
        category: ApplicationFailureCategory.BENIGN,
        details: [deferral],
      });
    }
    if (error instanceof Rejected) {
      const details = [error.reason, error.explanation];
      return ApplicationFailure.create({ message: error.message, type: REJECTED_TYPE, nonRetryable: true, details });
    }
    return error;
  }

  private afterDeferral(): Progress {
    const failed = this.info.attempt - 1;
    // Questions before the deferred one were granted: what they sent will be sent again, which is another attempt.
    const over = this.asked <= 1 ? failed : failed + 1;
    return {
      request_id: this.before.request_id,
      attempts_before: this.before.attempts_before + over,
      failures_before: this.before.failures_before + failed,
    };
  }

  private timeLeftMs(): number | undefined {
    const wholeMs = this.info.scheduleToCloseTimeoutMs;
    // The clocks are two: a difference must not make more of the time than there was.
    return wholeMs ? wholeMs - Math.max(Date.now() - this.info.scheduledTimestampMs, 0) : undefined;
  }
}

/** Of the run, not of the workflow alone: runs that continue it count their activities from one again. */
function requestIdOf(info: Info): string {
  const requestId = `${info.workflowExecution?.workflowId}/${info.workflowExecution?.runId}/${info.activityId}`;
  if (Buffer.byteLength(requestId) + NUMBER_BYTES_MAX <= REQUEST_ID_BYTES_MAX) return requestId;
  return createHash("sha256").update(requestId).digest("hex");
}
