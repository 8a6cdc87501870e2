/**
 * The breaker, counters, events, and every decision about an answer. No I/O: a gate runs an Exchange's tries and tells
 * it how each went.
 */
import type { ServiceError } from "@grpc/grpc-js";
import { Breaker } from "./breaker.js";
import { Deferred, GateError, GateUnreachable, Rejected } from "./errors.js";
import type { AdmitEvent, GateEvent, ReleaseEvent } from "./events.js";
import {
  type AdmitRequest,
  type AdmitResponse,
  CallOutcome as PbOutcome,
  type ReleaseRequest,
  type ReleaseResponse,
} from "./generated/fairgate/v1/admission.js";
import type { AskedQuestion, GateOptions, Logger } from "./options.js";
import { isOver, nowMs } from "./time.js";
import type { CallOutcome, Counters, ReleaseReport } from "./values.js";
import * as wire from "./wire.js";

// A connection that broke is worth a second try on a fresh one; both questions carry the same ids, so that the gate
// decides once.
const TRIES_MAX = 2;
// The channel may notice a moment later than the call that its connection is gone: until then it sends the next one into
// the same grave. At random, so that not all who lost it come back at once.
const PAUSE_MIN_MS = 10;
const PAUSE_MAX_MS = 20;
const QUIET: Logger = { warn: () => {}, debug: () => {} };
const WARNINGS: Logger = { warn: (message) => console.warn(`fairgate: ${message}`), debug: () => {} };

/** One question or release, with its second try. */
export class Exchange<Request, Response> {
  response: Response | undefined;
  error: GateError | undefined;
  maybeDecided = false;
  /** The deadline was over before it began. */
  isPointless = false;
  readonly beganMs = nowMs();
  #tries = 0;
  #isTimedOut = false;
  /** The last try had a connection, and lost it. */
  #isBroken = false;
  readonly #untilMs: number;

  /** isHurried: the caller's time is shorter than the gate's, so its end says nothing about the gate. */
  constructor(
    private readonly core: Core,
    readonly request: Request,
    budgetMs: number,
    private readonly isHurried = false,
  ) {
    this.#untilMs = this.beganMs + budgetMs;
  }

  /** Whether to send (again). Ends by telling the breaker. */
  wantsTry(): boolean {
    if (this.isPointless || this.response !== undefined || this.error !== undefined) return false;
    if (this.#tries === 0) return this.core.breakerAllows();
    if (!this.#isTimedOut && this.#tries < TRIES_MAX && this.timeLeftMs() > 0) return true;
    if (!this.hasRunOutOfTime) this.core.gateFailed();
    return false;
  }

  /** How long to wait before the next try; leaves that at least half of the time. */
  pauseMs(): number {
    if (!this.#isBroken) return 0;
    return Math.min(PAUSE_MIN_MS + Math.random() * (PAUSE_MAX_MS - PAUSE_MIN_MS), this.timeLeftMs() / 2);
  }

  /** Time-out of the next try. */
  timeLeftMs(): number {
    return this.#untilMs - nowMs();
  }

  /** The caller's own time ended before the gate answered. */
  get hasRunOutOfTime(): boolean {
    return this.isPointless || (this.#isTimedOut && this.isHurried);
  }

  /** The gate answered OK. */
  answered(response: Response): void {
    this.response = response;
    this.core.gateAnswered();
  }

  /** The try ended with a status. */
  failed(error: ServiceError): void {
    this.#tries += 1;
    this.#isTimedOut = wire.isTimeout(error);
    if (wire.isNoAnswer(error)) {
      this.#isBroken = !this.#isTimedOut && wire.mayBeDecided(error);
      this.maybeDecided ||= wire.mayBeDecided(error);
    } else {
      this.error = wire.toGateError(error);
      this.core.gateAnswered();
    }
  }
}

export type Admitting = Exchange<AdmitRequest, AdmitResponse>;
export type Releasing = Exchange<ReleaseRequest, ReleaseResponse>;

export class Core {
  readonly logger: Logger;
  readonly #breaker: Breaker;
  readonly #rpcTimeoutMs: number;
  readonly #counters: { -readonly [Name in keyof Counters]: number } = {
    granted: 0,
    deferred: 0,
    rejected: 0,
    failedOpen: 0,
    errors: 0,
    breakerSkips: 0,
    releasesLost: 0,
  };

  constructor(readonly options: GateOptions) {
    this.logger = options.logger === null ? QUIET : (options.logger ?? WARNINGS);
    this.#rpcTimeoutMs = options.rpcTimeoutMs ?? 100;
    this.#breaker = new Breaker(options.breakerFailures ?? 3, options.breakerCooldownMs ?? 1000);
  }

  /** A snapshot. */
  get counters(): Counters {
    return { ...this.#counters };
  }

  // The breaker

  /** Whether to ask the gate at all. */
  breakerAllows(): boolean {
    if (this.#breaker.allows(nowMs())) return true;
    this.#counters.breakerSkips += 1;
    return false;
  }

  /** With whatever. */
  gateAnswered(): void {
    const wasOpen = this.#breaker.isOpen;
    this.#breaker.succeeded();
    if (!wasOpen) return;
    this.logger.warn("the gate answers again");
    this.#emit({ type: "breaker", open: false });
  }

  /** No answer. */
  gateFailed(): void {
    const wasOpen = this.#breaker.isOpen;
    this.#breaker.failed(nowMs());
    if (wasOpen || !this.#breaker.isOpen) return;
    this.logger.warn(`the gate does not answer${this.#failsOpen ? ": calls go on without it" : ""}`);
    this.#emit({ type: "breaker", open: true });
  }

  // Questions

  /** The exchange for one question. RangeError: a bad duration. */
  ask(question: AskedQuestion): Admitting {
    const budgetMs = this.#rpcTimeoutMs + Math.max(question.maxHoldMs, 0);
    const leftMs = question.dueAtMs === undefined ? budgetMs : question.dueAtMs - nowMs();
    const isHurried = leftMs < budgetMs;
    const exchange: Admitting = new Exchange(
      this,
      wire.admitRequest(question),
      isHurried ? leftMs : budgetMs,
      isHurried,
    );
    exchange.isPointless = leftMs <= 0;
    return exchange;
  }

  /** What a finished exchange means. GateError: neither an answer nor a reason to fail open. */
  conclude(question: AskedQuestion, exchange: Admitting): wire.Granted | Deferred | Rejected {
    const durationMs = nowMs() - exchange.beganMs;
    let outcome;
    try {
      outcome = this.#outcome(question, exchange);
    } catch (error) {
      this.#counters.errors += 1;
      this.#note(question, "error", false, durationMs);
      throw error;
    }
    if (outcome instanceof Deferred) {
      this.#counters.deferred += 1;
      this.#note(question, "deferred", outcome.degraded, durationMs, outcome.delayMs);
    } else if (outcome instanceof Rejected) {
      this.#counters.rejected += 1;
      this.#note(question, "rejected", outcome.degraded, durationMs);
    } else {
      this.#counters[outcome.failedOpen ? "failedOpen" : "granted"] += 1;
      this.#note(question, outcome.failedOpen ? "failed_open" : "granted", outcome.degraded, durationMs);
    }
    return outcome;
  }

  #outcome(question: AskedQuestion, exchange: Admitting): wire.Granted | Deferred | Rejected {
    if (exchange.response !== undefined) return wire.admitOutcome(exchange.response);
    if (exchange.error !== undefined) throw exchange.error;
    const { requestId } = exchange.request;
    const attempt = Math.max(exchange.request.attempt, 1);
    if (exchange.hasRunOutOfTime || isOver(question.dueAtMs)) {
      // The caller's time ran out, which is no sign that the gate is away and no reason to call.
      return new Rejected({
        requestId,
        attempt,
        degraded: !exchange.isPointless,
        reason: "DEADLINE_UNREACHABLE",
        explanation: exchange.isPointless ? "the deadline had passed" : "the deadline passed before the gate answered",
      });
    }
    if (!this.#failsOpen) throw new GateUnreachable();
    return {
      requestId,
      attempt,
      debited: {},
      leaseExpiresInMs: 0,
      repeated: false,
      degraded: true,
      failedOpen: true,
      maybeLeased: exchange.maybeDecided && !question.checkOnly,
      configVersion: 0,
    };
  }

  // Releases

  /** The exchange for one release. */
  release(request: ReleaseRequest): Releasing {
    return new Exchange(this, request, this.#rpcTimeoutMs);
  }

  /**
   * What a finished release means. GateError: refused; GateUnreachable: lost, the lease ends by itself.
   * isMaybeLeased: whether there is a lease is not known, and so that it is lost is nobody's loss.
   */
  concludeRelease(exchange: Releasing, isMaybeLeased = false): ReleaseReport {
    const report = exchange.response && wire.releaseReport(exchange.response);
    if (report === undefined && !isMaybeLeased) this.#counters.releasesLost += 1;
    if (report !== undefined || !isMaybeLeased) {
      this.#emit({
        type: "release",
        target: exchange.request.target,
        outcome: saidBy(exchange.request),
        result: report?.result ?? (exchange.error === undefined ? "LOST" : "ERROR"),
        durationMs: nowMs() - exchange.beganMs,
      });
    }
    if (report === undefined) throw exchange.error ?? new GateUnreachable();
    return report;
  }

  // Counting

  get #failsOpen(): boolean {
    return this.options.failOpen ?? true;
  }

  #note(q: AskedQuestion, outcome: AdmitEvent["outcome"], degraded: boolean, durationMs: number, delayMs = 0): void {
    const { target, tenant, priority } = q;
    this.#emit({ type: "admit", target, tenant, priority, outcome, degraded, durationMs, delayMs });
  }

  #emit(event: GateEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch (error) {
      this.logger.warn(`onEvent failed: ${String(error)}`);
    }
  }
}

function saidBy({ action }: ReleaseRequest): ReleaseEvent["outcome"] {
  if (action?.$case !== "settle") return action?.$case === "extend" ? "EXTEND" : "WITHDRAW";
  const outcome = (PbOutcome[action.value.outcome] ?? "").replace("CALL_OUTCOME_", "");
  return outcome === "UNSPECIFIED" ? "UNKNOWN" : (outcome as CallOutcome);
}
