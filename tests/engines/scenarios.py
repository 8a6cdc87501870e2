"""What has to hold with every engine, written against common.Engine. A test module calls these with its own.

Each takes a `name` that is unique in the test run: it becomes the target and begins the works' names.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import Any

from common import DIMENSION, Engine, Send, Work, WorkerOptions, eventually

NOISY_WAIT_S = 7
WEIGHTS = {"high": 5, "middle": 3, "low": 2}
LEASE_TTL_S = 2
_POINTS = {"granted": 1, "answered": 2}


def figure_1(engine: Engine, name: str, mode: str) -> float:
    """One slot, a noisy tenant that has to wait 7 s; how long an urgent request waits for its send."""
    noisy, urgent = f"{name}-noisy", f"{name}-urgent"
    cap = {"dimension": "requests", "limit": 1, "window": f"{NOISY_WAIT_S}s"}
    engine.gate.configure(
        name,
        classes=[{"name": "high", "weight": 5}, {"name": "low", "weight": 1}],
        tenants=[{"name": noisy, "caps": [cap]}],
    )
    engine.upstream.limit(noisy, NOISY_WAIT_S - 0.1)
    with engine.worker(WorkerOptions(slots=1, mode=mode)):
        work = Work(work=noisy, target=name, upstream=engine.upstream.url, tenant=noisy, priority="low", calls=2)
        handle = engine.submit(work)
        if mode == "naive":
            eventually("the noisy one is refused", lambda: len(engine.upstream.sends(noisy)) == 2)
        else:
            eventually("the noisy one sleeps", lambda: engine.asleep(handle))
        began = time.monotonic()
        work = Work(work=urgent, target=name, upstream=engine.upstream.url, tenant=urgent, priority="high")
        engine.wait(engine.submit(work), 30)
        waited_s = engine.upstream.sends(urgent)[0].at - began
        engine.wait(handle, 30)
    done = [send for send in engine.upstream.sends(noisy) if send.status == 200]
    assert len(done) == 2
    assert done[1].at - done[0].at >= NOISY_WAIT_S - 0.2
    if mode == "adapter":
        assert len(engine.upstream.sends(noisy)) == 2, "with the gate nobody is refused"
    return waited_s


def killed_while_deferred(engine: Engine, name: str) -> None:
    """The worker dies while its work sleeps: another one finds it, and no attempt is used up."""
    handle, work = _killed_setup(engine, name, "s-deferred")
    with engine.worker(WorkerOptions()) as worker:
        eventually("the work sleeps", lambda: engine.asleep(handle))
        worker.kill()
    with engine.worker(WorkerOptions()):
        engine.wait(handle, 60)
    sends = engine.upstream.sends(work.work)
    assert [send.attempt for send in sends] == [1, 1], sends
    _charged_once(engine, name, sends, unsent=0)


def killed_at(engine: Engine, name: str, point: str) -> None:
    """The worker dies between Grant and send, or between the answer and Release: one send more, and each charged."""
    engine.gate.configure(name, lease_ttl=f"{LEASE_TTL_S}s")
    work = Work(work=f"{name}-w", target=name, upstream=engine.upstream.url, attempt_timeout_s=3)
    with engine.worker(WorkerOptions(die_at=point)) as worker:
        handle = engine.submit(work)
        worker.wait_killed()
    time.sleep(LEASE_TTL_S + 0.2)
    engine.gate.pass_by(name)
    state = engine.gate.state(name)
    assert (state["leases_open"], state["leases_expired_total"]) == (0, 1), "the lease did not end by itself"
    with engine.worker(WorkerOptions()):
        engine.wait(handle, 60)
    sends = engine.upstream.sends(work.work)
    assert [send.attempt for send in sends] == [[2], [1, 2]][_POINTS[point] - 1], sends
    _charged_once(engine, name, sends, unsent=2 - _POINTS[point], passers_by=1)


def _killed_setup(engine: Engine, name: str, suffix: str) -> tuple[Any, Work]:
    """Two calls, of which the second has to wait 4 s."""
    dimension = {**DIMENSION, "limit": 1, "window": "4s", "window_model": "WINDOW_MODEL_SLIDING"}
    engine.gate.configure(name, lease_ttl="2s", dimensions=[{**dimension, "burst_fraction": 1}])
    work = Work(work=f"{name}-{suffix}", target=name, upstream=engine.upstream.url, calls=2, attempt_timeout_s=3)
    return engine.submit(work), work


def _charged_once(engine: Engine, name: str, sends: list[Send], *, unsent: int, passers_by: int = 0) -> None:
    """Each send has its own (request_id, attempt), and so many were charged; leases end by themselves."""
    asked = Counter((send.request_id, send.attempt) for send in sends)
    assert set(asked.values()) == {1}, asked
    eventually("leases end", lambda: engine.gate.state(name)["leases_open"] == 0, 15)
    state = engine.gate.state(name)
    assert state["charged"] == len(sends) + unsent, state
    assert state["grants_total"] == state["charged"] + passers_by, state


def retries_are_new_attempts(engine: Engine, name: str, part: str = "") -> None:
    """A send that failed is sent again as the next attempt, under a cap that defers in between; none is used up twice.

    The step may be done three times and fails twice: with a deferral counted as an attempt it would not finish.
    """
    dimension = {**DIMENSION, "limit": 1, "window": "2s", "window_model": "WINDOW_MODEL_SLIDING", "burst_fraction": 1}
    engine.gate.configure(name, dimensions=[dimension])
    work = Work(work=f"{name}-w", target=name, upstream=engine.upstream.url, calls=2, attempts_max=3)
    with engine.worker(WorkerOptions(fail_sends=2, part=part)):
        engine.wait(engine.submit(work), 90)
    sends = engine.upstream.sends(work.work)
    assert [send.attempt for send in sends] == [1, 2, 3, 1, 2, 3], sends
    assert len({send.request_id for send in sends}) == 2
    state = engine.gate.state(name)
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"
    _charged_once(engine, name, sends, unsent=0)


def retries_end(engine: Engine, name: str) -> None:
    """Deferrals give no attempts back either: a step that always fails is done as often as its policy says."""
    dimension = {**DIMENSION, "limit": 1, "window": "2s", "window_model": "WINDOW_MODEL_SLIDING", "burst_fraction": 1}
    engine.gate.configure(name, dimensions=[dimension])
    work = Work(work=f"{name}-w", target=name, upstream=engine.upstream.url, attempts_max=3)
    with engine.worker(WorkerOptions(fail_sends=9)):
        try:
            engine.wait(engine.submit(work), 90)
        except Exception as error:  # each engine has its own
            print("ended with", repr(error))
        else:
            raise AssertionError("the work ended well")
    assert [send.attempt for send in engine.upstream.sends(work.work)] == [1, 2, 3]
    state = engine.gate.state(name)
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def new_runs_are_new_requests(engine: Engine, name: str) -> None:
    """Runs that continue one another do not take each other's calls for their own."""
    engine.gate.configure(name)
    work = Work(work=f"{name}-w", target=name, upstream=engine.upstream.url, calls=2, runs=3)
    with engine.worker(WorkerOptions()):
        engine.wait(engine.submit(work), 60)
    sends = engine.upstream.sends(work.work)
    assert len(sends) == len({send.request_id for send in sends}) == 6
    _charged_once(engine, name, sends, unsent=0)


def _until_many_wait(engine: Engine, name: str, dimension: dict[str, Any], count: int) -> None:
    """Lowers the cap if the engine, on this machine, brings no more calls than the cap lets through."""

    def many_wait(timeout_s: float) -> None:
        eventually("many wait", lambda: engine.gate.state(name)["waiters"] >= count, timeout_s)

    limit = dimension["limit"]
    for patience_s in (12, 20):
        try:
            return many_wait(patience_s)
        except AssertionError:
            limit /= 2
            print(f"the cap is {limit:g} from now on")
            engine.gate.limit(name, {**dimension, "limit": limit})
    many_wait(60)


def shares(engine: Engine, name: str, *, works: int, rate: float) -> None:
    """So many workflows at once, in three classes: all finish, each charged once, and classes share as weighted.

    A class has as many as its weight says, so that all have a backlog until nearly the end.
    """
    dimension = {**DIMENSION, "limit": rate, "window": "1s"}
    engine.gate.configure(
        name,
        dimensions=[dimension],
        classes=[{"name": priority, "weight": weight} for priority, weight in WEIGHTS.items()],
    )
    parts = {priority: works * weight // sum(WEIGHTS.values()) for priority, weight in WEIGHTS.items()}
    turns = sorted((n / part, priority, n) for priority, part in parts.items() for n in range(part))
    all_works = [
        Work(work=f"{name}-{priority}-{n}", target=name, upstream=engine.upstream.url, priority=priority)
        for _, priority, n in turns  # mixed as their shares are: an engine that is slow at first starves no class
    ]
    began = time.monotonic()
    handles = [engine.submit(work) for work in all_works]  # before there is a worker: all ask at once
    with engine.worker(WorkerOptions(slots=200)):
        _until_many_wait(engine, name, dimension, works // 10)
        many_wait_at = time.monotonic()
        for handle in handles:
            engine.wait(handle, 240)
    sends = engine.upstream.sends(*(work.work for work in all_works))
    print(f"{len(sends)} sends, {time.monotonic() - began:.1f} s, {engine.gate.state(name)}")
    assert len({send.work for send in sends}) == len(sends) == len(all_works)
    assert not any(send.degraded for send in sends)
    _charged_once(engine, name, sends, unsent=0)
    # From then on all classes have a backlog, until the first of them runs dry. The last few are left out: who is late
    # then is late by the engine.
    dry = [max(send.at for send in sends[: -works // 10] if send.priority == priority) for priority in WEIGHTS]
    until = min(dry)
    backlogged = [send for send in sends if many_wait_at <= send.at <= until]
    got = Counter(send.priority for send in backlogged)
    print(f"{many_wait_at - began:.1f} s until many waited, {until - began:.1f} s to the end of the backlog: {got}")
    assert len(backlogged) >= works / 5, "too few to tell"  # turns are no dice: few tell enough
    for priority, weight in WEIGHTS.items():
        share = got[priority] / len(backlogged)
        due = weight / sum(WEIGHTS.values())
        assert abs(share - due) <= 0.05, (got, share, due)


def gate_away(engine: Engine, name: str) -> None:
    """The gate is down for 5 s: work goes on, marked, and the gate is asked again afterwards."""
    engine.gate.configure(name)

    def send_for(duration_s: float, label: str) -> list[Any]:
        handles, until = [], time.monotonic() + duration_s
        for n in itertools.count():
            work = Work(work=f"{name}-{label}-{n}", target=name, upstream=engine.upstream.url)
            handles.append(engine.submit(work))
            time.sleep(0.2)
            if time.monotonic() >= until:
                return handles

    def sent(label: str) -> list[Send]:
        return [send for send in engine.upstream.sends() if send.work.startswith(f"{name}-{label}-")]

    with engine.worker(WorkerOptions()):
        handles = send_for(1, "before")
        for handle in handles:
            engine.wait(handle, 30)
        engine.gate.stop()
        try:
            handles = send_for(5, "meanwhile")
            for handle in handles:
                engine.wait(handle, 30)
        finally:
            engine.gate.start()
        time.sleep(2)  # the breaker's cooldown, and a reconnection
        granted = engine.gate.state(name)["grants_total"]
        handles = send_for(1, "after")
        for handle in handles:
            engine.wait(handle, 30)
    assert sent("before") and not any(send.degraded for send in sent("before"))
    assert len(sent("meanwhile")) >= 10 and all(send.degraded for send in sent("meanwhile"))
    assert sent("after") and not any(send.degraded for send in sent("after"))
    assert engine.gate.state(name)["grants_total"] == granted + len(sent("after"))
