"""The tests of every language on Temporal: test_temporal_LANGUAGE.py imports them and names the language."""

from __future__ import annotations

import re

import common
import pytest
import scenarios
import temporal
from engine_suite import *
from temporalio.client import WorkflowFailureError

EVENTS_PER_DEFERRAL = 11
"""An activity's three, a timer's two, and a workflow task's three after each of them."""
EVENTS_OF_A_CALL = 3 + 3
"""An activity's, and a workflow task's."""
EVENTS_OF_A_WORKFLOW = 2 + 3
"""Its ends, and its first task."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = temporal.Server(tmp_path_factory.mktemp("temporal"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def engine(request, server, gate, upstream, tmp_path_factory):
    language = temporal.LANGUAGES[request.module.LANGUAGE]()
    return temporal.Temporal(server, language, gate, upstream, tmp_path_factory.mktemp("workers"))


def configure_example(gate):
    """The target of the example that every language has."""
    tokens = {"name": "tokens", "limit": 3000, "window": "4s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("example", dimensions=[common.DIMENSION, tokens])


def check_example(gate, output):
    """What the example has to print, and that something was deferred."""
    assert re.search(r"^acme: 6 calls, 3840 tokens", output, re.MULTILINE), output
    assert re.search(r"^globex: 2 calls, 1280 tokens", output, re.MULTILINE), output
    state = gate.state("example")
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def test_continue_as_new(engine, name):
    scenarios.new_runs_are_new_requests(engine, name)


def test_shares(engine, name):
    scenarios.shares(engine, name, works=600, rate=12)


def test_replay_asks_nothing_and_events_are_few(engine, name):
    scarce(engine, name, 2)
    work = common.Work(work=name, target=name, upstream=engine.upstream.url, calls=3)
    with engine.worker(common.WorkerOptions()):
        handle = engine.submit(work)
        engine.wait(handle, 60)
    before = engine.gate.state(name)
    assert "replayed" in engine.replay(handle)
    assert engine.gate.state(name) == before
    assert len(engine.upstream.sends(name)) == before["charged"] == 3
    events = engine.events(handle)
    deferrals = before["admits_total"] - before["grants_total"]
    assert deferrals >= 2
    assert events["TIMER_FIRED"] == deferrals, events
    expected = EVENTS_OF_A_WORKFLOW + 3 * EVENTS_OF_A_CALL + deferrals * EVENTS_PER_DEFERRAL
    assert sum(events.values()) == expected, events


def test_a_deadline_passes(engine, name):
    """The gate is told what is left of schedule-to-close, and says no at once; the workflow sees why."""
    scarce(engine, name, 60)
    first = common.Work(work=f"{name}-1", target=name, upstream=engine.upstream.url)
    late = common.Work(work=f"{name}-2", target=name, upstream=engine.upstream.url, deadline_s=5)
    with engine.worker(common.WorkerOptions()):
        engine.wait(engine.submit(first), 30)
        with pytest.raises(WorkflowFailureError) as failed:
            engine.wait(engine.submit(late), 30)
    cause = failed.value.cause.cause
    assert (cause.type, cause.non_retryable) == ("fairgate.Rejected", True)
    assert cause.details[0] == "DEADLINE_UNREACHABLE"


def test_a_cancelled_workflow_ends_while_deferred(engine, name):
    scarce(engine, name, 60)
    work = common.Work(work=name, target=name, upstream=engine.upstream.url, calls=2)
    with engine.worker(common.WorkerOptions()):
        handle = engine.submit(work)
        common.eventually("it sleeps", lambda: engine.asleep(handle))
        engine.cancel(handle)
        with pytest.raises(WorkflowFailureError) as failed:
            engine.wait(handle, 30)
    assert type(failed.value.cause).__name__ == "CancelledError"


def with_the_other_part_in_python(engine, name, part):
    """What is passed between the two is the same in all languages: retries and deferrals are counted over both."""
    other = {"workflows": "steps", "steps": "workflows"}[part]
    python = engine.beside(temporal.python())
    with python.worker(common.WorkerOptions(part=other, fail_sends=2)):
        scenarios.retries_are_new_attempts(engine, name, part=part)


def test_short_waits_can_be_held(engine, name):
    """With max_hold, a wait below the timer's floor is no deferral."""
    engine.gate.configure(name, dimensions=[{**common.DIMENSION, "limit": 10, "burst_fraction": 0.1}])
    work = common.Work(work=name, target=name, upstream=engine.upstream.url, calls=6)
    with engine.worker(common.WorkerOptions(max_hold_s=1)):
        handle = engine.submit(work)
        engine.wait(handle, 60)
    assert engine.events(handle)["TIMER_STARTED"] == 0
    state = engine.gate.state(name)
    assert state["admits_total"] > state["grants_total"] == 6, "nothing was held"
