/** What is left of a retry policy after a deferral; tests/engines of the project runs the adapter on the real engine. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { restOf } from "../src/dbos.js";

test("retries go on where they were", () => {
  const options = { queue: "calls", retriesAllowed: true, maxAttempts: 4, intervalSeconds: 1 };
  assert.deepEqual(restOf(options, 0), { retriesAllowed: true, maxAttempts: 4, intervalSeconds: 1 });
  assert.deepEqual(restOf(options, 2), { retriesAllowed: true, maxAttempts: 2, intervalSeconds: 4 });
  assert.equal(restOf(options, 9).maxAttempts, 1);
  assert.equal(restOf(options, 100_000).intervalSeconds, 3600);
  assert.equal(restOf({ ...options, backoffRate: 1 }, 100).intervalSeconds, 1);
  assert.deepEqual(restOf({ retriesAllowed: true }, 1), { retriesAllowed: true, maxAttempts: 2, intervalSeconds: 2 });
});

test("a step without retries has none left to count", () => {
  assert.deepEqual(restOf({ maxAttempts: 4 }, 2), { maxAttempts: 4 });
});
