// What conformance cases cannot say of this language: scopes, signals, and a program that stands still.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, afterEach, beforeEach, test } from "node:test";
import { Worker } from "node:worker_threads";
import { CallOutcome } from "../src/generated/fairgate/v1/admission.js";
import {
  type Call,
  deadlineSignal,
  Gate,
  type GateEvent,
  GateError,
  type GateOptions,
  Rejected,
} from "../src/index.js";
import { sleep } from "../src/time.js";
import { FakeGate } from "./fake-gate.js";

const QUESTION = { target: "t", tenant: "a", tokens: 9 };

let fake: FakeGate;
let address: string;
let gate: Gate;

function open(options: GateOptions = {}): Gate {
  return new Gate(address, { rpcTimeoutMs: 10_000, logger: null, ...options });
}

beforeEach(async () => {
  fake = new FakeGate();
  address = await fake.start();
  gate = open();
});

afterEach(async () => {
  await gate.close();
  fake.stop();
});

function settled(): { outcome: string | undefined; actual: Record<string, number> }[] {
  return fake.releases.map(({ action }) => {
    assert.equal(action?.$case, "settle");
    const { outcome, actual } = action.value;
    return { outcome: CallOutcome[outcome]?.replace("CALL_OUTCOME_", ""), actual };
  });
}

test("a scope settles when it ends, however it ends", async () => {
  {
    await using call = await gate.admit(QUESTION);
    call.settle({ tokens: 7 });
  }
  await assert.rejects(async () => {
    await using _call = await gate.admit(QUESTION);
    throw new Error("the application's");
  }, /the application's/);
  assert.deepEqual(settled(), [
    { outcome: "OK", actual: { tokens: 7 } },
    { outcome: "UNSPECIFIED", actual: {} },
  ]);
});

test("a block gives what its work gives, and settles by the response in its error", async () => {
  assert.equal(await gate.run(QUESTION, () => "done"), "done");
  const refused = Object.assign(new Error("429"), { status: 429, headers: { "retry-after": "2" } });
  await assert.rejects(
    gate.run(QUESTION, () => Promise.reject(refused)),
    refused,
  );
  assert.deepEqual(
    settled().map(({ outcome }) => outcome),
    ["UNSPECIFIED", "RATE_LIMITED"],
  );
});

test("an SDK's error settles by hand as in a block", async () => {
  await using call = await gate.admit(QUESTION);
  call.settle({ response: Object.assign(new Error("500"), { status: 500, headers: {} }), tokens: 3 });
  await call.release();
  assert.deepEqual(settled(), [{ outcome: "SERVER_ERROR", actual: { tokens: 3 } }]);
});

test("an ended lease is not ended again, nor extended", async () => {
  const call = await gate.admit(QUESTION);
  assert.equal((await call.release())?.result, "SETTLED");
  assert.equal(await call.release(), undefined);
  await call[Symbol.asyncDispose]();
  await assert.rejects(call.extend(1000), GateError);
  assert.equal(fake.releases.length, 1);
});

test("an aborted signal asks nothing", async () => {
  const reason = new Error("enough");
  await assert.rejects(gate.admit({ ...QUESTION, signal: AbortSignal.abort(reason) }), reason);
  assert.equal(fake.admits.length, 0);
});

test("a signal that is aborted while the gate is asked takes the question back", async () => {
  fake.delayMs = Infinity;
  const controller = new AbortController();
  const reason = new Error("enough");
  const asking = gate.admit({ ...QUESTION, requestId: "x", signal: controller.signal });
  while (fake.admits.length === 0) await sleep(1);
  controller.abort(reason);
  await assert.rejects(asking, reason);
  await gate.close();
  assert.deepEqual(
    fake.releases.map(({ requestId, action }) => [requestId, action?.$case]),
    [["x", "withdraw"]],
  );
});

test("a block that is aborted before sending costs nothing", async () => {
  const controller = new AbortController();
  const work = async (call: Call): Promise<void> => {
    controller.abort();
    call.signal?.throwIfAborted();
  };
  await assert.rejects(gate.run({ ...QUESTION, tellsSent: true, signal: controller.signal }, work), {
    name: "AbortError",
  });
  assert.deepEqual(settled(), [{ outcome: "NOT_SENT", actual: {} }]);
});

test("the deadline of a signal is told, and its end is a reject, not an abort", async () => {
  fake.delayMs = Infinity;
  const answer = await gate.tryAdmit({ ...QUESTION, signal: deadlineSignal(50) });
  assert.ok(answer instanceof Rejected);
  assert.equal(answer.reason, "DEADLINE_UNREACHABLE");
  const deadline = fake.admits[0]?.deadline;
  assert.ok(deadline !== undefined && deadline.seconds === 0 && deadline.nanos <= 50e6);
  await gate.close();
  assert.equal(fake.releases[0]?.action?.$case, "withdraw");
  assert.equal(gate.counters.failedOpen, 0);
});

test("hooks and loggers see what happens, and cannot break it", async () => {
  const warnings: string[] = [];
  const events: GateEvent[] = [];
  await using watched = open({
    onEvent(event) {
      events.push(event);
      throw new Error("a bad hook");
    },
    logger: { warn: (message) => warnings.push(message), debug: () => {} },
    metadata: { authorization: "Bearer x" },
  });
  await watched.run(QUESTION, (call) => call.settle());
  assert.deepEqual(
    events.map(({ type }) => type),
    ["admit", "release"],
  );
  assert.equal(warnings.length, 2);
  assert.deepEqual(fake.metadata[0]?.get("authorization"), ["Bearer x"]);
});

test("a gate can be used again after it was closed", async () => {
  await gate.run(QUESTION, () => {});
  await gate.close();
  await gate.run(QUESTION, () => {});
  assert.equal(fake.releases.length, 2);
});

test("an answer that comes while the program stands still is not missing", async () => {
  const answers = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("fake-gate.js", import.meta.url), { workerData: answers });
  after(() => worker.terminate());
  const [elsewhere] = (await once(worker, "message")) as [string];
  await using patient = new Gate(elsewhere, { rpcTimeoutMs: 10_000, logger: null });
  await patient.run(QUESTION, () => {}); // connects, for both: they share what is connected
  await using hurried = new Gate(elsewhere, { rpcTimeoutMs: 1000, logger: null });
  for (let patienceMs = 5; ; patienceMs *= 4) {
    const before = Atomics.load(answers, 0);
    const asking = hurried.admit(QUESTION);
    await sleep(patienceMs); // mostly enough to send it; while the program stands still nothing is sent
    const until = performance.now() + 1200;
    while (performance.now() < until);
    const answered = Atomics.load(answers, 0) > before;
    const call = await asking;
    if (!answered && patienceMs < 1000) continue; // on a busy machine
    assert.equal(call.failedOpen, false);
    break;
  }
});
