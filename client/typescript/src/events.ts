/** What metrics are made of: one event per answer. */
import type { CallOutcome, ReleaseResult } from "./values.js";

/** One question and its answer. */
export interface AdmitEvent {
  readonly type: "admit";
  readonly target: string;
  readonly tenant: string;
  readonly priority: string;
  readonly outcome: "granted" | "deferred" | "rejected" | "failed_open" | "error";
  readonly degraded: boolean;
  /** How long the caller waited for the answer. */
  readonly durationMs: number;
  /** Of a defer; 0 otherwise. */
  readonly delayMs: number;
}

/** One settlement, withdrawal or extension. */
export interface ReleaseEvent {
  readonly type: "release";
  readonly target: string;
  /** What the caller said. */
  readonly outcome: CallOutcome | "WITHDRAW" | "EXTEND";
  /** `LOST`: it did not reach the gate; `ERROR`: the gate refused it. */
  readonly result: ReleaseResult | "LOST" | "ERROR";
  readonly durationMs: number;
}

/** The breaker opened (the gate is not asked any more) or closed. */
export interface BreakerEvent {
  readonly type: "breaker";
  readonly open: boolean;
}

export type GateEvent = AdmitEvent | ReleaseEvent | BreakerEvent;
