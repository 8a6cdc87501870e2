"""What every engine has to pass, by the scenarios; imported by the suite or test of each, whose `engine` they run on."""

import common
import pytest
import scenarios


@pytest.fixture
def name(request, engine):
    return f"{engine.name}-{request.node.name.removeprefix('test_').translate(str.maketrans('[]', '--'))}"


def test_figure_1(engine, name):
    with_gate = scenarios.figure_1(engine, f"{name}-gate", "adapter")
    naive = scenarios.figure_1(engine, f"{name}-naive", "naive")
    print(f"urgent waited {with_gate:.3f} s with the adapter, {naive:.3f} s with naive retry")
    assert with_gate < 2 < 4 < naive


def test_killed_while_deferred(engine, name):
    scenarios.killed_while_deferred(engine, name)


@pytest.mark.parametrize("point", ["granted", "answered"])
def test_killed_at(engine, name, point):
    scenarios.killed_at(engine, name, point)


def test_retries_are_new_attempts(engine, name):
    scenarios.retries_are_new_attempts(engine, name)


def test_retries_end(engine, name):
    scenarios.retries_end(engine, name)


def test_gate_away(engine, name):
    scenarios.gate_away(engine, name)


def scarce(engine, name, seconds):
    """A target with one call per so many seconds."""
    dimension = {**common.DIMENSION, "limit": 1, "window": f"{seconds}s", "burst_fraction": 1}
    engine.gate.configure(name, dimensions=[{**dimension, "window_model": "WINDOW_MODEL_SLIDING"}])
