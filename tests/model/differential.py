"""Runs histories on the model and on the scripts, finds where they part, and shrinks that to what is needed."""

from __future__ import annotations

import dataclasses
import json
import os

from histories import Author
from subjects import History, Model, Production, Step, Valkey, difference


@dataclasses.dataclass
class Verdict:
    """`at`: the step at which they differ, and how. `excused`: behind a tie that rounding decides."""

    at: int | None = None
    what: str = ""
    answers: tuple[Step, Step] | None = None
    excused: str = ""


def compare(valkey: Valkey, history: History) -> Verdict:
    model, production = Model(history), Production(valkey, history)
    questions = [q for step in history["steps"] for q in (step, {"ask": "inspect", "at_us": step["at_us"], "flows_max": 100})]
    try:
        for i, (question, got) in enumerate(zip(questions, production.ask_all(questions))):
            if question["ask"] != "inspect":
                model.gate.close = False
            expected = model.ask(question)
            found = difference(expected, got)
            if found:
                excused = "a tie" if model.gate.close else ""
                return Verdict(i // 2, f"{question['ask']}{found}", (expected, got), excused)
        return Verdict()
    finally:
        production.drop()


def shrink(valkey: Valkey, history: History) -> tuple[History, Verdict]:
    """Drops steps as long as the two still part without an excuse."""
    verdict = compare(valkey, history)
    steps = history["steps"][:verdict.at + 1]
    size = max(1, len(steps) // 2)
    while True:
        i = 0
        while i < len(steps):
            fewer = steps[:i] + steps[i + size:]
            shorter = compare(valkey, {**history, "steps": fewer})
            if shorter.at is not None and not shorter.excused:
                steps, verdict = fewer[:shorter.at + 1], shorter
            else:
                i += size
        if size == 1:
            return {**history, "steps": steps}, verdict
        size = max(1, size // 2)


def report(history: History, verdict: Verdict) -> str:
    lines = [f"seed {history['seed']}: {verdict.what} (model / scripts)", "policy " + json.dumps(history["policy"]),
             "tenants " + json.dumps(history["tenants"]), *(json.dumps(s) for s in history["steps"]),
             *(f"{who:8}{json.dumps(a, sort_keys=True, default=repr)[:2000]}"
               for who, a in zip(("model", "scripts"), verdict.answers))]
    return "\n".join(lines)


def seeds(first: int, count: int) -> list[int]:
    """FAIRGATE_MODEL_SEED repeats one history; FAIRGATE_MODEL_FIRST starts a new series."""
    if "FAIRGATE_MODEL_SEED" in os.environ:
        return [int(os.environ["FAIRGATE_MODEL_SEED"])]
    first = int(os.environ.get("FAIRGATE_MODEL_FIRST", first))
    return list(range(first, first + count))


def run(valkey: Valkey, discipline: str, first: int, count: int, steps: int) -> dict[str, int]:
    """Answers how many histories agreed, and how many ended early for which excuse; fails at the first that has none."""
    ends: dict[str, int] = {}
    print(f"{discipline}: seeds {seeds(first, count)[0]} to {seeds(first, count)[-1]}, {steps} steps each")
    for seed in seeds(first, count):
        history = Author(seed, discipline).write(steps)
        verdict = compare(valkey, history)
        if verdict.at is not None and not verdict.excused:
            raise AssertionError(report(*shrink(valkey, history)))
        ends[verdict.excused or "agreed"] = ends.get(verdict.excused or "agreed", 0) + 1
    return ends
