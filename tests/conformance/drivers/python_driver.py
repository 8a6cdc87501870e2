"""The Python client's driver. Cancellation of the blocking surface is an exception raised by a signal, as Ctrl-C does."""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import json
import math
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import staging  # noqa: E402, F401 - makes the package
import fairgate  # noqa: E402


class ApplicationError(Exception):
    """The block's own."""


class Cancelled(BaseException):
    """The blocking surface's cancellation."""


def milliseconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds() * 1000


def gate_options(options: dict[str, Any], on_event: Any) -> fairgate.GateOptions:
    known = {
        name: options[key] / 1000
        for name, key in (
            ("rpc_timeout", "rpc_timeout_ms"),
            ("breaker_cooldown", "breaker_cooldown_ms"),
            ("keepalive", "keepalive_ms"),
        )
        if key in options
    }
    known |= {name: options[name] for name in ("fail_open", "breaker_failures") if name in options}
    return fairgate.GateOptions(on_event=on_event, **known)


def question(command: dict[str, Any]) -> dict[str, Any]:
    asked = {
        key: command[key]
        for key in (
            "target",
            "tenant",
            "priority",
            "cost",
            "upper_bound",
            "request_id",
            "attempt",
            "check_only",
            "tells_sent",
        )
        if key in command
    }
    for name in ("deadline", "timer_floor", "max_hold", "max_wait"):
        if f"{name}_ms" in command:
            asked[name] = math.inf if command[f"{name}_ms"] == "forever" else command[f"{name}_ms"] / 1000
    return asked


@contextlib.contextmanager
def context_deadline(command: dict[str, Any]) -> Iterator[None]:
    within = command.get("context_deadline_ms")
    with fairgate.deadline(None if within is None else within / 1000):
        yield


def answer_of(outcome: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for name in ("request_id", "attempt", "degraded"):
        answer[name] = getattr(outcome, name, None)
    if isinstance(outcome, fairgate.Deferred):
        answer |= {"outcome": "DEFERRED", "delay_ms": milliseconds(outcome.delay), "place": outcome.place}
        answer["projected_wait_ms"] = milliseconds(outcome.projected_wait)
        answer["limited_by"] = [dataclasses.asdict(limit) for limit in outcome.limited_by]
    elif isinstance(outcome, fairgate.Rejected):
        answer |= {"outcome": "REJECTED", "reason": outcome.reason.value, "message": outcome.message}
        answer |= {"dimension": outcome.dimension, "earliest_ms": milliseconds(outcome.earliest)}
    elif isinstance(outcome, fairgate.GateError):
        answer = {"outcome": "ERROR", "code": outcome.code, "message": outcome.message}
        answer["fields"] = [dataclasses.asdict(field) for field in outcome.fields]
    else:
        answer |= {"outcome": "FAILED_OPEN" if outcome.failed_open else "GRANTED", "debited": dict(outcome.debited)}
        answer |= {"lease_expires_in_ms": milliseconds(outcome.lease_expires_in), "repeated": outcome.repeated}
    return answer


def settle(call: Any, action: dict[str, Any]) -> bool:
    """Whether it was an action that both surfaces do the same way."""
    if "settle" in action:
        said = action["settle"]
        retry_after = said.get("retry_after_ms")
        call.settle(
            actual=said.get("actual"),
            outcome=fairgate.CallOutcome[said.get("outcome", "OK")],
            retry_after=None if retry_after is None else retry_after / 1000,
            rate_limits={name: rate_limit(status) for name, status in said.get("rate_limits", {}).items()},
        )
    elif "response" in action:
        call.settle(response=FakeResponse(**action["response"]))
    elif "sent" in action:
        call.sent()
    elif "not_sent" in action:
        call.not_sent()
    elif "raise" in action:
        raise ApplicationError("the block's own error")
    else:
        return False
    return True


def rate_limit(status: dict[str, float]) -> fairgate.RateLimitStatus:
    reset_ms = status.get("reset_ms")
    reset = None if reset_ms is None else timedelta(milliseconds=reset_ms)
    return fairgate.RateLimitStatus(status.get("remaining"), reset)


class FakeResponse:
    """Shaped as httpx's."""

    def __init__(self, status: int = 200, headers: dict[str, str] | None = None, body: Any = None) -> None:
        self.status_code, self.headers, self._body = status, headers or {}, body

    def json(self) -> Any:
        return self._body


def finish(answer: dict[str, Any], call: Any) -> None:
    if call is not None and call.report is not None:
        answer["released"] = call.report.result.value
        answer["refunded"] = dict(call.report.refunded)


class Async:
    """Its loop runs on between the commands: what the client does in the background goes on."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def open(self, address: str, options: fairgate.GateOptions) -> None:
        self.gate = fairgate.AsyncGate(address, options)

    def close(self) -> None:
        self._wait(self.gate.close())

    def admit(self, command: dict[str, Any]) -> dict[str, Any]:
        return self._wait(self._cancellable(command))

    def withdraw(self, **fields: Any) -> fairgate.ReleaseReport:
        return self._wait(self.gate.withdraw(**fields))

    def burst(self, count: int, command: dict[str, Any]) -> list[dict[str, Any]]:
        async def all_of_them() -> list[dict[str, Any]]:
            return list(await asyncio.gather(*(self._admit(command) for _ in range(count))))

        return self._wait(all_of_them())

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _cancellable(self, command: dict[str, Any]) -> dict[str, Any]:
        task = asyncio.ensure_future(self._admit(command))
        if "cancel_after_ms" in command:
            self.loop.call_later(command["cancel_after_ms"] / 1000, task.cancel)
        return await task

    async def _admit(self, command: dict[str, Any]) -> dict[str, Any]:
        began, answer, call = time.monotonic(), {}, None
        try:
            with context_deadline(command):
                async with self.gate.admit(**question(command)) as call:
                    answer = answer_of(call)
                    answer["elapsed_ms"] = (time.monotonic() - began) * 1000
                    for action in command.get("body", []):
                        await self._act(call, action, answer)
        except (fairgate.NotAdmitted, fairgate.GateError) as error:
            answer = answer or answer_of(error)
        except ApplicationError:
            answer["ended_by"] = "application"
        except asyncio.CancelledError:
            answer.setdefault("outcome", "CANCELLED")
            answer["ended_by"] = "cancelled"
        finish(answer, call)
        return {"elapsed_ms": (time.monotonic() - began) * 1000, **answer}

    async def _act(self, call: fairgate.AsyncCall, action: dict[str, Any], answer: dict[str, Any]) -> None:
        if settle(call, action):
            return
        if "extend" in action:
            ttl = action["extend"].get("lease_ttl_ms")
            life = await call.extend(None if ttl is None else ttl / 1000, action["extend"].get("used_so_far"))
            answer["extended_ms"] = milliseconds(life)
        elif "cancel" in action:
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.sleep(0)
        elif "sleep_ms" in action:
            await asyncio.sleep(action["sleep_ms"] / 1000)


class Sync:
    def open(self, address: str, options: fairgate.GateOptions) -> None:
        self.gate = fairgate.Gate(address, options)

    def close(self) -> None:
        self.gate.close()

    def withdraw(self, **fields: Any) -> fairgate.ReleaseReport:
        return self.gate.withdraw(**fields)

    def burst(self, count: int, command: dict[str, Any]) -> list[dict[str, Any]]:
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(self._admit, [command] * count))

    def admit(self, command: dict[str, Any]) -> dict[str, Any]:
        timer = None
        if "cancel_after_ms" in command:
            main = threading.main_thread().ident
            timer = threading.Timer(command["cancel_after_ms"] / 1000, signal.pthread_kill, (main, signal.SIGUSR1))
            timer.start()
        try:
            return self._admit(command)
        finally:
            if timer is not None:
                timer.cancel()

    def _admit(self, command: dict[str, Any]) -> dict[str, Any]:
        began, answer, call = time.monotonic(), {}, None
        try:
            with context_deadline(command), self.gate.admit(**question(command)) as call:
                answer = answer_of(call)
                answer["elapsed_ms"] = (time.monotonic() - began) * 1000
                for action in command.get("body", []):
                    self._act(call, action, answer)
        except (fairgate.NotAdmitted, fairgate.GateError) as error:
            answer = answer or answer_of(error)
        except ApplicationError:
            answer["ended_by"] = "application"
        except Cancelled:
            answer.setdefault("outcome", "CANCELLED")
            answer["ended_by"] = "cancelled"
        finish(answer, call)
        return {"elapsed_ms": (time.monotonic() - began) * 1000, **answer}

    def _act(self, call: fairgate.Call, action: dict[str, Any], answer: dict[str, Any]) -> None:
        if settle(call, action):
            return
        if "extend" in action:
            ttl = action["extend"].get("lease_ttl_ms")
            life = call.extend(None if ttl is None else ttl / 1000, action["extend"].get("used_so_far"))
            answer["extended_ms"] = milliseconds(life)
        elif "cancel" in action:
            raise Cancelled
        elif "sleep_ms" in action:
            time.sleep(action["sleep_ms"] / 1000)


def event_of(event: fairgate.Event) -> dict[str, Any]:
    if isinstance(event, fairgate.AdmitEvent):
        kind = {"event": "admit", "outcome": event.outcome.upper(), "degraded": event.degraded, "target": event.target}
        return kind | {"tenant": event.tenant, "priority": event.priority, "duration_ms": event.duration_s * 1000}
    if isinstance(event, fairgate.ReleaseEvent):
        return {"event": "release", "outcome": event.outcome, "result": event.result, "target": event.target}
    return {"event": "breaker", "open": event.open}


class Program:
    def __init__(self, surface: Async | Sync) -> None:
        self.surface = surface
        self.events: list[fairgate.Event] = []

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        match command.pop("op"):
            case "hello":
                return {"client": "python", "version": fairgate.__version__}
            case "open":
                self.events.clear()
                self.surface.open(command["address"], gate_options(command["options"], self.events.append))
                return {}
            case "admit":
                return self.surface.admit(command)
            case "burst":
                answers = self.surface.burst(command["count"], command["admit"])
                outcomes = collections.Counter(answer["outcome"] for answer in answers)
                return {"outcomes": outcomes, "elapsed_ms_max": max(answer["elapsed_ms"] for answer in answers)}
            case "withdraw":
                try:
                    return {"released": self.surface.withdraw(**command).result.value}
                except fairgate.GateError as error:
                    return {"code": error.code}
            case "counters":
                return dataclasses.asdict(self.surface.gate.counters)
            case "events":
                events, self.events[:] = [event_of(event) for event in self.events], []
                return {"events": events}
            case "settlement":
                return self.settlement(command)
            case "estimate":
                return {"tokens": fairgate.estimate_tokens(command["body"], output=command.get("output", 0))}
            case "close":
                self.surface.close()
                return {}
            case unknown:
                return {"driver_error": f"unknown op {unknown}"}

    def settlement(self, command: dict[str, Any]) -> dict[str, Any]:
        settled = fairgate.settlement_from_response(
            status=command.get("status"),
            headers=command.get("headers", {}),
            body=command.get("body"),
            dimensions=command.get("dimensions", ["tokens"]),
            now_s=command.get("now_s"),
        )
        answer = {"outcome": settled.outcome.name, "actual": dict(settled.actual)}
        answer["retry_after_ms"] = milliseconds(settled.retry_after)
        answer["rate_limits"] = {
            name: {"remaining": status.remaining, "reset_ms": milliseconds(status.reset)}
            for name, status in settled.rate_limits.items()
        }
        return answer


def cancel(_signal: int, _frame: Any) -> None:
    raise Cancelled


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--surface", choices=("async", "sync"), required=True)
    signal.signal(signal.SIGUSR1, cancel)
    program = Program(Async() if parser.parse_args().surface == "async" else Sync())
    for line in sys.stdin:
        try:
            answer = program.do(json.loads(line))
        except Exception as error:
            answer = {"driver_error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
