// The TypeScript client's driver: node typescript_driver.mjs BUILT/index.js. A cancellation is an AbortSignal's.
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const fairgate = await import(pathToFileURL(process.argv[2]).href);

class ApplicationError extends Error {}

let gate;
let events = [];

function gateOptions(options) {
  const names = {
    rpcTimeoutMs: "rpc_timeout_ms",
    failOpen: "fail_open",
    breakerFailures: "breaker_failures",
    breakerCooldownMs: "breaker_cooldown_ms",
    keepaliveMs: "keepalive_ms",
  };
  const known = Object.entries(names).filter(([, key]) => key in options);
  const onEvent = (event) => events.push(event);
  return { ...Object.fromEntries(known.map(([name, key]) => [name, options[key]])), onEvent, logger: null };
}

function question(command, signal) {
  const asked = {
    target: command.target,
    tenant: command.tenant,
    priority: command.priority,
    cost: command.cost,
    upperBound: command.upper_bound,
    requestId: command.request_id,
    attempt: command.attempt,
    deadlineMs: command.deadline_ms,
    timerFloorMs: command.timer_floor_ms,
    maxHoldMs: command.max_hold_ms,
    maxWaitMs: command.max_wait_ms === "forever" ? Infinity : command.max_wait_ms,
    checkOnly: command.check_only,
    tellsSent: command.tells_sent,
    signal,
  };
  return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined && value !== null));
}

function answerOf(outcome) {
  if (outcome instanceof fairgate.GateError) {
    return { outcome: "ERROR", code: outcome.code, message: outcome.details, fields: outcome.fields };
  }
  const { requestId: request_id, attempt, degraded } = outcome;
  const who = { request_id, attempt, degraded };
  switch (outcome.kind) {
    case "deferred":
      return {
        ...who,
        outcome: "DEFERRED",
        delay_ms: outcome.delayMs,
        projected_wait_ms: outcome.projectedWaitMs,
        place: outcome.place,
        limited_by: outcome.limitedBy,
      };
    case "rejected":
      return {
        ...who,
        outcome: "REJECTED",
        reason: outcome.reason,
        message: outcome.explanation,
        dimension: outcome.dimension,
        earliest_ms: outcome.earliestMs,
      };
    default:
      return {
        ...who,
        outcome: outcome.failedOpen ? "FAILED_OPEN" : "GRANTED",
        debited: outcome.debited,
        lease_expires_in_ms: outcome.leaseExpiresInMs,
        repeated: outcome.repeated,
      };
  }
}

async function act(call, action, answer, controller) {
  if ("settle" in action) {
    const { actual, outcome, retry_after_ms: retryAfterMs, rate_limits: limits = {} } = action.settle;
    const rateLimits = mapValues(limits, ({ remaining, reset_ms: resetMs }) => ({ remaining, resetMs }));
    call.settle({ actual, outcome, retryAfterMs, rateLimits });
  } else if ("response" in action) {
    const { status = 200, headers = {}, body } = action.response;
    call.settle({ response: new Response(null, { status, headers }), body });
  } else if ("sent" in action) {
    call.sent();
  } else if ("not_sent" in action) {
    call.notSent();
  } else if ("raise" in action) {
    throw new ApplicationError("the block's own error");
  } else if ("extend" in action) {
    answer.extended_ms = await call.extend(action.extend.lease_ttl_ms, action.extend.used_so_far);
  } else if ("cancel" in action) {
    controller.abort();
    call.signal.throwIfAborted();
  } else if ("sleep_ms" in action) {
    await sleep(action.sleep_ms, undefined, { signal: call.signal });
  }
}

async function admit(command) {
  const beganMs = performance.now();
  const elapsedMs = () => performance.now() - beganMs;
  const controller = new AbortController();
  const answer = {};
  let call;
  const work = async (granted) => {
    call = granted;
    Object.assign(answer, answerOf(call), { elapsed_ms: elapsedMs() });
    for (const action of command.body ?? []) await act(call, action, answer, controller);
  };
  const timer =
    command.cancel_after_ms === undefined ? undefined : setTimeout(() => controller.abort(), command.cancel_after_ms);
  // Both ways in which a context has a deadline.
  const withinMs = command.context_deadline_ms;
  const isOfSignal = withinMs !== undefined && events.length % 2 === 0;
  const signal = isOfSignal ? fairgate.deadlineSignal(withinMs) : controller.signal;
  try {
    await fairgate.withDeadline(isOfSignal ? undefined : withinMs, () => gate.run(question(command, signal), work));
  } catch (error) {
    if (error instanceof fairgate.NotAdmitted || error instanceof fairgate.GateError) {
      if (answer.outcome === undefined) Object.assign(answer, answerOf(error));
    } else if (error instanceof ApplicationError) {
      answer.ended_by = "application";
    } else if (error.name === "AbortError") {
      answer.outcome ??= "CANCELLED";
      answer.ended_by = "cancelled";
    } else {
      throw error;
    }
  } finally {
    clearTimeout(timer);
  }
  if (call?.report !== undefined) {
    answer.released = call.report.result;
    answer.refunded = call.report.refunded;
  }
  return { elapsed_ms: elapsedMs(), ...answer };
}

async function burst(count, command) {
  const answers = await Promise.all(Array.from({ length: count }, () => admit(command)));
  const outcomes = {};
  for (const { outcome } of answers) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  return { outcomes, elapsed_ms_max: Math.max(...answers.map((answer) => answer.elapsed_ms)) };
}

async function withdraw({ target, request_id: requestId, attempt }) {
  try {
    return { released: (await gate.withdraw({ target, requestId, attempt })).result };
  } catch (error) {
    if (error instanceof fairgate.GateError) return { code: error.code };
    throw error;
  }
}

function counters() {
  const { failedOpen, breakerSkips, releasesLost, ...same } = gate.counters;
  return { ...same, failed_open: failedOpen, breaker_skips: breakerSkips, releases_lost: releasesLost };
}

function eventOf({ type, durationMs, outcome, ...fields }) {
  const event = { event: type, ...fields, duration_ms: durationMs };
  return outcome === undefined ? event : { ...event, outcome: outcome.toUpperCase() };
}

function mapValues(of, change) {
  return Object.fromEntries(Object.entries(of).map(([name, value]) => [name, change(value)]));
}

function settlement({ status, headers = {}, body, dimensions, now_s: nowS }) {
  const nowMs = nowS === undefined ? undefined : nowS * 1000;
  const settled = fairgate.settlementFromResponse(undefined, { status, headers, body, dimensions, nowMs });
  const limits = mapValues(settled.rateLimits, ({ remaining, resetMs }) => ({ remaining, reset_ms: resetMs }));
  return {
    outcome: settled.outcome,
    actual: settled.actual,
    retry_after_ms: settled.retryAfterMs,
    rate_limits: limits,
  };
}

async function answer(command) {
  switch (command.op) {
    case "hello":
      return { client: "typescript", version: fairgate.VERSION };
    case "open":
      events = [];
      gate = new fairgate.Gate(command.address, gateOptions(command.options));
      return {};
    case "admit":
      return admit(command);
    case "burst":
      return burst(command.count, command.admit);
    case "withdraw":
      return withdraw(command);
    case "counters":
      return counters();
    case "events":
      return { events: events.splice(0).map(eventOf) };
    case "settlement":
      return settlement(command);
    case "estimate":
      return { tokens: fairgate.estimateTokens(command.body, { output: command.output }) };
    case "close":
      await gate.close();
      return {};
    default:
      return { driver_error: `unknown op ${command.op}` };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const said = await answer(JSON.parse(line)).catch((error) => ({ driver_error: error.stack }));
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
