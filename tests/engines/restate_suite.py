"""The tests of every language on Restate: test_restate_LANGUAGE.py imports them and names the language."""

import urllib.error

import common
import pytest
import restate_engine
import scenarios
from engine_suite import *


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = restate_engine.Server(tmp_path_factory.mktemp("restate"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def language(request):
    return restate_engine.LANGUAGES[request.module.LANGUAGE]()


@pytest.fixture(scope="module")
def engine(server, language, gate, upstream, tmp_path_factory):
    return restate_engine.Restate(server, language, gate, upstream, tmp_path_factory.mktemp("workers"))


def test_figure_1(language, gate, upstream, name, tmp_path):
    """The slot is the server's: one invocation at a time, and who is suspended has none."""
    server = restate_engine.Server(tmp_path, slots=1)
    try:
        engine = restate_engine.Restate(server, language, gate, upstream, tmp_path)
        with_gate = scenarios.figure_1(engine, f"{name}-gate", "adapter")
        naive = scenarios.figure_1(engine, f"{name}-naive", "naive")
    finally:
        server.stop()
    print(f"urgent waited {with_gate:.3f} s with the adapter, {naive:.3f} s with naive retry")
    assert with_gate < 2 < 4 < naive


def test_replay_asks_nothing_and_entries_are_few(engine, name):
    """Every end of a sleep is a replay of all that came before it."""
    scarce(engine, name, 2)
    with engine.worker(common.WorkerOptions()):
        handle = engine.submit(common.Work(work=name, target=name, upstream=engine.upstream.url, calls=3))
        engine.wait(handle, 60)
    state = engine.gate.state(name)
    deferrals = state["admits_total"] - state["grants_total"]
    assert deferrals >= 2
    assert len(engine.upstream.sends(name)) == state["charged"] == state["grants_total"] == 3
    entries = engine.entries(handle)
    assert entries.count("Command: Sleep") == deferrals, entries
    assert entries.count("Command: Run") == 3 + deferrals, entries


def test_a_deadline_passes(engine, name):
    """The gate is told what is left, and says no at once."""
    scarce(engine, name, 60)
    first = common.Work(work=f"{name}-1", target=name, upstream=engine.upstream.url)
    late = common.Work(work=f"{name}-2", target=name, upstream=engine.upstream.url, deadline_s=5)
    with engine.worker(common.WorkerOptions()):
        engine.wait(engine.submit(first), 30)
        with pytest.raises(urllib.error.HTTPError) as failed:
            engine.wait(engine.submit(late), 30)
    assert failed.value.code == 422
    assert "DEADLINE_UNREACHABLE" in failed.value.read().decode()


def test_a_cancelled_invocation_gives_its_place_up(engine, name):
    scarce(engine, name, 60)
    with engine.worker(common.WorkerOptions()):
        handle = engine.submit(common.Work(work=name, target=name, upstream=engine.upstream.url, calls=2))
        common.eventually("it sleeps", lambda: engine.asleep(handle))
        assert engine.gate.state(name)["waiters"] == 1
        engine.cancel(handle)
        with pytest.raises(urllib.error.HTTPError):
            engine.wait(handle, 30)
        assert engine.gate.state(name)["waiters"] == 0


def test_short_waits_can_be_held(engine, name):
    """With max_hold, a short wait is no deferral."""
    engine.gate.configure(name, dimensions=[{**common.DIMENSION, "limit": 10, "burst_fraction": 0.1}])
    with engine.worker(common.WorkerOptions(max_hold_s=1)):
        handle = engine.submit(common.Work(work=name, target=name, upstream=engine.upstream.url, calls=6))
        engine.wait(handle, 60)
    assert "Command: Sleep" not in engine.entries(handle)
    state = engine.gate.state(name)
    assert state["admits_total"] > state["grants_total"] == 6, "nothing was held"
