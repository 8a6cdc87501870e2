/**
 * What providers' responses say: usage, how the call ended, how long to wait, and what is left of the limits.
 *
 * Understands the shapes of OpenAI's and Anthropic's APIs (and of those that copy them), as decoded JSON or JSON text,
 * as their SDKs' objects and errors, and as responses of fetch, undici, axios and got.
 */
import { rateLimits, retryAfterMs } from "./headers.js";
import { type Amounts, type CallOutcome, type Settlement, USAGE_KINDS, type UsageKind } from "./values.js";

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
 * tokens written to it are. Limits are told for these dimensions and for "requests".
 */
export function settlementFromResponse(response?: unknown, options: SettlementOptions = {}): Settlement {
  const found = httpResponseOf(response) ?? { status: 0, headers: new Map<string, string>(), body: response };
  const status = options.status ?? found.status;
  const headers = options.headers === undefined ? found.headers : headerMap(options.headers);
  const body = decoded(options.body === undefined ? found.body : options.body);
  const usage = usageOf(body);
  const outcome = outcomeOf(status, Object.keys(usage).length > 0);
  const kinds = kindsOf(options.dimensions ?? ["tokens"]);
  const nowMs = options.nowMs ?? Date.now();
  const waitMs = outcome === "RATE_LIMITED" ? retryAfterMs(headers, retryDelay(body), nowMs) : undefined;
  return {
    outcome,
    actual: actualOf(usage, kinds),
    ...(waitMs !== undefined && { retryAfterMs: waitMs }),
    rateLimits: rateLimits(headers, kinds, nowMs),
  };
}

type Kinds = Readonly<Record<string, UsageKind>>;

function kindsOf(dimensions: readonly string[] | Kinds): Kinds {
  if (!Array.isArray(dimensions)) return dimensions as Kinds;
  return Object.fromEntries(dimensions.map((name: string) => [name, kindOf(name)]));
}

function actualOf(usage: Partial<Record<UsageKind, number>>, kinds: Kinds): Amounts {
  const actual: Record<string, number> = {};
  for (const [name, kind] of Object.entries(kinds)) {
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

/** Of a google.rpc.RetryInfo; empty: there is none. */
function retryDelay(body: unknown): string {
  const error = get(body, "error") ?? body;
  const details = get(error, "details");
  if (!Array.isArray(details)) return "";
  return details.map((detail) => get(detail, "retryDelay")).find((delay) => typeof delay === "string") ?? "";
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
