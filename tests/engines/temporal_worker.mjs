// The TypeScript worker: `run SERVER QUEUE GATE OPTIONS`, `replay JSON BYTES` of a history, or `bundle FILE` once before; common.py says
// what it does. It is run in the folder of the built package, whose name it imports.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { activityInfo } from "@temporalio/activity";
import proto from "@temporalio/proto";
import { bundleWorkflowCode, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { Gate } from "@fairgate/client";
import { fairgateInterceptors, ofActivity } from "@fairgate/client/temporal";

const RPC_TIMEOUT_MS = 5000;
const [, , command, ...rest] = process.argv;
const bundle = fileURLToPath(new URL("./bundle.js", import.meta.url));

function seconds(value) {
  return value * 1000;
}

async function send(work, requestId, attempt, degraded) {
  const { work: name, tenant, priority } = work;
  const body = JSON.stringify({ work: name, tenant, priority, request_id: requestId, attempt, degraded });
  return await fetch(work.upstream, { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

function activities(gate, options) {
  function dieAt(point) {
    if (options.die_at !== point) return;
    process.kill(process.pid, "SIGKILL");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); // the signal may take a moment
  }

  async function naive(work) {
    const { activityId, attempt } = activityInfo();
    for (;;) {
      const response = await send(work, activityId, attempt, false);
      await response.arrayBuffer();
      if (response.status === 200) return;
      await new Promise((resolve) => setTimeout(resolve, seconds(Number(response.headers.get("Retry-After")))));
    }
  }

  return {
    async call(work) {
      if (options.mode === "naive") return await naive(work);
      const question = { target: work.target, tenant: work.tenant, priority: work.priority, ...ofActivity() };
      return await gate.run(question, async (call) => {
        dieAt("granted");
        const response = await send(work, call.requestId, call.attempt, call.degraded);
        const body = await response.json();
        dieAt("answered");
        if (call.attempt <= options.fail_sends) throw new Error("the connection broke");
        call.settle({ response, body });
      });
    },
  };
}

async function run(server, queue, gateAddress, options) {
  Runtime.install({ shutdownSignals: ["SIGTERM"] });
  const gate = new Gate(gateAddress, { rpcTimeoutMs: RPC_TIMEOUT_MS });
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address: server }),
    taskQueue: queue,
    ...(options.part === "steps" ? {} : { workflowBundle: { codePath: bundle } }),
    ...(options.part === "workflows" ? {} : { activities: activities(gate, options) }),
    interceptors: {
      activity: fairgateInterceptors({
        timerFloorMs: seconds(options.timer_floor_s),
        maxHoldMs: seconds(options.max_hold_s),
      }).activity,
    },
    maxConcurrentActivityTaskExecutions: options.slots,
    stickyQueueScheduleToStartTimeout: 1000, // for those who wait until a killed one is missed
  });
  console.log("ready");
  await worker.run();
  await gate.close();
}

if (command === "bundle") {
  const workflowsPath = fileURLToPath(new URL("./temporal_workflow.mjs", import.meta.url));
  const { workflowModules } = fairgateInterceptors();
  const { code } = await bundleWorkflowCode({ workflowsPath, workflowInterceptorModules: workflowModules });
  writeFileSync(bundle, code);
} else if (command === "replay") {
  // As bytes: the SDK reads JSON only where npm gives all of its packages the same protobufjs.
  const history = proto.temporal.api.history.v1.History.decode(readFileSync(rest[1]));
  await Worker.runReplayHistory({ workflowBundle: { codePath: bundle } }, history);
  console.log("replayed");
  process.exit(0);
} else {
  await run(rest[0], rest[1], rest[2], JSON.parse(rest[3]));
  process.exit(0);
}
