// The TypeScript worker on Restate: restate_worker.mjs PORT GATE OPTIONS. See common.py for what it does.
//
// Writes how long each attempt of an invocation held its slot, and what the gate answered meanwhile.
import { AsyncLocalStorage } from "node:async_hooks";
import http2 from "node:http2";

// The SDK wants Node 22.
Promise.withResolvers ??= () => {
  let resolve, reject;
  const promise = new Promise((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
};
const restate = await import("@restatedev/restate-sdk");
const { Gate } = await import("@fairgate/client");
const { RestateGate } = await import("@fairgate/client/restate");

const RPC_TIMEOUT_MS = 5000; // a busy machine is no gate that is away
const [port, address, optionsJson] = process.argv.slice(2);
const options = JSON.parse(optionsJson);
const answersOf = new AsyncLocalStorage();

const gate = new Gate(address, {
  rpcTimeoutMs: RPC_TIMEOUT_MS,
  onEvent: (event) => event.type === "admit" && answersOf.getStore()?.push(event.outcome),
});
const restateGate = new RestateGate(gate, { maxHoldMs: options.max_hold_s * 1000 });

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

async function admitted(work, call) {
  dieAt("granted");
  const { answer } = await post(work, call.requestId, call.attempt, call.degraded);
  dieAt("answered");
  if (call.attempt <= options.fail_sends) throw new Error("the connection broke");
  call.settle({ response: answer });
}

async function naive(work, requestId) {
  for (;;) {
    const { retryAfterMs } = await post(work, requestId, 1, false);
    if (retryAfterMs === 0) return;
    await new Promise((resolve) => setTimeout(resolve, retryAfterMs));
  }
}

async function run(ctx, work) {
  const { target, tenant, priority } = work;
  const question = { target, tenant, priority, deadlineMs: work.deadline_s ? work.deadline_s * 1000 : undefined };
  const step = { initialRetryInterval: 100, ...(work.attempts_max && { maxRetryAttempts: work.attempts_max }) };
  for (let number = 0; number < work.calls; number += 1) {
    if (options.mode === "naive") await ctx.run("call", () => naive(work, ctx.request().id));
    else await restateGate.run(ctx, "call", question, (call) => admitted(work, call), step);
  }
}

async function sleep(ctx, delayMs) {
  const began = await ctx.run("began", () => Date.now());
  await ctx.sleep(delayMs);
  return ((await ctx.run("ended", () => Date.now())) - began) / 1000;
}

const calls = restate.service({
  name: "Calls",
  handlers: { run, sleep },
  options: { inactivityTimeout: 0, retryPolicy: { initialInterval: 100, maxInterval: 1000 } },
});
const handle = restate.endpoint().bind(calls).http2Handler();
http2
  .createServer((request, response) => {
    const answers = [];
    const began = performance.now();
    response.once("close", () =>
      console.log(`held ${(performance.now() - began).toFixed(2)} ms, ${answers.join(" ")}`),
    );
    answersOf.run(answers, () => handle(request, response));
  })
  .listen(Number(port), "127.0.0.1");
