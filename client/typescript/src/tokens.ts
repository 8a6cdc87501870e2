/** Estimating the tokens of a request from its body. */
import { decoded } from "./providers.js";

const CHARACTERS_PER_TOKEN = 4;
const TEXT_FIELDS = ["system", "instructions", "messages", "input", "prompt", "tools", "functions"];
// Values that are ids, names of kinds, or data that is not counted by its characters.
const NOT_TEXT = new Set([
  "cache_control",
  "call_id",
  "data",
  "file",
  "file_data",
  "id",
  "image_url",
  "input_audio",
  "media_type",
  "role",
  "source",
  "tool_call_id",
  "tool_use_id",
  "type",
  "url",
]);
const OUTPUT_FIELDS = ["max_completion_tokens", "max_output_tokens", "max_tokens"];

export interface EstimateOptions {
  /** Counts the tokens of a text; default: four characters (code points) are one token, rounded up over all texts. */
  count?: (text: string) => number;
  /** Tokens of output to expect when the body sets no bound; times the number of choices ("n"). Default 0. */
  output?: number;
}

/**
 * Tokens that a request may use: its input, and the bound it sets on its output.
 *
 * body: the request as an object or as JSON text, in the shape of OpenAI's or Anthropic's APIs; text that is no JSON
 * object is a prompt.
 */
export function estimateTokens(body: unknown, options: EstimateOptions = {}): number {
  const value = decoded(body);
  const request = isObject(value) ? value : { prompt: value };
  const texts = TEXT_FIELDS.flatMap((field) => textsOf(request[field]));
  const tokens = options.count
    ? sum(texts.map(options.count))
    : Math.ceil(sum(texts.map(codePoints)) / CHARACTERS_PER_TOKEN);
  const bound = OUTPUT_FIELDS.map((field) => request[field]).find(isCount) ?? options.output ?? 0;
  return tokens + bound * (isCount(request["n"]) ? request["n"] : 1);
}

function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => (NOT_TEXT.has(key) ? [] : textsOf(inner)));
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) > 0;
}
