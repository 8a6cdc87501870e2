/**
 * What providers' responses say: usage, how the call ended, and how long to wait.
 *
 * Understands the shapes of OpenAI's and Anthropic's APIs (and of those that copy them), as decoded JSON or JSON text,
 * as their SDKs' objects and errors, and as responses of fetch, undici, axios and got.
 */
import type { Amounts, CallOutcome, Settlement } from "./values.js";

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

const RETRY_AFTER_MAX_MS = 24 * 3600 * 1000;
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SPANS = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const SPAN = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
const NUMBER = /^\d+(?:\.\d+)?$/;
const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?([Zz]|[+-]\d\d:?\d\d)?$/;
const HTTP_DATE = /^[A-Z][a-z]{2,8},? \d\d[ -][A-Z][a-z]{2}[ -]\d{2,4} \d\d:\d\d:\d\d GMT$/;
// A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
const EPOCH_MIN_S = 1e9;
const EPOCH_MIN_MS = 1e12;
// Name of a limit's headers: x-ratelimit-reset-tokens, anthropic-ratelimit-input-tokens-reset, x-ratelimit-reset.
const LIMIT_HEADER = /^(?:x-|anthropic-)?ratelimit(?:-([a-z-]+?))?-(limit|remaining|reset)(?:-([a-z-]+))?$/;

export interface SettlementOptions {
  /** These override what the response says, or stand alone. */
  status?: number | undefined;
  headers?: HeadersLike | undefined;
  /** Decoded JSON, or JSON text. A body of fetch is read by you: `body: await response.json()`. */
  body?: unknown;
  /** Dimensions to settle: names of USAGE_KINDS, or names with what they take. Default: tokens. */
  dimensions?: readonly string[] | Readonly<Record<string, UsageKind>>;
  /** Milliseconds since 1970, for waits that are given as dates. Default: now. */
  nowMs?: number;
}

export type HeadersLike = Headers | ReadonlyMap<string, string> | Readonly<Record<string, unknown>>;

interface HttpResponse {
  /** 0: not known. */
  status: number;
  /** Names in lower case. */
  headers: Map<string, string>;
  body: unknown;
}

/**
 * The settlement that a provider's response amounts to. Usage that the response does not tell is left out, never zero.
 * Input is what counts against the provider's limit: with Anthropic's usage, tokens read from its cache are not in it,
 * tokens written to it are.
 */
export function settlementFromResponse(response?: unknown, options: SettlementOptions = {}): Settlement {
  const found = httpResponseOf(response) ?? { status: 0, headers: new Map<string, string>(), body: response };
  const status = options.status ?? found.status;
  const headers = options.headers === undefined ? found.headers : headerMap(options.headers);
  const body = decoded(options.body === undefined ? found.body : options.body);
  const usage = usageOf(body);
  const outcome = outcomeOf(status, Object.keys(usage).length > 0);
  const settlement = { outcome, actual: actualOf(usage, options.dimensions ?? ["tokens"]) };
  if (outcome !== "RATE_LIMITED") return settlement;
  const waitMs = retryAfterMs(headers, body, options.nowMs ?? Date.now());
  return waitMs === undefined ? settlement : { ...settlement, retryAfterMs: waitMs };
}

function actualOf(usage: Partial<Record<UsageKind, number>>, dimensions: SettlementOptions["dimensions"]): Amounts {
  const kinds = Array.isArray(dimensions)
    ? dimensions.map((name: string) => [name, kindOf(name)] as const)
    : Object.entries(dimensions as Record<string, UsageKind>);
  const actual: Record<string, number> = {};
  for (const [name, kind] of kinds) {
    const amount = usage[kind];
    if (amount !== undefined) actual[name] = amount;
  }
  return actual;
}

function kindOf(name: string): UsageKind {
  const kind = USAGE_KINDS[name];
  if (kind === undefined) throw new TypeError(`no usage is known for the dimension ${name}: say which it takes`);
  return kind;
}

/** The HTTP response in a response object, or in an error that is one or carries one; undefined: there is none. */
export function httpResponseOf(thing: unknown): HttpResponse | undefined {
  if (!isObject(thing)) return undefined;
  if (thing instanceof Error && isObject(thing["response"])) {
    const inner = httpResponseOf(thing["response"]); // axios, got
    if (inner !== undefined) return inner;
  }
  const status = [thing["status"], thing["statusCode"]].find((value) => Number.isInteger(value));
  if (status === undefined || !isObject(thing["headers"])) return undefined;
  const headers = headerMap(thing["headers"] as HeadersLike);
  return { status: status as number, headers, body: bodyOf(thing) };
}

// The SDKs' errors hold the body as `error` (OpenAI's: what is in its field "error"), axios holds it as `data`.
function bodyOf(response: Record<string, unknown>): unknown {
  if (response instanceof Error) return response["error"];
  if ("data" in response) return response["data"];
  const body = response["body"];
  return typeof body === "string" || body instanceof Uint8Array || isPlain(body) ? decoded(body) : undefined;
}

function isPlain(value: unknown): boolean {
  return isObject(value) && (Object.getPrototypeOf(value) === Object.prototype || !Object.getPrototypeOf(value));
}

function headerMap(headers: HeadersLike): Map<string, string> {
  const entries =
    typeof (headers as { entries?: unknown }).entries === "function"
      ? (headers as ReadonlyMap<string, unknown>).entries()
      : Object.entries(headers);
  const map = new Map<string, string>();
  for (const [name, value] of entries) {
    const text = Array.isArray(value) ? value[0] : value;
    if (text !== undefined && text !== null) map.set(String(name).toLowerCase(), String(text).trim());
  }
  return map;
}

function outcomeOf(status: number, isUsageKnown: boolean): CallOutcome {
  if (status === 429) return "RATE_LIMITED";
  if (status === 408 || status === 504) return "TIMEOUT";
  if (status >= 500) return "SERVER_ERROR";
  return (status >= 200 && status < 300) || (status === 0 && isUsageKnown) ? "OK" : "UNKNOWN";
}

/** Token usage in a decoded body or an SDK's object: those kinds that are told. */
export function usageOf(body: unknown): Partial<Record<UsageKind, number>> {
  const usage = get(body, "usage") ?? get(get(body, "message"), "usage"); // first event of Anthropic's streams
  if (!isObject(usage)) return {};
  // Anthropic has no total, and counts what went through its cache apart.
  let total = amount(usage, "total_tokens");
  let input = amount(usage, "prompt_tokens") ?? amount(usage, "input_tokens");
  const output = amount(usage, "completion_tokens") ?? amount(usage, "output_tokens");
  if (total === undefined && input !== undefined) {
    input += amount(usage, "cache_creation_input_tokens") ?? 0;
    if (output !== undefined) total = input + output;
  }
  return {
    ...(input !== undefined && { input }),
    ...(output !== undefined && { output }),
    ...(total !== undefined && { total }),
  };
}

function amount(usage: unknown, name: string): number | undefined {
  const value = get(usage, name);
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/**
 * How long a refusal says to wait. In this order: retry-after-ms; retry-after; retryDelay of a google.rpc.RetryInfo in
 * the body; the longest reset among the limits that have nothing left or do not say.
 */
function retryAfterMs(headers: Map<string, string>, body: unknown, nowMs: number): number | undefined {
  const milliseconds = headers.get("retry-after-ms") ?? "";
  if (NUMBER.test(milliseconds)) return clamp(Number(milliseconds));
  const told = [headers.get("retry-after") ?? "", googleDelay(body)]
    .map((text) => parseWait(text, nowMs))
    .find((wait) => wait !== undefined);
  if (told !== undefined) return told;
  const waits = resets(headers)
    .map((text) => parseWait(text, nowMs))
    .filter((wait) => wait !== undefined);
  return waits.length > 0 ? Math.max(...waits) : undefined;
}

function resets(headers: Map<string, string>): string[] {
  const limits = new Map<string, Map<string, string>>();
  for (const [name, value] of headers) {
    const match = LIMIT_HEADER.exec(name);
    if (!match) continue;
    const key = match[1] ?? match[3] ?? "";
    const limit = limits.get(key) ?? new Map<string, string>();
    limits.set(key, limit.set(match[2] as string, value));
  }
  const found: string[] = [];
  for (const limit of limits.values()) {
    // Negative limits are placeholders, not limits.
    if (limit.get("limit")?.startsWith("-") || limit.get("remaining")?.startsWith("-")) continue;
    const remaining = limit.get("remaining") ?? "0";
    const reset = limit.get("reset");
    if (reset !== undefined && !(NUMBER.test(remaining) && Number(remaining) > 0)) found.push(reset);
  }
  return found;
}

function googleDelay(body: unknown): string {
  const error = get(body, "error") ?? body;
  const details = get(error, "details");
  if (!Array.isArray(details)) return "";
  return details.map((detail) => get(detail, "retryDelay")).find((delay) => typeof delay === "string") ?? "";
}

/**
 * A wait in milliseconds, in any of the forms that are about: spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or
 * milliseconds since 1970, RFC 3339 and HTTP dates. An instant that is over is a wait of 0. undefined: none of them.
 */
export function parseWait(text: string, nowMs: number): number | undefined {
  if (SPANS.test(text)) {
    return clamp([...text.matchAll(SPAN)].reduce((sum, [, n, unit]) => sum + Number(n) * UNITS_MS[unit as string]!, 0));
  }
  if (NUMBER.test(text)) {
    const value = Number(text);
    if (value >= EPOCH_MIN_MS) return clamp(value - nowMs);
    return clamp(value >= EPOCH_MIN_S ? value * 1000 - nowMs : value * 1000);
  }
  const instantMs = parseDate(text);
  return instantMs === undefined ? undefined : clamp(instantMs - nowMs);
}

function parseDate(text: string): number | undefined {
  const iso = RFC_3339.exec(text);
  if (!iso && !HTTP_DATE.test(text)) return undefined;
  const instantMs = Date.parse(iso && iso[1] === undefined ? `${text}Z` : text);
  return Number.isNaN(instantMs) ? undefined : instantMs;
}

// Whole milliseconds, so that every client says the same.
function clamp(waitMs: number): number {
  return Math.min(Math.max(0, Math.round(waitMs)), RETRY_AFTER_MAX_MS);
}

/** JSON text decoded; anything else as it is. */
export function decoded(body: unknown): unknown {
  const text = body instanceof Uint8Array ? new TextDecoder().decode(body) : body;
  if (typeof text !== "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function get(thing: unknown, name: string): unknown {
  return isObject(thing) ? thing[name] : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
