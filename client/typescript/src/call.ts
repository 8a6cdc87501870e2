/** A permission to call: the lease, and how leaving the block settles it. */
import type { Core } from "./core.js";
import { FairgateError, GateError } from "./errors.js";
import type { ReleaseRequest } from "./generated/fairgate/v1/admission.js";
import type { AskedQuestion } from "./options.js";
import { type HeadersLike, httpResponseOf, settlementFromResponse } from "./providers.js";
import {
  type Amounts,
  type CallOutcome,
  type RateLimitStatus,
  type ReleaseReport,
  type Settlement,
  USAGE_KINDS,
  type UsageKind,
} from "./values.js";
import * as wire from "./wire.js";

/** What Call.settle() is told. */
export interface SettleOptions {
  /** Use by dimension. A dimension that is absent is unknown: its estimate stays charged. */
  actual?: Amounts | undefined;
  /** Short for `actual: { tokens }`. */
  tokens?: number | undefined;
  /** Default: as the response says; without a response OK. */
  outcome?: CallOutcome | undefined;
  /** With the outcome RATE_LIMITED: how long the provider asks to wait, 0 to 24 h. */
  retryAfterMs?: number | undefined;
  /** What the provider said of its own count, by dimension. */
  rateLimits?: Readonly<Record<string, RateLimitStatus>> | undefined;
  /** The provider's, see settlementFromResponse(): gives what is not given otherwise. */
  response?: unknown;
  /** Body of the response, where it cannot be read from it: `await response.json()`. */
  body?: unknown;
  /** Status and headers, where there is no response object. */
  status?: number | undefined;
  headers?: HeadersLike | undefined;
}

/** How a call sends its releases; internal. */
export interface Releaser {
  release(request: ReleaseRequest, isMaybeLeased: boolean): Promise<ReleaseReport>;
  /** Keeps close() waiting. */
  inBackground<T>(work: Promise<T>): Promise<T>;
}

/**
 * A permission to call. Used as a block it is settled when the block is left: `await gate.run(question, work)`, or
 * `await using call = await gate.admit(question)`. Outside of one, end it with release().
 */
export class Call {
  /** Tells the answers apart. */
  readonly kind = "granted";
  /** As asked. */
  readonly target: string;
  /** The question's, or the one that was made. */
  readonly requestId: string;
  /** At least 1. One attempt is one HTTP send: whoever sends again asks with the next number. */
  readonly attempt: number;
  /** What was debited by dimension; empty when failed open. */
  readonly debited: Amounts;
  /** This grant was given before, to the same requestId and attempt. */
  readonly repeated: boolean;
  /** The answer was given without the store (by the gate) or without the gate (failed open). */
  readonly degraded: boolean;
  /** The gate could not be asked. */
  readonly failedOpen: boolean;
  /** Version of the policy that decided; 0: none. */
  readonly configVersion: number;
  /** The question's. */
  readonly signal: AbortSignal | undefined;
  readonly #core: Core;
  readonly #releaser: Releaser;
  readonly #cost: Amounts;
  readonly #maybeLeased: boolean;
  #leaseExpiresInMs: number;
  #settlement: Settlement | undefined;
  #isSent: boolean;
  #isOpen: boolean;
  #report: ReleaseReport | undefined;

  /** @internal */
  constructor(core: Core, releaser: Releaser, question: AskedQuestion, granted: wire.Granted) {
    this.#core = core;
    this.#releaser = releaser;
    this.target = question.target;
    this.requestId = granted.requestId;
    this.attempt = granted.attempt;
    this.debited = granted.debited;
    this.repeated = granted.repeated;
    this.degraded = granted.degraded;
    this.failedOpen = granted.failedOpen;
    this.configVersion = granted.configVersion;
    this.signal = question.signal;
    this.#cost = question.cost;
    this.#maybeLeased = granted.maybeLeased;
    this.#leaseExpiresInMs = granted.leaseExpiresInMs;
    this.#isSent = !question.tellsSent;
    this.#isOpen = !question.checkOnly && (!granted.failedOpen || granted.maybeLeased);
  }

  /** How long the lease lives without a settlement, from the grant or the last extension. */
  get leaseExpiresInMs(): number {
    return this.#leaseExpiresInMs;
  }

  /** What the gate made of the settlement; undefined before, without a lease, and when it was lost. */
  get report(): ReleaseReport | undefined {
    return this.#report;
  }

  /** Says what the call really used; it is sent when the block is left (or by release()). The last one holds. */
  settle(said: SettleOptions = {}): void {
    const { response, body, status, headers } = said;
    const hasResponse = [response, body, status, headers].some((part) => part !== undefined && part !== null);
    const known: Settlement = hasResponse
      ? settlementFromResponse(response, { body, status, headers, dimensions: this.#usageDimensions() })
      : { outcome: "OK", actual: {} };
    const retryAfterMs = said.retryAfterMs ?? known.retryAfterMs;
    const actual = { ...known.actual, ...wire.defined({ tokens: said.tokens }), ...wire.defined(said.actual ?? {}) };
    this.#settlement = {
      outcome: said.outcome ?? known.outcome,
      actual,
      ...(retryAfterMs !== undefined && { retryAfterMs }),
      rateLimits: { ...known.rateLimits, ...said.rateLimits },
    };
  }

  /** With tellsSent: the request leaves now. Whatever happens from here on, the provider may have counted it. */
  sent(): void {
    this.#isSent = true;
  }

  /** The call never left: everything is refunded. */
  notSent(): void {
    this.#settlement = { outcome: "NOT_SENT", actual: {} };
  }

  /** Ends the lease as settle() said. undefined: nothing to end. Rejects with GateError: refused, or not told. */
  async release(): Promise<ReleaseReport | undefined> {
    const request = this.#takeSettlement(undefined);
    if (request === undefined) return undefined;
    this.#report = await this.#releaser.release(request, this.#maybeLeased);
    return this.#report;
  }

  /**
   * Keeps the lease alive for leaseTtlMs from now (left out: the target's), for long streams. Its new life in
   * milliseconds. Rejects with GateError: FAILED_PRECONDITION when there is no open lease (any more), or the gate could
   * not be told.
   */
  async extend(leaseTtlMs?: number, usedSoFar: Amounts = {}): Promise<number> {
    if (!this.#isOpen || this.failedOpen) throw new GateError("FAILED_PRECONDITION", "no open lease");
    const report = await this.#releaser.release(wire.extendRequest(this, leaseTtlMs, usedSoFar), false);
    if (report.result !== "EXTENDED" && report.result !== "QUEUED") {
      this.#isOpen = false;
      throw new GateError("FAILED_PRECONDITION", `the lease has ended: ${report.result}`);
    }
    this.#leaseExpiresInMs = report.leaseExpiresInMs ?? this.#leaseExpiresInMs;
    return this.#leaseExpiresInMs;
  }

  /** Leaves the block of `await using`, which does not tell whether it ended by an error. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave(undefined);
  }

  /**
   * Settles with what is known; never rejects for the gate. endedBy: the error that ended the block.
   * @internal
   */
  async leave(endedBy: unknown): Promise<void> {
    const request = this.#takeSettlement(endedBy);
    if (request === undefined) return;
    const told = this.#releaser.inBackground(this.#tell(request));
    if (!this.#maybeLeased) await told;
  }

  async #tell(request: ReleaseRequest): Promise<void> {
    // The work is done: an error here must not make anybody do it again.
    try {
      this.#report = await this.#releaser.release(request, this.#maybeLeased);
    } catch (error) {
      if (!(error instanceof FairgateError)) throw error;
      if (!this.#maybeLeased) this.#core.logger.warn(`settlement of ${this.requestId}: ${error.message}`);
    }
  }

  /** The release that ends the lease; undefined: there is nothing to end (any more). */
  #takeSettlement(endedBy: unknown): ReleaseRequest | undefined {
    if (!this.#isOpen) return undefined;
    this.#isOpen = false;
    return wire.settleRequest(this, this.#settlement ?? this.#known(endedBy));
  }

  #known(endedBy: unknown): Settlement {
    if (!this.#isSent) return { outcome: "NOT_SENT", actual: {} };
    if (endedBy instanceof Error && httpResponseOf(endedBy) !== undefined) {
      return settlementFromResponse(endedBy, { dimensions: this.#usageDimensions() });
    }
    return { outcome: "UNKNOWN", actual: {} };
  }

  /** Of the dimensions that the question or the grant names, those that hold token usage. */
  #usageDimensions(): Record<string, UsageKind> {
    const kinds: Record<string, UsageKind> = { ...USAGE_KINDS, ...this.#core.options.usageDimensions };
    const names = [...Object.keys(this.#cost), ...Object.keys(this.debited)];
    return Object.fromEntries(names.flatMap((name) => (kinds[name] ? [[name, kinds[name]]] : [])));
  }
}
