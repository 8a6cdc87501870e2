/** Parts of the adapter for Temporal; tests/engines of the project runs it on the real engine. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { fairgateInterceptors, ofActivity } from "../src/temporal.js";
import { restOf } from "../src/temporal-workflow.js";

test("the rest of a retry policy", () => {
  for (const [policy, failures, attemptsLeft, intervalMs] of [
    [{ maximumAttempts: 3 }, 2, 1, 4000],
    [{}, 2, undefined, 4000],
    [undefined, 3, undefined, 8000],
    [undefined, 1_000_000, undefined, 100_000],
    [{ maximumInterval: "3s" }, 2, undefined, 3000],
    [{ backoffCoefficient: 1 }, 1000, undefined, 1000],
  ] as const) {
    const rest = restOf(policy, failures);
    assert.deepEqual([rest?.maximumAttempts, rest?.initialInterval], [attemptsLeft, intervalMs]);
  }
  const policy = { maximumAttempts: 3 };
  assert.equal(restOf(policy, 0), policy);
});

test("the workflow's module is there", () => {
  const modules = fairgateInterceptors().workflowModules;
  assert.equal(modules.length, 1);
  assert.ok(existsSync(modules[0]!));
});

test("outside of a worker", () => {
  assert.throws(() => ofActivity(), /fairgateInterceptors/);
});
