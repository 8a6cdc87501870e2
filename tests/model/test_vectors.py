"""The golden vectors on the model and on the production scripts. A vector with a `defect` shows a fault of the scripts: the
model answers as the documents say, and the scripts do not yet (strict: a mended fault fails here until its mark is gone).
`model_as_coded`: there the model follows the scripts, because one step of it would part all later ones."""

import pytest

from subjects import Model, Production, difference
from vectors import history, load, selected

VECTORS = load()


def check(subject, steps):
    for i, step in enumerate(steps):
        answer = subject.ask(step)
        assert "error" not in answer, f"step {i} {step}: {answer['error']}"
        if "expect" in step:
            found = difference(step["expect"], selected(step["expect"], answer))
            assert not found, f"step {i} {step}: expected / got{found}"


def vectors(mark):
    """All of them; those that carry the mark are expected to fail."""
    return [pytest.param(v, id=name, marks=[pytest.mark.xfail(reason=v["defect"], strict=True)] if mark in v else [])
            for name, v in VECTORS]


@pytest.mark.parametrize("vector", vectors("model_as_coded"))
def test_model(vector):
    check(Model(history(vector)), history(vector)["steps"])


@pytest.mark.parametrize("vector", vectors("defect"))
def test_scripts(valkey, vector):
    subject = Production(valkey, history(vector))
    try:
        check(subject, history(vector)["steps"])
    finally:
        subject.drop()
