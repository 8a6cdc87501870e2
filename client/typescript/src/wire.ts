/** Between this package's values and the contract's messages. */
import { randomUUID } from "node:crypto";
import { type ServiceError, status as Status } from "@grpc/grpc-js";
import { BadRequest, Deferred, type FieldViolation, GateClosed, GateError, Rejected, UnknownTarget } from "./errors.js";
import {
  AdmitMode,
  AdmitRequest,
  type AdmitResponse,
  CallOutcome as PbOutcome,
  CostKind,
  Layer,
  RejectReason as PbReason,
  ReleaseRequest,
  type ReleaseResponse,
  ReleaseResult as PbResult,
} from "./generated/fairgate/v1/admission.js";
import type { Any } from "./generated/google/protobuf/any.js";
import { BadRequest as PbBadRequest, ErrorInfo } from "./generated/google/rpc/error_details.js";
import { Status as PbStatus } from "./generated/google/rpc/status.js";
import type { AskedQuestion } from "./options.js";
import { fromProto, nowMs, toProto } from "./time.js";
import type { Amounts, Limit, RejectReason, ReleaseReport, ReleaseResult, Settlement } from "./values.js";

const ERROR_DOMAIN = "fairgate.io";
const DETAILS_KEY = "grpc-status-details-bin";
// How the channel says that nothing was sent.
const NOT_CONNECTED = /^(?:No connection established|Name resolution failed)/;
const LAYERS: Readonly<Record<number, Limit["layer"]>> = {
  [Layer.LAYER_TARGET]: "target",
  [Layer.LAYER_CLASS]: "class",
  [Layer.LAYER_TENANT]: "tenant",
};

/** A permission: a lease, or, failed open, none that is known of. */
export interface Granted {
  readonly requestId: string;
  readonly attempt: number;
  readonly debited: Amounts;
  readonly leaseExpiresInMs: number;
  readonly repeated: boolean;
  readonly degraded: boolean;
  readonly failedOpen: boolean;
  /** Failed open without knowing whether the gate decided: it may hold a lease nevertheless. */
  readonly maybeLeased: boolean;
  readonly configVersion: number;
}

/** The question as of now; makes the requestId where there is none. */
export function admitRequest(question: AskedQuestion): AdmitRequest {
  return AdmitRequest.fromPartial({
    target: question.target,
    tenant: question.tenant,
    priority: question.priority,
    cost: question.cost,
    costKind: question.upperBound ? CostKind.COST_KIND_UPPER_BOUND : CostKind.COST_KIND_ESTIMATE,
    requestId: question.requestId || randomUUID().replaceAll("-", ""),
    attempt: question.attempt,
    mode: question.checkOnly ? AdmitMode.ADMIT_MODE_CHECK_ONLY : AdmitMode.ADMIT_MODE_NORMAL,
    ...(question.dueAtMs !== undefined && { deadline: toProto(question.dueAtMs - nowMs()) }),
    ...(question.timerFloorMs !== 0 && { timerFloor: toProto(question.timerFloorMs) }),
    ...(question.maxHoldMs !== 0 && { maxHold: toProto(question.maxHoldMs) }),
  });
}

/** Throws GateError: an answer without an outcome. */
export function admitOutcome(response: AdmitResponse): Granted | Deferred | Rejected {
  const { requestId, attempt, degraded, outcome } = response;
  switch (outcome?.$case) {
    case "grant":
      return {
        requestId,
        attempt,
        degraded,
        debited: outcome.value.debited,
        leaseExpiresInMs: fromProto(outcome.value.leaseExpiresIn),
        repeated: outcome.value.repeated,
        failedOpen: false,
        maybeLeased: false,
        configVersion: response.configVersion,
      };
    case "defer":
      return new Deferred({
        requestId,
        attempt,
        degraded,
        delayMs: fromProto(outcome.value.retryDelay),
        projectedWaitMs: fromProto(outcome.value.projectedWait),
        place: outcome.value.place,
        limitedBy: outcome.value.limitedBy.map(({ layer, dimension }) => ({ layer: LAYERS[layer] ?? "", dimension })),
      });
    case "reject":
      return new Rejected({
        requestId,
        attempt,
        degraded,
        reason: short(PbReason[outcome.value.reason], "REJECT_REASON_") as RejectReason,
        explanation: outcome.value.message,
        dimension: outcome.value.dimension,
        earliestMs: outcome.value.earliest && fromProto(outcome.value.earliest),
      });
    default:
      throw new GateError("INTERNAL", "the gate answered without an outcome");
  }
}

/** What a release names. */
export interface LeaseName {
  readonly target: string;
  readonly requestId: string;
  readonly attempt: number;
}

/** A release that ends a lease. */
export function settleRequest(lease: LeaseName, settlement: Settlement): ReleaseRequest {
  const { outcome, actual, retryAfterMs } = settlement;
  const name = `CALL_OUTCOME_${outcome === "UNKNOWN" ? "UNSPECIFIED" : outcome}` as keyof typeof PbOutcome;
  const wait = outcome === "RATE_LIMITED" && retryAfterMs !== undefined && { retryAfter: toProto(retryAfterMs) };
  const rateLimits = Object.fromEntries(
    Object.entries(settlement.rateLimits ?? {}).map(([dimension, { remaining, resetMs }]) => [
      dimension,
      { remaining, reset: resetMs === undefined ? undefined : toProto(resetMs) },
    ]),
  );
  const value = { outcome: PbOutcome[name], actual: defined(actual), rateLimits, ...wait };
  return ReleaseRequest.fromPartial({ ...lease, action: { $case: "settle", value } });
}

/** A release that gives up the place in line, or an open lease as not sent. */
export function withdrawRequest({ target, requestId, attempt }: LeaseName): ReleaseRequest {
  return ReleaseRequest.fromPartial({ target, requestId, attempt, action: { $case: "withdraw", value: {} } });
}

/** A release that keeps a lease alive. */
export function extendRequest(lease: LeaseName, leaseTtlMs: number | undefined, usedSoFar: Amounts): ReleaseRequest {
  const value = { usedSoFar: defined(usedSoFar), ...(leaseTtlMs !== undefined && { leaseTtl: toProto(leaseTtlMs) }) };
  return ReleaseRequest.fromPartial({ ...lease, action: { $case: "extend", value } });
}

/** The amounts that are said; undefined ones are as if left out. */
export function defined(amounts: Readonly<Record<string, number | undefined>>): Amounts {
  return Object.fromEntries(Object.entries(amounts).filter(([, amount]) => amount !== undefined)) as Amounts;
}

/** The answer to any release. */
export function releaseReport(response: ReleaseResponse): ReleaseReport {
  return {
    result: short(PbResult[response.result], "RELEASE_RESULT_") as ReleaseResult,
    refunded: response.refunded,
    degraded: response.degraded,
    ...(response.leaseExpiresIn !== undefined && { leaseExpiresInMs: fromProto(response.leaseExpiresIn) }),
  };
}

function short(name: string | undefined, prefix: string): string {
  // A newer gate's number has no name here.
  return name?.startsWith(prefix) ? name.slice(prefix.length) : "UNSPECIFIED";
}

/**
 * Whether the gate could not be asked, as against refused.
 *
 * The gate itself says UNAVAILABLE where a policy is to stay closed, with an ErrorInfo of its own domain. Without that
 * mark the status comes from this side's channel, from a proxy, or from a gate that is going down.
 */
export function isNoAnswer(error: ServiceError): boolean {
  if (isTimeout(error)) return true;
  return (error.code === Status.UNAVAILABLE || error.code === Status.CANCELLED) && !isSaidByGate(error);
}

/** Whether nothing came in time. */
export function isTimeout(error: ServiceError): boolean {
  return error.code === Status.DEADLINE_EXCEEDED;
}

/** After isNoAnswer: whether the question may have reached the gate nevertheless. */
export function mayBeDecided(error: ServiceError): boolean {
  return isTimeout(error) || !NOT_CONNECTED.test(error.details);
}

/** The gate's refusal as this package's error. */
export function toGateError(error: ServiceError): GateError {
  const code = Status[error.code] ?? "UNKNOWN";
  const fields: FieldViolation[] = detailsOf(error, "google.rpc.BadRequest", PbBadRequest.decode).flatMap((detail) =>
    detail.fieldViolations.map(({ field, description }) => ({ field, description })),
  );
  switch (error.code) {
    case Status.INVALID_ARGUMENT:
      return new BadRequest(code, error.details, fields);
    case Status.NOT_FOUND:
      return new UnknownTarget(code, error.details, fields);
    case Status.UNAVAILABLE:
      return new GateClosed(code, error.details, fields);
    default:
      return new GateError(code, error.details, fields);
  }
}

function isSaidByGate(error: ServiceError): boolean {
  return detailsOf(error, "google.rpc.ErrorInfo", ErrorInfo.decode).some((info) => info.domain === ERROR_DOMAIN);
}

function detailsOf<T>(error: ServiceError, type: string, decode: (bytes: Uint8Array) => T): T[] {
  const raw = error.metadata?.get(DETAILS_KEY)[0];
  if (!(raw instanceof Uint8Array)) return [];
  try {
    const ofType = (detail: Any): boolean => detail.typeUrl.endsWith(`/${type}`);
    return PbStatus.decode(raw)
      .details.filter(ofType)
      .map((detail) => decode(detail.value));
  } catch {
    return []; // somebody else's bytes
  }
}
