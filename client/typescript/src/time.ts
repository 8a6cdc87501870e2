/** Durations, deadlines and sleeping. Everything is in milliseconds, fractions allowed, on a monotonic clock. */
import { AsyncLocalStorage } from "node:async_hooks";
import { performance } from "node:perf_hooks";
import type { Duration } from "./generated/google/protobuf/duration.js";

// setTimeout fires at once above this.
const TIMER_MAX_MS = 2 ** 31 - 1;
// Timers may be a little early.
const EARLY_MS = 2;
const DURATION_MAX_MS = 1e14;

const context = new AsyncLocalStorage<number | undefined>();
const deadlines = new WeakMap<AbortSignal, number>();

export function nowMs(): number {
  return performance.now();
}

/** RangeError: not finite. */
export function toProto(durationMs: number): Duration {
  if (!(Math.abs(durationMs) < DURATION_MAX_MS)) throw new RangeError(`not a duration: ${durationMs} ms`);
  const seconds = Math.trunc(durationMs / 1000);
  return { seconds, nanos: Math.trunc((durationMs - seconds * 1000) * 1e6) };
}

export function fromProto(duration: Duration | undefined): number {
  return duration === undefined ? 0 : duration.seconds * 1000 + duration.nanos / 1e6;
}

/**
 * Everything that `work` does has to be done within that time from now; admissions tell the gate what is left of it.
 * Of nested ones the earliest holds. undefined changes nothing.
 */
export function withDeadline<T>(withinMs: number | undefined, work: () => T): T {
  return context.run(earliest(context.getStore(), withinMs === undefined ? undefined : nowMs() + withinMs), work);
}

/**
 * As AbortSignal.timeout(), and admissions that get the signal know when it ends, which an AbortSignal does not tell.
 * Its reason is a "TimeoutError".
 */
export function deadlineSignal(withinMs: number): AbortSignal {
  const signal = AbortSignal.timeout(Math.min(Math.max(0, Math.ceil(withinMs)), TIMER_MAX_MS));
  deadlines.set(signal, nowMs() + withinMs);
  return signal;
}

/** The earliest of what is said, the signal's and the context's, as an instant; undefined: there is none. */
export function workDeadline(explicitMs: number | undefined, signal: AbortSignal | undefined): number | undefined {
  const explicit = explicitMs === undefined ? undefined : nowMs() + explicitMs;
  return earliest(earliest(explicit, signal && deadlines.get(signal)), context.getStore());
}

/** Whether a deadline has passed. */
export function isOver(dueAtMs: number | undefined): boolean {
  return dueAtMs !== undefined && dueAtMs - nowMs() < EARLY_MS;
}

function earliest(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}

/** Never early. Rejects with the signal's reason when it is aborted. */
export function sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
  const until = nowMs() + durationMs;
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const step = (): void => {
      const leftMs = until - nowMs();
      if (leftMs > 0) {
        timer = setTimeout(step, Math.min(Math.ceil(leftMs), TIMER_MAX_MS));
      } else {
        signal?.removeEventListener("abort", aborted);
        resolve();
      }
    };
    if (signal?.aborted) return aborted();
    signal?.addEventListener("abort", aborted, { once: true });
    step();
  });
}
