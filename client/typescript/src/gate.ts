/** The connection to a gate. */
import {
  type CallOptions,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceError,
  status as Status,
} from "@grpc/grpc-js";
import { Call, type Releaser } from "./call.js";
import { Core, type Exchange } from "./core.js";
import { Deferred, FairgateError, NotAdmitted, Rejected } from "./errors.js";
import {
  AdmissionServiceClient,
  type AdmitRequest,
  type AdmitResponse,
  type ReleaseRequest,
  type ReleaseResponse,
} from "./generated/fairgate/v1/admission.js";
import { type AskedQuestion, DEFAULT_ADDRESS, type GateOptions, type Question } from "./options.js";
import { isOver, nowMs, sleep, workDeadline } from "./time.js";
import type { Counters, ReleaseReport } from "./values.js";
import * as wire from "./wire.js";

const KEEPALIVE_TIMEOUT_MS = 5000;
// gRPC counts its deadline on the wall clock, which may jump: it is only there to tell the gate.
const GRPC_DEADLINE_SLACK_MS = 1000;

type Method<Request, Response> = (
  request: Request,
  metadata: Metadata,
  options: Partial<CallOptions>,
  done: (error: ServiceError | null, response?: Response) => void,
) => ClientUnaryCall;

/** A connection to a gate; make one and keep it. Connects with the first question. */
export class Gate {
  readonly #core: Core;
  readonly #address: string;
  readonly #metadata = new Metadata();
  readonly #background = new Set<Promise<unknown>>();
  readonly #releaser: Releaser;
  #client: AdmissionServiceClient | undefined;

  /** address: as gRPC names it: "host:port", "dns:///name:port" or "unix:/path". */
  constructor(address: string = DEFAULT_ADDRESS, options: GateOptions = {}) {
    this.#address = address;
    this.#core = new Core(options);
    for (const [name, value] of Object.entries(options.metadata ?? {})) this.#metadata.set(name, value);
    this.#releaser = {
      release: (request, isMaybeLeased) => this.#release(request, isMaybeLeased),
      inBackground: (work) => this.#inBackground(work),
    };
  }

  /** Answers so far. */
  get counters(): Counters {
    return this.#core.counters;
  }

  /** Waits for the releases that are on their way, then closes the connection. */
  async close(): Promise<void> {
    while (this.#background.size > 0) await Promise.allSettled(this.#background);
    this.#client?.close();
    this.#client = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Asks whether a call may go now: `await using call = await gate.admit({ target, tenant, tokens: 900 })`.
   *
   * Rejects with Deferred and Rejected; with GateError: BadRequest, UnknownTarget, GateClosed, GateUnreachable; and with
   * the signal's reason when that is aborted meanwhile.
   */
  async admit(question: Question): Promise<Call> {
    const answer = await this.tryAdmit(question);
    if (answer instanceof NotAdmitted) throw answer;
    return answer;
  }

  /** As admit(), with the answer as a value: its `kind` is "granted", "deferred" or "rejected". */
  async tryAdmit(question: Question): Promise<Call | Deferred | Rejected> {
    let asked = asAsked(question);
    const beganMs = nowMs();
    for (;;) {
      const answer = await this.#ask(asked);
      if (!(answer instanceof Deferred) || asked.maxWaitMs <= 0 || asked.checkOnly) return answer;
      asked = { ...asked, requestId: answer.requestId }; // keeps the place
      if (nowMs() - beganMs + answer.delayMs > asked.maxWaitMs) {
        // Somebody behind may go instead; a lost withdrawal only costs the gate a grace period.
        await this.#withdraw(asked, answer);
        return answer;
      }
      try {
        await sleep(answer.delayMs, asked.signal);
      } catch (reason) {
        void this.#inBackground(this.#withdraw(asked, answer));
        if (!isOver(asked.dueAtMs)) throw reason;
      }
    }
  }

  /**
   * Does the work with the gate's permission, and settles when it ends: as call.settle() said, else with what is known.
   * An error of the work that holds an HTTP response (as the SDKs' errors do) settles as that response says; any other
   * leaves the outcome unknown. Resolves and rejects as the work does, or as admit().
   */
  async run<T>(question: Question, work: (call: Call) => T | PromiseLike<T>): Promise<T> {
    const call = await this.admit(question);
    let result: T;
    try {
      result = await work(call);
    } catch (error) {
      await call.leave(error);
      throw error;
    }
    await call.leave(undefined);
    return result;
  }

  /** Gives up the place in line of a deferred question. Rejects with GateError: it could not be told. */
  async withdraw({
    attempt = 1,
    ...name
  }: {
    target: string;
    requestId: string;
    attempt?: number;
  }): Promise<ReleaseReport> {
    return this.#release(wire.withdrawRequest({ ...name, attempt }), false);
  }

  async #ask(question: AskedQuestion): Promise<Call | Deferred | Rejected> {
    if (question.signal?.aborted && !isOver(question.dueAtMs)) throw question.signal.reason;
    const exchange = this.#core.ask(question);
    const client = this.#open();
    await this.#run<AdmitRequest, AdmitResponse>(exchange, client.admit.bind(client), question.signal);
    const wasCancelled = question.signal?.aborted === true && !isOver(question.dueAtMs);
    if (wasCancelled) {
      this.#takeBack(question, exchange.request);
      throw question.signal?.reason;
    }
    const outcome = this.#core.conclude(question, exchange);
    if (outcome instanceof Deferred) return outcome;
    if (outcome instanceof Rejected) {
      if (exchange.maybeDecided) this.#takeBack(question, exchange.request);
      return outcome;
    }
    return new Call(this.#core, this.#releaser, question, outcome);
  }

  /** Nobody is going to send: what the gate may have granted goes back. */
  #takeBack(question: AskedQuestion, request: AdmitRequest): void {
    if (!question.checkOnly) void this.#inBackground(this.#withdraw(question, request));
  }

  async #withdraw(
    { target }: AskedQuestion,
    { requestId, attempt }: { requestId: string; attempt: number },
  ): Promise<void> {
    try {
      await this.#release(wire.withdrawRequest({ target, requestId, attempt }), true);
    } catch (error) {
      if (!(error instanceof FairgateError)) throw error;
      this.#core.logger.debug(`release of ${requestId}: ${error.message}`);
    }
  }

  async #release(request: ReleaseRequest, isMaybeLeased: boolean): Promise<ReleaseReport> {
    const exchange = this.#core.release(request);
    const client = this.#open();
    await this.#run<ReleaseRequest, ReleaseResponse>(exchange, client.release.bind(client));
    return this.#core.concludeRelease(exchange, isMaybeLeased);
  }

  /** Ends when the exchange wants no more tries, or the signal is aborted. */
  async #run<Request, Response>(
    exchange: Exchange<Request, Response>,
    method: Method<Request, Response>,
    signal?: AbortSignal,
  ): Promise<void> {
    while (exchange.wantsTry()) {
      const pauseMs = exchange.pauseMs();
      if (pauseMs > 0) await sleep(pauseMs, signal).catch(() => {}); // aborted: the try is going to tell
      if (await this.#try(exchange, method, signal)) return;
    }
  }

  /** Whether the signal ended it. */
  #try<Request, Response>(
    exchange: Exchange<Request, Response>,
    method: Method<Request, Response>,
    signal?: AbortSignal,
  ): Promise<boolean> {
    return new Promise((resolve) => {
      let isTimedOut = false;
      const abort = (): void => call.cancel();
      const expire = (): void => {
        isTimedOut = true;
        call.cancel();
      };
      const done = (error: ServiceError | null, response?: Response): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        if (error === null) exchange.answered(response as Response);
        else exchange.failed(isTimedOut ? Object.assign(error, { code: Status.DEADLINE_EXCEEDED }) : error);
        resolve(error !== null && signal?.aborted === true);
      };
      const leftMs = Math.max(0, Math.ceil(exchange.timeLeftMs()));
      const call = method(
        exchange.request,
        this.#metadata,
        { deadline: Date.now() + leftMs + GRPC_DEADLINE_SLACK_MS },
        done,
      );
      const timer = setTimeout(expire, leftMs);
      signal?.addEventListener("abort", abort, { once: true });
      if (signal?.aborted) abort();
    });
  }

  #inBackground<T>(work: Promise<T>): Promise<T> {
    this.#background.add(work);
    const forget = (): boolean => this.#background.delete(work);
    work.then(forget, forget);
    return work;
  }

  #open(): AdmissionServiceClient {
    const { options } = this.#core;
    this.#client ??= new AdmissionServiceClient(this.#address, options.credentials ?? credentials.createInsecure(), {
      "grpc.keepalive_time_ms": options.keepaliveMs ?? 30_000,
      "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
      // The default backs off to two minutes, which would outlast the breaker by far.
      "grpc.initial_reconnect_backoff_ms": 100,
      "grpc.max_reconnect_backoff_ms": 1000,
      // The exchange decides what is asked again.
      "grpc.enable_retries": 0,
      ...options.channelOptions,
    });
    return this.#client;
  }
}

function asAsked(question: Question): AskedQuestion {
  return {
    target: question.target,
    tenant: question.tenant,
    priority: question.priority ?? "",
    cost: wire.defined({ tokens: question.tokens, ...question.cost }),
    upperBound: question.upperBound ?? false,
    requestId: question.requestId ?? "",
    attempt: question.attempt ?? 1,
    dueAtMs: workDeadline(question.deadlineMs, question.signal),
    timerFloorMs: question.timerFloorMs ?? 0,
    maxHoldMs: question.maxHoldMs ?? 0,
    maxWaitMs: question.maxWaitMs ?? 0,
    checkOnly: question.checkOnly ?? false,
    tellsSent: question.tellsSent ?? false,
    signal: question.signal,
  };
}
