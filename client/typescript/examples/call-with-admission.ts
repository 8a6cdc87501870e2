// Calls something with a quota, with the gate's permission: call-with-admission.js [ADDRESS [TARGET [TENANT]]].
import { Deferred, Gate, Rejected } from "@fairgate/client";

const [address = "127.0.0.1:50051", target = "openai-prod", tenant = "acme"] = process.argv.slice(2);

/** Stands for the external call, and answers as OpenAI's API does. */
async function callTheProvider(id: number): Promise<{ id: number; usage: { total_tokens: number } }> {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return { id, usage: { total_tokens: 640 } };
}

const gate = new Gate(address);
for (let number = 1; number <= 5; number += 1) {
  try {
    const isDegraded = await gate.run({ target, tenant, tokens: 900 }, async (call) => {
      call.settle({ response: await callTheProvider(number) });
      return call.degraded;
    });
    console.log(`call ${number}: granted${isDegraded ? ", degraded" : ""}`);
  } catch (answer) {
    if (answer instanceof Deferred) {
      // A worker of an engine gives its slot back here, and asks again with answer.requestId.
      console.log(`call ${number}: deferred by ${(answer.delayMs / 1000).toFixed(3)} s`);
    } else if (answer instanceof Rejected) {
      console.log(`call ${number}: rejected: ${answer.explanation}`);
    } else {
      throw answer;
    }
  }
}
await gate.close();
