/**
 * Calls of two tenants through one slot of a Temporal worker: temporal-worker [SERVER [GATE [TARGET]]].
 *
 * Who is deferred sleeps in its workflow and gives the slot to whoever may go.
 */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import { NativeConnection, Worker } from "@temporalio/worker";
import { Gate } from "@fairgate/client";
import { fairgateInterceptors, ofActivity } from "@fairgate/client/temporal";
import type { completions } from "./temporal-workflow.js";

const [server = "127.0.0.1:7233", gateAddress = "127.0.0.1:50051", target = "openai-prod"] = process.argv.slice(2);
const gate = new Gate(gateAddress);

/** The tokens that one call used. */
async function complete(tenant: string): Promise<number> {
  return await gate.run({ target, tenant, tokens: 900, ...ofActivity() }, async (call) => {
    await sleep(20); // stands for the external call
    call.settle({ response: { usage: { total_tokens: 640 } } });
    return 640;
  });
}

const taskQueue = `completions-${Date.now()}`;
const client = new Client({ connection: await Connection.connect({ address: server }) });
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address: server }),
  taskQueue,
  workflowsPath: fileURLToPath(new URL("./temporal-workflow.js", import.meta.url)),
  activities: { complete },
  interceptors: fairgateInterceptors(),
  maxConcurrentActivityTaskExecutions: 1,
});

const began = Date.now();
async function run(tenant: string, calls: number): Promise<void> {
  const options = { args: [tenant, calls] as [string, number], taskQueue, workflowId: `${taskQueue}/${tenant}` };
  const used = await client.workflow.execute<typeof completions>("completions", options);
  console.log(`${tenant}: ${calls} calls, ${used} tokens, ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

await worker.runUntil(Promise.all([run("acme", 6), run("globex", 2)]));
await gate.close();
process.exit(0);
