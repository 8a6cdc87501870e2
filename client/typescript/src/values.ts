/** What goes into a settlement and what comes back, free of the contract's generated types. */

/** Amounts by dimension name, in the dimension's own unit (one request, one token). */
export type Amounts = Readonly<Record<string, number>>;

/** A part of the token usage. */
export type UsageKind = "total" | "input" | "output";

/** Which usage a dimension of that name takes, unless the gate's options say otherwise. */
export const USAGE_KINDS: Readonly<Record<string, UsageKind>> = Object.freeze({
  tokens: "total",
  total_tokens: "total",
  input_tokens: "input",
  prompt_tokens: "input",
  output_tokens: "output",
  completion_tokens: "output",
});

/**
 * How the external call ended: fairgate.v1.CallOutcome.
 *
 * - `UNKNOWN`: not known; the estimate stays charged.
 * - `RATE_LIMITED`: the provider refused with a rate limit (429); the charge stays, the flow's turn is given back.
 * - `NOT_SENT`: the request never left; everything is refunded.
 */
export type CallOutcome = "UNKNOWN" | "OK" | "RATE_LIMITED" | "SERVER_ERROR" | "TIMEOUT" | "NOT_SENT";

/** Why waiting would not help: fairgate.v1.RejectReason; `UNSPECIFIED` also stands for what a newer gate says. */
export type RejectReason =
  | "UNSPECIFIED"
  | "COST_EXCEEDS_CAP"
  | "TARGET_DISABLED"
  | "DEADLINE_UNREACHABLE"
  | "ALREADY_SETTLED"
  | "SUPERSEDED"
  | "TENANT_NOT_LISTED";

/** What a release did: fairgate.v1.ReleaseResult; `UNSPECIFIED` also stands for what a newer gate says. */
export type ReleaseResult =
  "UNSPECIFIED" | "SETTLED" | "WITHDRAWN" | "EXTENDED" | "ALREADY_SETTLED" | "EXPIRED" | "UNKNOWN" | "QUEUED";

/** What keeps a call from going now. */
export interface Limit {
  /** "target", "class" or "tenant"; empty: what a newer gate says. */
  readonly layer: "target" | "class" | "tenant" | "";
  /** Empty when no single dimension limits. */
  readonly dimension: string;
}

/** What a call really used, and how it ended. */
export interface Settlement {
  readonly outcome: CallOutcome;
  /** Dimensions that are absent are unknown: their estimates stay charged. */
  readonly actual: Amounts;
  /** `RATE_LIMITED` only: how long the provider asks to wait, 0 to 24 h. The target pauses for it. */
  readonly retryAfterMs?: number;
  /** By dimension: what the response said of the provider's own count. */
  readonly rateLimits?: Readonly<Record<string, RateLimitStatus>>;
}

/** A provider's word on one of its limits, as in the headers x-ratelimit-{remaining,reset}-*. */
export interface RateLimitStatus {
  /** Left after this call, in the dimension's unit, 0 to 1e12. Left out: not told. */
  readonly remaining?: number;
  /** Until the running window ends, 0 to 24 h. Left out: not told. */
  readonly resetMs?: number;
}

/** What the gate made of a release. */
export interface ReleaseReport {
  readonly result: ReleaseResult;
  /** Given back by dimension; negative: charged on top. */
  readonly refunded: Amounts;
  /** The gate keeps it until its store is back. */
  readonly degraded: boolean;
  /** After `EXTENDED`: the lease's new life. */
  readonly leaseExpiresInMs?: number;
}

/** Answers since the gate object was made. */
export interface Counters {
  readonly granted: number;
  readonly deferred: number;
  readonly rejected: number;
  /** The gate could not be asked, and the call went nevertheless. */
  readonly failedOpen: number;
  /** An admission ended with a GateError. */
  readonly errors: number;
  /** Admissions and releases that did not go out: the breaker was open. */
  readonly breakerSkips: number;
  /** Settlements that did not reach the gate; their leases end by themselves. */
  readonly releasesLost: number;
}
