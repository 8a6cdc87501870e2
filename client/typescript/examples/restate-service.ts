// A Restate service whose calls share a quota: restate-service.js [GATE [TARGET [PORT]]]. Node 22.
//
// Register it and call it, with Restate's server on its default ports:
//
//     curl 127.0.0.1:9070/deployments --json '{"uri": "http://127.0.0.1:9080"}'
//     curl 127.0.0.1:8080/Summaries/summarize --json '{"tenant": "acme", "documents": ["one", "two", "three"]}'
import * as restate from "@restatedev/restate-sdk";
import { type Call, Gate } from "@fairgate/client";
import { Rejected, RestateGate } from "@fairgate/client/restate";

const [address = "127.0.0.1:50051", target = "openai-prod", port = "9080"] = process.argv.slice(2);
const gate = new RestateGate(new Gate(address));

/** Stands for the external call. */
async function askTheProvider(call: Call, document: string): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, 20));
  const response = { text: `${document}: short`, usage: { total_tokens: 640 } };
  call.settle({ response });
  return response.text;
}

async function summarize(ctx: restate.Context, order: { tenant: string; documents: string[] }): Promise<string[]> {
  const lines: string[] = [];
  for (const document of order.documents) {
    const question = { target, tenant: order.tenant, tokens: 900, deadlineMs: 600_000 };
    try {
      const ask = (call: Call): Promise<string> => askTheProvider(call, document);
      lines.push(await gate.run(ctx, "ask the provider", question, ask, { maxRetryAttempts: 3 }));
    } catch (answer) {
      if (!(answer instanceof Rejected)) throw answer;
      lines.push(`${document}: ${answer.reason}`);
    }
  }
  return lines;
}

const summaries = restate.service({
  name: "Summaries",
  handlers: { summarize },
  options: { inactivityTimeout: 0 }, // an invocation is suspended as soon as it sleeps
});
await restate.serve({ services: [summaries], port: Number(port) });
