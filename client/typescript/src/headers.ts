/**
 * What the headers of providers' responses say: how long to wait, and what is left of which limit. Header names are in
 * lower case, their values have no space around them; nowMs is since 1970.
 */
import { type RateLimitStatus, USAGE_KINDS, type UsageKind } from "./values.js";

const WAIT_MAX_MS = 24 * 3600 * 1000;
const REMAINING_MAX = 1e12; // the contract's
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

type HeaderMap = ReadonlyMap<string, string>;
/** What is told of a limit. */
type Limit = Partial<Record<"limit" | "remaining" | "reset", string>>;

/**
 * How long a refusal says to wait. In this order: retry-after-ms; retry-after; retryDelay (of the body); the longest
 * reset among the limits that have nothing left or do not say.
 */
export function retryAfterMs(headers: HeaderMap, retryDelay: string, nowMs: number): number | undefined {
  const milliseconds = numberOf(headers.get("retry-after-ms"));
  if (milliseconds !== undefined) return clamp(milliseconds);
  const told = parseWait(headers.get("retry-after"), nowMs) ?? parseWait(retryDelay, nowMs);
  if (told !== undefined) return told;
  const waits = [...limitsOf(headers).values()]
    .filter(({ remaining }) => !numberOf(remaining))
    .map(({ reset }) => parseWait(reset, nowMs))
    .filter((wait) => wait !== undefined);
  return waits.length > 0 ? Math.max(...waits) : undefined;
}

/**
 * What is told of the limits of these dimensions and of "requests". A limit belongs to the dimension of its name
 * ("input-tokens" is "input_tokens"), else to those that take the usage of that name. A limit without a name is one of
 * requests. What is absent or malformed is left out.
 */
export function rateLimits(
  headers: HeaderMap,
  kinds: Readonly<Record<string, UsageKind>>,
  nowMs: number,
): Record<string, RateLimitStatus> {
  const limits = limitsOf(headers);
  const ofKind = (kind: UsageKind): string[] => [...limits.keys()].filter((name) => USAGE_KINDS[name] === kind).sort();
  const candidates = Object.entries(kinds).map(([name, kind]) => [name, [normal(name), ...ofKind(kind)]] as const);
  const told: Record<string, RateLimitStatus> = {};
  for (const [name, names] of [...candidates, ["requests", ["requests", ""]] as const]) {
    const status = names.map((of) => statusOf(limits.get(of) ?? {}, nowMs)).find((of) => of !== undefined);
    if (status !== undefined) told[name] = status;
  }
  return told;
}

/** undefined: it tells nothing. */
function statusOf(limit: Limit, nowMs: number): RateLimitStatus | undefined {
  const remaining = numberOf(limit.remaining);
  const resetMs = parseWait(limit.reset, nowMs);
  const isTold = remaining !== undefined && remaining <= REMAINING_MAX;
  if (!isTold && resetMs === undefined) return undefined;
  return { ...(isTold && { remaining }), ...(resetMs !== undefined && { resetMs }) };
}

/** By the limit's name; the first header in the order of names holds. */
function limitsOf(headers: HeaderMap): Map<string, Limit> {
  const limits = new Map<string, Limit>();
  const put = (name: string, what: keyof Limit, value: string): void => {
    const limit = limits.get(normal(name)) ?? {};
    limits.set(normal(name), limit);
    limit[what] ||= value;
  };
  for (const [header, value] of [...headers].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const match = LIMIT_HEADER.exec(header);
    if (match) put(match[1] ?? match[3] ?? "", match[2] as keyof Limit, value);
    else if (header === "ratelimit") readListed(value, put);
  }
  for (const [name, { limit, remaining }] of limits) {
    // Negative ones are placeholders, not limits.
    if (limit?.startsWith("-") || remaining?.startsWith("-")) limits.delete(name);
  }
  return limits;
}

/** Of the IETF's header: "requests";r=50;t=12, "tokens";r=5000;t=30. */
function readListed(text: string, put: (name: string, what: keyof Limit, value: string) => void): void {
  for (const item of text.split(",")) {
    const [name = "", ...parameters] = item.split(";").map((part) => part.trim().replace(/^"|"$/g, ""));
    for (const parameter of parameters) {
      if (parameter.startsWith("r=")) put(name, "remaining", parameter.slice(2));
      if (parameter.startsWith("t=")) put(name, "reset", parameter.slice(2));
    }
  }
}

function normal(name: string): string {
  return name.toLowerCase().replaceAll("-", "_");
}

/**
 * A wait in milliseconds, in any of the forms that are about: spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or
 * milliseconds since 1970, RFC 3339 and HTTP dates. An instant that is over is a wait of 0. undefined: none of them.
 */
export function parseWait(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined) return undefined;
  if (SPANS.test(text)) {
    return clamp([...text.matchAll(SPAN)].reduce((sum, [, n, unit]) => sum + Number(n) * UNITS_MS[unit as string]!, 0));
  }
  const value = numberOf(text);
  if (value !== undefined) {
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

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && NUMBER.test(text) ? Number(text) : undefined;
}

// Whole milliseconds, so that every client says the same.
function clamp(waitMs: number): number {
  return Math.min(Math.max(0, Math.round(waitMs)), WAIT_MAX_MS);
}
