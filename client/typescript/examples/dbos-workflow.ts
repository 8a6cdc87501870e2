/**
 * Durable workflows whose calls share a quota: dbos-workflow DATABASE_URL [GATE [TARGET]].
 *
 * DATABASE_URL is PostgreSQL's, for example postgresql://postgres@127.0.0.1:5432/summaries.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DBOS } from "@dbos-inc/dbos-sdk";
import { type Call, Gate, Rejected } from "@fairgate/client";
import { DBOSGate } from "@fairgate/client/dbos";

const POLLING_INTERVAL_MS = 100;
const SLOTS = 4; // calls at a time of each worker
const [systemDatabaseUrl, address = "127.0.0.1:50051", target = "openai-prod"] = process.argv.slice(2);
const gate = new DBOSGate(new Gate(address));

/** One attempt is one send; when the gate defers it, this is not entered. */
async function askTheProvider(call: Call, document: string): Promise<string> {
  await sleep(20); // here goes the external call
  const response = { text: `${document}: short`, usage: { total_tokens: 640 } };
  call.settle({ response });
  return response.text;
}

const asking = gate.step("ask the provider", askTheProvider, {
  queue: "calls",
  pollingIntervalMs: POLLING_INTERVAL_MS,
  retriesAllowed: true,
  maxAttempts: 3,
});

/** While a call waits for its turn this workflow sleeps, and takes none of the slots of "calls". */
async function summarize(tenant: string, documents: string[]): Promise<string[]> {
  const lines: string[] = [];
  for (const document of documents) {
    try {
      lines.push(await asking.run({ target, tenant, tokens: 900, deadlineMs: 600_000 }, document));
    } catch (answer) {
      if (!(answer instanceof Rejected)) throw answer;
      lines.push(`${document}: ${answer.reason}`);
    }
  }
  return lines;
}

const summaries = DBOS.registerWorkflow(summarize, { name: "summarize" });
DBOS.setConfig({ name: "summaries", logLevel: "warn", ...(systemDatabaseUrl && { systemDatabaseUrl }) });
await DBOS.launch();
await DBOS.registerQueue("calls", { workerConcurrency: SLOTS, minPollingIntervalMs: POLLING_INTERVAL_MS });

/** A workflow that was done before is not done again. */
async function summary(tenant: string): Promise<void> {
  const workflowID = `summaries-of-${tenant}`;
  const handle = await DBOS.startWorkflow(summaries, { workflowID })(tenant, ["one", "two", "three"]);
  console.log(workflowID, (await handle.getResult({ pollingIntervalMs: POLLING_INTERVAL_MS })).join(", "));
}

await Promise.all([summary("acme"), summary("globex")]);
await DBOS.shutdown();
process.exit(0);
