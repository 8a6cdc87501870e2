/**
 * The workflow's side of the adapter for Temporal, for the workflow bundle: fairgateInterceptors() names it, and
 * `bundleWorkflowCode({ workflowInterceptorModules: fairgateInterceptors().workflowModules, … })`.
 *
 * Deterministic: it knows only what the history holds.
 */
import { msToNumber } from "@temporalio/common/lib/time.js";
import {
  type ActivityInput,
  type ActivityOptions,
  ActivityFailure,
  ApplicationFailure,
  defaultPayloadConverter,
  type Next,
  proxyActivities,
  type RetryPolicy,
  sleep,
  type WorkflowInterceptors,
  type WorkflowOutboundCallsInterceptor,
} from "@temporalio/workflow";
import { DEFERRED_TYPE, type Deferral, HEADER } from "./temporal-protocol.js";

// Of a retry policy that does not say, as the server has it.
const DEFAULT_INITIAL_INTERVAL_MS = 1000;
const DEFAULT_BACKOFF_COEFFICIENT = 2;
const DEFAULT_INTERVALS_MAX = 100; // maximumInterval in initialIntervals

type ScheduleNext = Next<WorkflowOutboundCallsInterceptor, "scheduleActivity">;
type Again = Pick<ActivityInput, "headers" | "typeInfo">;

/** Of an activity that is being scheduled again: it takes it on its way through here, before anything else can run. */
let again: Again | undefined;

async function scheduleActivity(input: ActivityInput, next: ScheduleNext): Promise<unknown> {
  if (again !== undefined) {
    const resumed = { ...input, ...again };
    again = undefined;
    return await next(resumed);
  }
  const began = Date.now();
  const { scheduleToCloseTimeout } = input.options;
  const until = scheduleToCloseTimeout === undefined ? Infinity : began + msToNumber(scheduleToCloseTimeout);
  let result = next(input);
  for (;;) {
    try {
      return await result;
    } catch (error) {
      const deferral = deferralOf(error);
      if (deferral === undefined || Date.now() + deferral.delay_ms >= until) throw error;
      await sleep(deferral.delay_ms, { summary: "deferred by the gate" });
      result = scheduledAgain(input, deferral, until);
    }
  }
}

/** Each activity needs a sequence number of its own, which only the SDK gives. */
function scheduledAgain(input: ActivityInput, { next: progress }: Deferral, until: number): Promise<unknown> {
  const options: ActivityOptions = { ...input.options };
  const retry = restOf(input.options.retry, progress.failures_before);
  if (retry !== undefined) options.retry = retry;
  // The timer may have been late: then the server says that it is over.
  if (until !== Infinity) options.scheduleToCloseTimeout = Math.max(until - Date.now(), 1);
  const headers = { ...input.headers, [HEADER]: defaultPayloadConverter.toPayload(progress) };
  again = input.typeInfo === undefined ? { headers } : { headers, typeInfo: input.typeInfo };
  const activities = proxyActivities<Record<string, (...args: unknown[]) => Promise<unknown>>>(options);
  try {
    return activities[input.activityType]!(...input.args);
  } finally {
    again = undefined;
  }
}

function deferralOf(error: unknown): Deferral | undefined {
  if (!(error instanceof ActivityFailure) || !(error.cause instanceof ApplicationFailure)) return undefined;
  return error.cause.type === DEFERRED_TYPE ? (error.cause.details?.[0] as Deferral | undefined) : undefined;
}

/** What is left of a policy: the server counts a scheduled activity's attempts from one. */
export function restOf(policy: RetryPolicy | undefined, failures: number): RetryPolicy | undefined {
  if (failures === 0) return policy;
  const initialMs = msToNumber(policy?.initialInterval ?? DEFAULT_INITIAL_INTERVAL_MS);
  const longestMs =
    policy?.maximumInterval === undefined ? initialMs * DEFAULT_INTERVALS_MAX : msToNumber(policy.maximumInterval);
  const coefficient = policy?.backoffCoefficient ?? DEFAULT_BACKOFF_COEFFICIENT;
  const rest: RetryPolicy = {
    ...policy,
    initialInterval: Math.min(initialMs * coefficient ** failures, longestMs),
    maximumInterval: longestMs,
  };
  if (policy?.maximumAttempts !== undefined) rest.maximumAttempts = Math.max(policy.maximumAttempts - failures, 1);
  return rest;
}

export const interceptors = (): WorkflowInterceptors => ({ outbound: [{ scheduleActivity }] });
