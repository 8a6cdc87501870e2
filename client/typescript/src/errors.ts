/** What an admission throws. */
import type { Limit, RejectReason } from "./values.js";

/** Base of everything that this package throws on purpose. */
export class FairgateError extends Error {
  override name = "FairgateError";
}

/** What both answers that are no grant tell. */
export interface NotAdmittedFields {
  requestId: string;
  attempt: number;
  degraded: boolean;
}

/** The call may not go now: Deferred or Rejected. */
export abstract class NotAdmitted extends FairgateError {
  override name = "NotAdmitted";
  /** Tells the answers apart. */
  abstract readonly kind: "deferred" | "rejected";
  /** Ask again with the same one. */
  readonly requestId: string;
  readonly attempt: number;
  /** Answered without the gate's store, or, for a deadline that passed meanwhile, without the gate. */
  readonly degraded: boolean;

  constructor(message: string, fields: NotAdmittedFields) {
    super(message);
    this.requestId = fields.requestId;
    this.attempt = fields.attempt;
    this.degraded = fields.degraded;
  }
}

/** Give the worker's slot back, sleep `delayMs`, and ask again with the same requestId and attempt. */
export class Deferred extends NotAdmitted {
  override name = "Deferred";
  readonly kind = "deferred";
  /** Whole milliseconds, at least 1. */
  readonly delayMs: number;
  /** When the turn is expected, without corrections for timers. */
  readonly projectedWaitMs: number;
  /** Calls of the same flow that are ahead, plus 1; 0: no place is kept. */
  readonly place: number;
  /** What keeps the call from going now, narrowest first. */
  readonly limitedBy: readonly Limit[];

  constructor(
    fields: NotAdmittedFields & {
      delayMs: number;
      projectedWaitMs: number;
      place: number;
      limitedBy: readonly Limit[];
    },
  ) {
    super(`${fields.requestId}: ask again in ${fields.delayMs} ms`, fields);
    this.delayMs = fields.delayMs;
    this.projectedWaitMs = fields.projectedWaitMs;
    this.place = fields.place;
    this.limitedBy = fields.limitedBy;
  }
}

/** Waiting would not help. */
export class Rejected extends NotAdmitted {
  override name = "Rejected";
  readonly kind = "rejected";
  readonly reason: RejectReason;
  /** For people; names the dimension and the numbers. */
  readonly explanation: string;
  /** The limiting dimension, where one does; else empty. */
  readonly dimension: string;
  /** `DEADLINE_UNREACHABLE`: when the call could go, from now. */
  readonly earliestMs: number | undefined;

  constructor(
    fields: NotAdmittedFields & {
      reason: RejectReason;
      explanation: string;
      dimension?: string;
      earliestMs?: number | undefined;
    },
  ) {
    super(`${fields.requestId}: ${fields.reason}: ${fields.explanation}`, fields);
    this.reason = fields.reason;
    this.explanation = fields.explanation;
    this.dimension = fields.dimension ?? "";
    this.earliestMs = fields.earliestMs;
  }
}

/** One bad field of a request. */
export interface FieldViolation {
  readonly field: string;
  readonly description: string;
}

/** The gate answered with a status, or, without failOpen, could not be reached. Never an answer to wait for. */
export class GateError extends FairgateError {
  override name = "GateError";
  /** Name of the gRPC status code, for example "INTERNAL". */
  readonly code: string;
  /** What the gate said. */
  readonly details: string;
  readonly fields: readonly FieldViolation[];

  constructor(code: string, details: string, fields: readonly FieldViolation[] = []) {
    super(`${code}: ${details}`);
    this.code = code;
    this.details = details;
    this.fields = fields;
  }
}

/** `INVALID_ARGUMENT`; `fields` says what is wrong. Nothing changed. */
export class BadRequest extends GateError {
  override name = "BadRequest";
}

/** `NOT_FOUND`. */
export class UnknownTarget extends GateError {
  override name = "UnknownTarget";
}

/** `UNAVAILABLE`, said by the gate: its store is away, and the target's policy is to stay closed. */
export class GateClosed extends GateError {
  override name = "GateClosed";
}

/** The gate could not be asked, and failOpen is off. */
export class GateUnreachable extends GateError {
  override name = "GateUnreachable";

  constructor() {
    super("UNAVAILABLE", "the gate does not answer");
  }
}
