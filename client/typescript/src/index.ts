/**
 * Client of a Fairgate gate: ask before a call to an API with hard quotas, settle after it.
 *
 *     const gate = new Gate("127.0.0.1:50051");
 *     const reply = await gate.run({ target: "openai", tenant: "acme", tokens: 900 }, async (call) => {
 *       const response = await askTheProvider();
 *       call.settle({ response });
 *       return response;
 *     });
 *
 * Deferred and Rejected are thrown.
 *
 * @packageDocumentation
 */
export { Call, type SettleOptions } from "./call.js";
export {
  BadRequest,
  Deferred,
  FairgateError,
  type FieldViolation,
  GateClosed,
  GateError,
  GateUnreachable,
  NotAdmitted,
  Rejected,
} from "./errors.js";
export type { AdmitEvent, BreakerEvent, GateEvent, ReleaseEvent } from "./events.js";
export { Gate } from "./gate.js";
export { VERSION } from "./generated/version.js";
export { DEFAULT_ADDRESS, type GateOptions, type Logger, type Question } from "./options.js";
export { type HeadersLike, type SettlementOptions, settlementFromResponse } from "./providers.js";
export { deadlineSignal, withDeadline } from "./time.js";
export { type EstimateOptions, estimateTokens } from "./tokens.js";
export {
  type Amounts,
  type CallOutcome,
  type Counters,
  type Limit,
  type RateLimitStatus,
  type RejectReason,
  type ReleaseReport,
  type ReleaseResult,
  type Settlement,
  USAGE_KINDS,
  type UsageKind,
} from "./values.js";
