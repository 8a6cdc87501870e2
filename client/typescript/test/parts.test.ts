// The parts without I/O.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Breaker } from "../src/breaker.js";
import { parseWait } from "../src/headers.js";
import { httpResponseOf, settlementFromResponse } from "../src/providers.js";
import { fromProto, sleep, toProto, withDeadline, workDeadline } from "../src/time.js";
import { estimateTokens } from "../src/tokens.js";

test("an open breaker lets one try through per cool-down", () => {
  const breaker = new Breaker(2, 1000);
  breaker.failed(0);
  assert.equal(breaker.isOpen, false);
  breaker.failed(10);
  assert.equal(breaker.isOpen, true);
  assert.equal(breaker.allows(1009), false);
  assert.equal(breaker.allows(1010), true);
  assert.equal(breaker.allows(1011), false);
  breaker.succeeded();
  assert.equal(breaker.allows(1012), true);
});

test("a breaker of 0 failures never opens", () => {
  const breaker = new Breaker(0, 1000);
  for (let i = 0; i < 5; i += 1) breaker.failed(i);
  assert.equal(breaker.allows(6), true);
});

test("durations keep their sign and their microseconds", () => {
  for (const ms of [0, 0.001, 1.5, 999.999, 60_000.25, -0.5, -1500]) assert.equal(fromProto(toProto(ms)), ms);
  for (const ms of [NaN, Infinity, 1e15]) assert.throws(() => toProto(ms), RangeError);
});

test("of nested deadlines the earliest holds, and it ends with its context", async () => {
  const left = (): number | undefined => {
    const due = workDeadline(undefined, undefined);
    return due === undefined ? undefined : due - performance.now();
  };
  await withDeadline(1000, async () => {
    await sleep(1);
    assert.ok(left()! <= 999);
    withDeadline(50_000, () => assert.ok(left()! <= 1000));
    withDeadline(10, () => assert.ok(left()! <= 10));
    withDeadline(undefined, () => assert.ok(left()! > 500));
  });
  assert.equal(left(), undefined);
});

test("sleeping ends with its signal, and lets go of it", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  setTimeout(() => controller.abort(reason), 5);
  await assert.rejects(sleep(60_000, controller.signal), reason);
  await assert.rejects(sleep(60_000, AbortSignal.abort(reason)), reason);
  const began = performance.now();
  await sleep(20.5);
  assert.ok(performance.now() - began >= 20.5);
});

test("responses are found in what the SDKs and HTTP libraries give", () => {
  const usage = { usage: { total_tokens: 7 } };
  const headers = { "Retry-After": "3" };
  const sdkError = Object.assign(new Error("429"), { status: 429, headers: new Headers(headers), error: {} });
  const axiosError = Object.assign(new Error("429"), { response: { status: 429, headers, data: {} } });
  const gotError = Object.assign(new Error("429"), { response: { statusCode: 429, headers, body: "{}" } });
  for (const error of [sdkError, axiosError, gotError, new Response(null, { status: 429, headers })]) {
    const settled = settlementFromResponse(error);
    assert.deepEqual(settled, { outcome: "RATE_LIMITED", actual: {}, retryAfterMs: 3000, rateLimits: {} });
  }
  const bodies = [
    usage,
    JSON.stringify(usage),
    { status: 200, headers: {}, data: usage },
    { statusCode: 200, headers: {}, body: JSON.stringify(usage) },
  ];
  for (const response of bodies) {
    assert.deepEqual(settlementFromResponse(response), { outcome: "OK", actual: { tokens: 7 }, rateLimits: {} });
  }
  const read = settlementFromResponse(new Response(null, { status: 200 }), { body: usage });
  assert.deepEqual(read.actual, { tokens: 7 });
  // OpenAI's Response objects have a status that is a word.
  assert.equal(httpResponseOf({ status: "completed", usage: {} }), undefined);
  assert.throws(() => settlementFromResponse(usage, { dimensions: ["pages"] }), TypeError);
  assert.deepEqual(settlementFromResponse(usage, { dimensions: { pages: "total" } }).actual, { pages: 7 });
});

test("waits in forms that are none", () => {
  for (const text of ["", "-1", "1e3", "soon", "5 s", "12:00:00", "2026-13-41T99:00:00Z", "NaN", "0x10"]) {
    assert.equal(parseWait(text, 0), undefined, text);
  }
  assert.equal(parseWait("2026-08-07T21:00:00", Date.UTC(2026, 7, 7, 20, 59)), 60_000);
});

test("tokens are counted by a tokenizer that is given", () => {
  const count = (text: string): number => text.split(" ").length;
  assert.equal(estimateTokens({ prompt: "one two three" }, { count }), 3);
  assert.equal(estimateTokens('{"prompt": "abcdefgh"}'), 2);
  assert.equal(estimateTokens("no JSON at all"), 4);
  assert.equal(estimateTokens({ prompt: "abcd", max_tokens: 1.5 }, { output: 3 }), 4);
});
