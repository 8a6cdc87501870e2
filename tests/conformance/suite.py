"""Runs cases: each with a driver, a network and a gate of its own (the real server is shared; targets are not)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import pathlib
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml
from driver import Driver, DriverError
from faulty_gate import FaultyGate
from matching import differences, substitute
from network import Network
from real_gate import RealGate
from staging import BUILD_DIR, SOURCE_DIR

HERE = pathlib.Path(__file__).resolve().parent
_SEEN_WITHIN_S = 2.0
# A busy machine may stall anybody for longer than a case allows: what only took too long, and what has a short time-out,
# is run again. A client that is wrong fails each time.
_RUNS_MAX = 3
_CASE_FIELDS = {"name", "says", "gate", "policy", "options", "steps", "fault"}
_STEP_KINDS = {"client", "answer", "within_ms", "gate", "network", "seen", "state", "sleep_ms"}
# Long enough for a busy machine; cases about time-outs set their own.
_OPTIONS = {"rpc_timeout_ms": 10000}


@dataclasses.dataclass(frozen=True)
class Case:
    """One behaviour, as written down."""

    id: str
    gate: str
    steps: list[dict[str, Any]]
    policy: Mapping[str, Any]
    options: Mapping[str, Any]
    fault: str
    """Of the server, which keeps every client from passing; empty: none is known."""

    @property
    def is_hurried(self) -> bool:
        """Whether its time-out is shorter than a stall of the machine."""
        return self.options["rpc_timeout_ms"] < _OPTIONS["rpc_timeout_ms"]


@dataclasses.dataclass(frozen=True)
class Language:
    """An entry of drivers.yaml."""

    name: str
    command: list[str]
    environment: dict[str, str]
    gaps: dict[str, str]


def load_cases() -> list[Case]:
    """All of them; ValueError: an unknown key, a name used twice."""
    cases: dict[str, Case] = {}
    for path in sorted((HERE / "cases").glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            case = Case(
                id=f"{path.stem}/{entry['name']}",
                gate=entry.get("gate", "scripted"),
                steps=entry["steps"],
                policy=entry.get("policy", {}),
                options={**_OPTIONS, **entry.get("options", {})},
                fault=entry.get("fault", ""),
            )
            unknown = set(entry) - _CASE_FIELDS
            unknown |= {key for step in case.steps for key in step} - _STEP_KINDS
            if unknown or case.id in cases or not entry.get("says"):
                raise ValueError(f"{case.id}: unknown keys {unknown}, or the name is used twice, or it says nothing")
            cases[case.id] = case
    return list(cases.values())


def load_language(name: str) -> Language:
    """KeyError: not in drivers.yaml."""
    entry = yaml.safe_load((HERE / "drivers.yaml").read_text())[name]
    places = {"python": sys.executable, "source": str(SOURCE_DIR), "build": str(BUILD_DIR)}
    command = [part.format(**places) for part in entry["command"]]
    environment = {key: value.format(**places) for key, value in entry.get("environment", {}).items()}
    return Language(name, command, environment, entry.get("gaps", {}))


def cases_for(name: str) -> Callable[..., None]:
    """A test function over all cases. Known gaps have to fail: who closes one has to take it off the list."""
    language = load_language(name)
    cases = load_cases()
    unknown = set(language.gaps) - {case.id for case in cases}
    if unknown:
        raise ValueError(f"drivers.yaml: {name}: no such cases: {unknown}")
    parameters = [pytest.param(case, id=case.id, marks=_marks(case, language)) for case in cases]

    @pytest.mark.parametrize("case", parameters)
    def test_conformance(case: Case, request: pytest.FixtureRequest, programs: Programs) -> None:
        gate = request.getfixturevalue("real_gate") if case.gate == "real" else None
        for _ in range(_RUNS_MAX):
            failures = programs.loop.run_until_complete(run(case, programs, language, gate))
            if not failures or not (case.is_hurried or all("elapsed_ms" in failure for failure in failures)):
                break
            print(f"{case.id}: once more, after\n  " + "\n  ".join(failures))
        assert not failures, f"{name}: {case.id}\n  " + "\n  ".join(failures)

    return test_conformance


def _marks(case: Case, language: Language) -> list[pytest.MarkDecorator]:
    if case.fault:
        return [pytest.mark.xfail(reason=case.fault, strict=False)]
    if case.id in language.gaps:
        return [pytest.mark.xfail(reason=language.gaps[case.id], strict=True)]
    return []


class Programs:
    """The drivers of a test session; one serves case after case, until one fails."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._drivers: dict[str, Driver] = {}

    async def take(self, language: Language) -> Driver:
        """Starts it where none is at hand. DriverError: it cannot be started."""
        driver = self._drivers.pop(language.name, None)
        if driver is None:
            driver = Driver(language.command, language.environment)
            await driver.start()
            try:
                await driver.ask({"op": "hello"})
            except DriverError:
                await driver.stop()
                raise
        return driver

    def give_back(self, language: Language, driver: Driver) -> None:
        """After a case that passed."""
        self._drivers[language.name] = driver

    def close(self) -> None:
        """Ends all."""
        for driver in self._drivers.values():
            self.loop.run_until_complete(driver.stop())
        self.loop.close()


async def run(case: Case, programs: Programs, language: Language, real: RealGate | None) -> list[str]:
    """What went otherwise than the case says; empty: nothing."""
    async with contextlib.AsyncExitStack() as stack:
        network = Network()
        stack.push_async_callback(network.stop)
        gate = FaultyGate(network.cut)
        stack.push_async_callback(gate.stop)
        await gate.start()
        await network.start(real.port if real else gate.port)
        try:
            driver = await programs.take(language)
        except DriverError as error:
            return [str(error)]
        try:
            await driver.ask({"op": "open", "address": f"127.0.0.1:{network.port}", "options": dict(case.options)})
            failures = await _Course(case, driver, network, gate, real).run()
        except DriverError as error:
            failures = [str(error)]
        if failures:
            await driver.stop()
        else:
            programs.give_back(language, driver)
        return failures


class _Course:
    """One run of a case."""

    def __init__(self, case: Case, driver: Driver, network: Network, gate: FaultyGate, real: RealGate | None) -> None:
        self._case, self._driver, self._network, self._gate, self._real = case, driver, network, gate, real
        self._names: dict[str, Any] = {"target": f"{case.id}-{uuid.uuid4().hex[:8]}"}

    async def run(self) -> list[str]:
        if self._real is not None:
            policy = {"name": self._names["target"], **self._case.policy}
            await asyncio.to_thread(self._real.configure, policy)
        for number, step in enumerate(self._case.steps, 1):
            if failures := await self._step(step):
                return [f"step {number} {failure}" for failure in failures]
        await self._driver.ask({"op": "close"})
        return []

    async def _step(self, step: dict[str, Any]) -> list[str]:
        if "sleep_ms" in step:
            await asyncio.sleep(step["sleep_ms"] / 1000)
        for method, answers in step.get("gate", {}).items():
            self._gate.script(method, answers)
        if "network" in step:
            done = getattr(self._network, step["network"])()
            if done is not None:
                await done
        if "client" in step and (failures := await self._ask(step)):
            return failures
        for kind, look in (("seen", self._seen), ("state", self._state)):
            if kind in step:
                return await self._within(step[kind], look, kind)
        return []

    async def _ask(self, step: dict[str, Any]) -> list[str]:
        """Once, or, with within_ms, until the answer is as expected."""
        until = time.monotonic() + step.get("within_ms", 0) / 1000
        while True:
            answer = await self._driver.ask(substitute(step["client"], self._names))
            failures = self._compare(step["answer"], answer, "answer") if "answer" in step else []
            if not failures or time.monotonic() >= until:
                return failures
            await asyncio.sleep(0.1)

    def _compare(self, expected: Any, found: Any, path: str) -> list[str]:
        failures = differences(expected, found, self._names, path)
        return [f"{failure}\n    all of it: {found!r}" for failure in failures]

    async def _within(self, expected: Any, look: Callable[[], Any], path: str) -> list[str]:
        """Clients may release in the background."""
        for _ in range(int(_SEEN_WITHIN_S / 0.05)):
            found = await asyncio.to_thread(look)
            failures = self._compare(expected, found, path)
            if not failures:
                break
            await asyncio.sleep(0.05)
        return failures

    def _seen(self) -> dict[str, Any]:
        return {
            "admits": list(self._gate.admits),
            "releases": list(self._gate.releases),
            "admit_count": len(self._gate.admits),
            "connections": self._network.connections,
        }

    def _state(self) -> dict[str, Any]:
        assert self._real is not None, "state is the real gate's"
        return self._real.state(self._names["target"])
