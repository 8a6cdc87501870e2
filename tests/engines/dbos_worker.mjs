// The TypeScript worker on DBOS: dbos_worker.mjs DATABASE GATE OPTIONS. See common.py for what it does. It is run in the
// folder of the built package, whose name it imports.
//
// Workflows wait in the queue "works", which is not limited; calls go through "calls", whose slots are the worker's.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { Gate } from "@fairgate/client";
import { DBOSGate } from "@fairgate/client/dbos";

const POLLING_INTERVAL_MS = 50;
const RPC_TIMEOUT_MS = 5000; // a busy machine is no gate that is away
const [database, address, optionsJson] = process.argv.slice(2);
const options = JSON.parse(optionsJson);
const gate = new DBOSGate(new Gate(address, { rpcTimeoutMs: RPC_TIMEOUT_MS }), {
  maxHoldMs: options.max_hold_s * 1000,
});

function dieAt(point) {
  if (options.die_at !== point) return;
  process.kill(process.pid, "SIGKILL");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60_000); // it may take a moment: nothing more is done
}

async function post({ work, tenant, priority, upstream }, requestId, attempt, degraded) {
  const body = JSON.stringify({ work, tenant, priority, request_id: requestId, attempt, degraded });
  const response = await fetch(upstream, { method: "POST", headers: { "content-type": "application/json" }, body });
  return { retryAfterMs: 1000 * Number(response.headers.get("retry-after") ?? 0), answer: await response.json() };
}

async function admitted(call, work) {
  dieAt("granted");
  const { answer } = await post(work, call.requestId, call.attempt, call.degraded);
  dieAt("answered");
  if (call.attempt <= options.fail_sends) throw new Error("the connection broke");
  call.settle({ response: answer });
}

const call = gate.step("call", admitted, {
  queue: "calls",
  pollingIntervalMs: POLLING_INTERVAL_MS,
  retriesAllowed: true,
  intervalSeconds: 0.1,
  maxAttempts: 3,
});

async function naiveStep(work, requestId) {
  for (;;) {
    const { retryAfterMs } = await post(work, requestId, 1, false);
    if (retryAfterMs === 0) return;
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
  }
}

const naive = DBOS.registerWorkflow(
  async (work) => await DBOS.runStep(() => naiveStep(work, DBOS.workflowID), { name: "naive" }),
  { name: "naive" },
);

async function calls(work) {
  const { target, tenant, priority } = work;
  const question = { target, tenant, priority, deadlineMs: work.deadline_s ? work.deadline_s * 1000 : undefined };
  for (let number = 0; number < work.calls; number += 1) {
    if (options.mode === "naive") {
      const handle = await DBOS.startWorkflow(naive, { queueName: "calls" })(work);
      await handle.getResult({ pollingIntervalMs: POLLING_INTERVAL_MS });
    } else {
      await call.run(question, work);
    }
  }
}

/** How long a sleep took, in seconds. */
async function sleep(delayMs) {
  const began = await DBOS.now();
  await DBOS.sleep(delayMs);
  return ((await DBOS.now()) - began) / 1000;
}

DBOS.registerWorkflow(calls, { name: "calls" });
DBOS.registerWorkflow(sleep, { name: "sleep" });
DBOS.setConfig({
  name: "fairgate-tests",
  systemDatabaseUrl: database,
  applicationVersion: "1",
  executorID: "worker",
  logLevel: "warn",
});
await DBOS.launch();
const queue = { minPollingIntervalMs: POLLING_INTERVAL_MS, onConflict: "always_update" };
await DBOS.registerQueue("works", queue);
await DBOS.registerQueue("calls", { ...queue, workerConcurrency: options.slots });
console.log("ready"); // until it is killed
