// The TypeScript worker's workflow: it is bundled alone.
import { continueAsNew, proxyActivities } from "@temporalio/workflow";

/** Work of common.py. */
export async function Calls(work) {
  const { call } = proxyActivities({
    startToCloseTimeout: work.attempt_timeout_s * 1000,
    ...(work.deadline_s > 0 ? { scheduleToCloseTimeout: work.deadline_s * 1000 } : {}),
    retry: { initialInterval: 100, ...(work.attempts_max > 0 ? { maximumAttempts: work.attempts_max } : {}) },
  });
  for (let number = 0; number < work.calls; number += 1) await call(work);
  if (work.runs > 1) await continueAsNew({ ...work, runs: work.runs - 1 });
}
