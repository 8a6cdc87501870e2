/** The workflow of temporal-worker.ts: so many calls of a tenant, one after the other. It is bundled alone. */
import { proxyActivities } from "@temporalio/workflow";

const { complete } = proxyActivities<{ complete(tenant: string): Promise<number> }>({
  startToCloseTimeout: "30 seconds",
});

/** The tokens used. */
export async function completions(tenant: string, calls: number): Promise<number> {
  let used = 0;
  for (let number = 0; number < calls; number += 1) used += await complete(tenant);
  return used;
}
