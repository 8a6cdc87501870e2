"""Golden vectors: short histories with their expected answers, in shorthand (README.md says how to read and write them)."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from subjects import History, Step
from valkey import dimension, policy

FOLDER = pathlib.Path(__file__).parent / "vectors"


def compiled(short: dict[str, Any]) -> dict[str, Any]:
    """A whole policy: what is not said is as in the field's cases (full depth, whole rate)."""
    if "window_us" in short["dims"][0]:
        return short
    more = {name: x for name, x in short.items() if name not in ("dims", "classes")}
    classes = {name: c if isinstance(c, dict) else {"weight": c} for name, c in short.get("classes", {"default": 1.0}).items()}
    out = policy([dimension(**d) for d in short["dims"]], {name: c["weight"] for name, c in classes.items()}, **more)
    out["classes"] = [{"name": name, **c, "weight": float(c["weight"])} for name, c in classes.items()]
    return out


def listed(tenants: dict[str, Any] | None) -> dict[str, Any]:
    return {name: {"caps": [], **t} for name, t in (tenants or {}).items()}


def step(short: Step) -> Step:
    """One whole step; `left` and `inspect` become a look with what it must show."""
    if "ask" in short:
        return short
    rest = {name: x for name, x in short.items() if name not in ("at_s", "admit", "release", "configure", "inspect", "left")}
    out: Step = {"at_us": round(short["at_s"] * 1e6)}
    if "admit" in short:
        return out | {"ask": "admit", "id": short["admit"], "tenant": "t"} | rest
    if "release" in short:
        return out | {"ask": "release", "id": short["release"], "action": "settle", "outcome": "ok"} | rest
    if "configure" in short:
        return out | {"ask": "configure", "compiled": compiled(short["configure"]), "tenants": listed(rest.get("tenants"))}
    expect = rest.get("expect", {})
    if "left" in short:
        expect = {"dims": [{"name": name, "available": x} for name, x in short["left"].items()]}
    return out | {"ask": "inspect", "expect": expect}


def history(vector: dict[str, Any]) -> History:
    return {"seed": vector["name"], "policy": compiled(vector["policy"]), "tenants": listed(vector.get("tenants")),
            "steps": [step(s) for s in vector["steps"]]}


def load() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{file.stem}:{v['name']}", v) for file in sorted(FOLDER.glob("*.json")) for v in json.loads(file.read_text())]


def selected(expect: Any, answer: Any) -> Any:
    """The part of the answer that the expectation speaks of; None in it says that a field is absent."""
    if expect and isinstance(expect, dict) and isinstance(answer, dict):
        return {name: selected(x, answer.get(name)) for name, x in expect.items()}
    if isinstance(expect, list) and isinstance(answer, list) and expect and isinstance(expect[0], dict):
        key = "tenant" if "tenant" in expect[0] else "name"
        by_key = {a[key]: a for a in answer}
        return [selected(x, by_key.get(x[key])) for x in expect]
    return answer
