"""The tests of every language on DBOS, with PostgreSQL: test_dbos_LANGUAGE.py imports them and names the language."""

import common
import dbos_engine
import pytest
from engine_suite import *


@pytest.fixture(scope="module")
def database():
    database = dbos_engine.Database()
    yield database
    database.stop()


@pytest.fixture(scope="module")
def engine(request, database, gate, upstream, tmp_path_factory):
    language = dbos_engine.LANGUAGES[request.module.LANGUAGE]()
    engine = dbos_engine.Dbos(database, language, gate, upstream, tmp_path_factory.mktemp("workers"))
    yield engine
    engine.stop()


def test_recovery_asks_nothing_and_steps_are_few(engine, name):
    """The second worker takes up a workflow of which a call is done, and does not do that again."""
    scarce(engine, name, 3)
    with engine.worker(common.WorkerOptions()) as worker:
        handle = engine.submit(common.Work(work=name, target=name, upstream=engine.upstream.url, calls=2))
        common.eventually("it sleeps", lambda: engine.asleep(handle))
        worker.kill()
    before = engine.gate.state(name)
    with engine.worker(common.WorkerOptions()):
        engine.wait(handle, 60)
    state = engine.gate.state(name)
    assert len(engine.upstream.sends(name)) == state["charged"] == state["grants_total"] == 2
    deferrals = state["admits_total"] - state["grants_total"]
    assert deferrals >= 1
    steps = engine.steps(name)
    assert steps.count("DBOS.sleep") == deferrals, steps
    assert len(steps) == 2 * 2 + deferrals * 3, (steps, before)  # start and result of a child, and the sleep


def test_a_deadline_passes(engine, name):
    """The gate is told what is left, and says no at once."""
    scarce(engine, name, 60)
    first = common.Work(work=f"{name}-1", target=name, upstream=engine.upstream.url)
    late = common.Work(work=f"{name}-2", target=name, upstream=engine.upstream.url, deadline_s=5)
    with engine.worker(common.WorkerOptions()):
        engine.wait(engine.submit(first), 30)
        with pytest.raises(Exception, match="DEADLINE_UNREACHABLE"):
            engine.wait(engine.submit(late), 30)


def test_short_waits_can_be_held(engine, name):
    """With max_hold, a short wait is no deferral."""
    engine.gate.configure(name, dimensions=[{**common.DIMENSION, "limit": 10, "burst_fraction": 0.1}])
    with engine.worker(common.WorkerOptions(max_hold_s=1)):
        engine.wait(engine.submit(common.Work(work=name, target=name, upstream=engine.upstream.url, calls=6)), 60)
    assert "DBOS.sleep" not in engine.steps(name)
    state = engine.gate.state(name)
    assert state["grants_total"] == state["charged"] == 6
