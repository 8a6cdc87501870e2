/** Settings of a gate object, and the fields of a question. */
import type { ChannelCredentials, ChannelOptions } from "@grpc/grpc-js";
import type { GateEvent } from "./events.js";
import type { UsageKind } from "./values.js";
import type { Amounts } from "./values.js";

export const DEFAULT_ADDRESS = "127.0.0.1:50051";

/** Where warnings go; `console` is one. */
export interface Logger {
  warn(message: string): void;
  debug(message: string): void;
}

/** How to reach a gate, and what to do when that fails. */
export interface GateOptions {
  /** Longest time to wait for an answer; a question's maxHoldMs comes on top. Default 100. */
  rpcTimeoutMs?: number;
  /**
   * When the gate cannot be reached, let the call go (marked and counted) instead of throwing GateUnreachable. An
   * answer of the gate itself, UNAVAILABLE included, is never turned into a permission. Default true.
   */
  failOpen?: boolean;
  /**
   * So many failures in a row open the breaker: for breakerCooldownMs nobody waits for the gate. Then one call tries it
   * again. 0: no breaker. Default 3.
   */
  breakerFailures?: number;
  /** Default 1000. */
  breakerCooldownMs?: number;
  /** Interval of pings while an answer is awaited, which detect a silent peer. Default 30000. */
  keepaliveMs?: number;
  /** Default: not encrypted. */
  credentials?: ChannelCredentials;
  /** Sent with every call, for example an authorization header. */
  metadata?: Readonly<Record<string, string>>;
  /** gRPC channel options, over the ones set here. */
  channelOptions?: ChannelOptions;
  /** Called after every answer, release and change of the breaker; must be quick. What it throws is logged. */
  onEvent?: (event: GateEvent) => void;
  /** Dimensions of yours that hold token usage, over USAGE_KINDS. */
  usageDimensions?: Readonly<Record<string, UsageKind>>;
  /**
   * Told once when the breaker opens and once when the gate answers again, and of every settlement that was lost.
   * Default: warnings go to `console`; null: silent.
   */
  logger?: Logger | null;
}

/** One admission; fields as in fairgate.v1.AdmitRequest. */
export interface Question {
  target: string;
  tenant: string;
  /** Empty or left out: the target's default class. */
  priority?: string | undefined;
  /** Estimated use by dimension; "requests" is 1 unless given. */
  cost?: Amounts | undefined;
  /** Short for `cost: { tokens }`. */
  tokens?: number | undefined;
  /** The amounts are a reservation that the call cannot pass; what is not used is given back. */
  upperBound?: boolean | undefined;
  /**
   * Idempotency key, ticket and lease id at once; left out: one is made. Ask again after a Deferred with the same one
   * and the same attempt.
   */
  requestId?: string | undefined;
  /** One per HTTP send; 1 (default) to 1000000. */
  attempt?: number | undefined;
  /** Time left until the work is useless; the earliest of this, of a deadlineSignal() and of withDeadline() holds. */
  deadlineMs?: number | undefined;
  /** The shortest sleep that the caller's timer can do; no delay is shorter. */
  timerFloorMs?: number | undefined;
  /** The gate may hold its answer that long instead of deferring. */
  maxHoldMs?: number | undefined;
  /**
   * Sleep and ask again instead of throwing Deferred, at most so long in all; after that the place in line is given up.
   * Infinity: until the answer is another one.
   */
  maxWaitMs?: number | undefined;
  /** Nothing is debited, no place is kept, nothing is to be settled. */
  checkOnly?: boolean | undefined;
  /**
   * The block says sent() before the request leaves; whatever ends it before is settled as not sent. Without it,
   * entering the block counts as sending.
   */
  tellsSent?: boolean | undefined;
  /** Aborted while the gate is asked or while waiting, it takes the question back; also found as `call.signal`. */
  signal?: AbortSignal | undefined;
}

/** A question with its defaults; internal. */
export interface AskedQuestion {
  readonly target: string;
  readonly tenant: string;
  readonly priority: string;
  readonly cost: Amounts;
  readonly upperBound: boolean;
  readonly requestId: string;
  readonly attempt: number;
  /** Instant of nowMs() at which the work is useless. */
  readonly dueAtMs: number | undefined;
  readonly timerFloorMs: number;
  readonly maxHoldMs: number;
  readonly maxWaitMs: number;
  readonly checkOnly: boolean;
  readonly tellsSent: boolean;
  readonly signal: AbortSignal | undefined;
}
