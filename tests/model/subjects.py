"""The two that must answer alike, asked in one way, and what "alike" means.

A history is {"policy": {...}, "tenants": {...}, "steps": [{"at_us": offset, "ask": "admit" | "release" | "configure" |
"inspect", ...arguments}]}; the first policy is written before the first step.
"""

from __future__ import annotations

import itertools
import math
import pathlib
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lua"))

from gate import Gate  # noqa: E402
from valkey import KEYS, QUESTIONS, START_US, Target, Valkey, command, unpacked  # noqa: E402,F401

Step = dict[str, Any]
History = dict[str, Any]

WITHIN = {"delay_us": 1000, "projected_us": 1000, "earliest_us": 1000, "first_us": 1000, "lateness_us": 1000}
IGNORED = {"message", "source"}
NOT_ASKED = {"ask", "at_us", "expect"}  # what a step holds beside its arguments


class Model:
    def __init__(self, history: History) -> None:
        self.gate = Gate()
        self.gate.configure(0, history["policy"], history.get("tenants"), clock_us=0)

    def ask(self, step: Step) -> Step:
        args = {name: x for name, x in step.items() if name not in NOT_ASKED}
        if step["ask"] == "configure":
            return self.gate.configure(self.gate.policy.version, clock_us=START_US + step["at_us"], **args)
        return getattr(self.gate, step["ask"])(clock_us=START_US + step["at_us"], **args)


MAY_BE_ABSENT = ("flows", "hold", "expired", "waited_us", "first_us")  # when there is none
_names = itertools.count()


class Production:
    """The scripts on a Valkey."""

    def __init__(self, valkey: Valkey, history: History) -> None:
        self.target = Target(valkey, f"model-{next(_names)}", history["policy"], history.get("tenants"))

    def ask(self, step: Step) -> Step:
        return self.ask_all([step])[0]

    def ask_all(self, steps: list[Step]) -> list[Step]:
        """Sends all at once: what one step asks never depends on an answer."""
        target = self.target
        pipeline = target.client.pipeline(transaction=False)
        for step in steps:
            pipeline.execute_command(*command(target.library, target.keys, step["ask"], self._arguments(step)))
        return [answered(step, raw) for step, raw in zip(steps, pipeline.execute(raise_on_error=False))]

    def ask_together(self, steps: list[Step]) -> list[Step]:
        """In one evaluation."""
        target, ask = self.target, steps[0]["ask"]
        parts = command(target.library, target.keys, ask, *map(self._arguments, steps))
        answers = target.client.execute_command(*parts)
        return [answered(step, raw) for step, raw in zip(steps, answers if ask in QUESTIONS else [answers], strict=True)]

    def _arguments(self, step: Step) -> Step:
        args = {name: x for name, x in step.items() if name not in NOT_ASKED}
        args["clock_us"] = START_US + step["at_us"]
        if step["ask"] in QUESTIONS:
            args["ask"] = step["ask"]
        if step["ask"] == "configure":
            args = {"expected_version": self.target.version, "source": b"", "tenants": {}, **args}
            self.target.version += 1
        return args

    def drop(self) -> None:
        self.target.client.delete(*self.target.keys)


def answered(step: Step, raw: bytes | list[bytes] | Exception) -> Step:
    if isinstance(raw, Exception):
        return {"error": str(raw)}
    answer = unpacked(raw)
    return normal(answer) if step["ask"] == "inspect" else answer


def normal(answer: Step) -> Step:
    """An idle class stands at virtual time, whether or not its record says so yet."""
    for c in answer.get("classes", []):
        if not c["waiters"]:
            c["start_tag"] = max(c["start_tag"], answer["virtual_time"])
    return answer


def difference(expected: Any, got: Any, path: str = "") -> str | None:
    """Where the two differ: numbers to 1e-9, forecasts to 1 ms; None when they are alike."""
    if expected == {} and got == []:  # Lua has one empty table
        return None
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in sorted(set(expected) | set(got)):
            if name in IGNORED or (name in MAY_BE_ABSENT and not expected.get(name) and not got.get(name)):
                continue
            if name not in expected or name not in got:
                return f"{path}.{name}: {expected.get(name, 'absent')!r} / {got.get(name, 'absent')!r}"
            if name == "flows":
                found = difference(*({f"{f['tenant']} in {f['class']}": f for f in x[name]} for x in (expected, got)),
                                   path + ".flows")
            else:
                found = difference(expected[name], got[name], f"{path}.{name}")
            if found:
                return found
        return None
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return next(filter(None, (difference(a, b, f"{path}[{i}]")
                                  for i, (a, b) in enumerate(zip(expected, got)))), None)
    if isinstance(expected, (int, float)) and isinstance(got, (int, float)) and not isinstance(expected, bool):
        slack = WITHIN.get(path.rsplit(".", 1)[-1])
        alike = abs(expected - got) <= slack if slack else math.isclose(expected, got, rel_tol=1e-9, abs_tol=1e-7)
        return None if alike else f"{path}: {expected!r} / {got!r}"
    return None if expected == got else f"{path}: {expected!r} / {got!r}"
