"""The runner itself: it finds differences, and a client that misbehaves fails."""

from __future__ import annotations

import dataclasses
import sys

import pytest
import suite
from matching import differences, substitute

YES_MAN = """
import json, sys
for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps({"outcome": "GRANTED", "request_id": command.get("request_id", "x"), "elapsed_ms": 1}), flush=True)
"""


def found(expected, observed):
    return differences(expected, observed, {}, "it")


@pytest.mark.parametrize(
    ("expected", "right", "wrong"),
    [
        (1, 1.0, 2),
        (True, True, 1),
        (0, 0, False),
        ("a", "a", "b"),
        (None, None, ""),
        ({"min": 1}, 1, 0.9),
        ({"max": 2}, 2, 2.1),
        ({"min": 1, "max": 2}, 1.5, None),
        ({"min": 0}, 3, True),
        ({"matches": "b+"}, "abb", "a"),
        ({"matches": "b"}, "b", None),
        ({"absent": True}, [], [0]),
        ({"absent": True}, None, 0),
        ({"present": True}, 0, ""),
        ({}, {}, {"a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}, {"b": 2}),
        ({"a": {"absent": True}}, {}, {"a": 1}),
        ([], [], [1]),
        ([1, {"a": 2}], [1, {"a": 2}], [1, {"a": 3}]),
        ([1], [1], None),
    ],
)
def test_matching(expected, right, wrong):
    assert found(expected, right) == []
    assert found(expected, wrong) != []


def test_saved_values_are_expected_later():
    names = {}
    assert differences({"save": "id"}, "x7", names) == []
    assert substitute({"a": ["${id}", "no ${id}!"]}, names) == {"a": ["x7", "no x7!"]}
    assert differences(["${id}"], ["x7"], names) == []
    assert differences(["${id}"], ["x8"], names) != []
    assert differences({"save": "other"}, None, names) != []
    with pytest.raises(KeyError):
        substitute("${unknown}", names)


def test_every_case_has_a_client_and_something_to_expect():
    cases = suite.load_cases()
    assert len(cases) > 80
    for case in cases:
        assert any("client" in step for step in case.steps), case.id
        assert any({"answer", "seen", "state"} & set(step) for step in case.steps), case.id
        assert case.gate in ("scripted", "real"), case.id
        assert (case.gate == "real") == bool(case.policy), case.id


def test_gaps_name_cases(monkeypatch):
    language = suite.load_language("python-async")
    monkeypatch.setattr(suite, "load_language", lambda name: dataclasses.replace(language, gaps={"no/such": "case"}))
    with pytest.raises(ValueError, match="no/such"):
        suite.cases_for("python-async")


def run_with(source, case_ids, programs):
    language = suite.Language("broken", [sys.executable, "-c", source], {}, {})
    cases = {case.id: case for case in suite.load_cases()}
    return {id_: programs.loop.run_until_complete(suite.run(cases[id_], programs, language, None)) for id_ in case_ids}


def test_a_client_that_only_says_yes_fails(programs):
    ids = ["outcomes/defer", "block/settled", "identity/attempt", "fail_open/unreachable", "wait/until_granted"]
    assert all(run_with(YES_MAN, ids, programs).values())


@pytest.mark.parametrize(
    "source",
    ["", "print('no JSON')", 'import sys; sys.stdin.readline(); print(\'{"driver_error": "as ever"}\')'],
)
def test_a_driver_that_fails_is_a_failure(programs, source):
    assert all(run_with(source, ["outcomes/defer"], programs).values())


def test_a_driver_that_is_missing_is_a_failure(programs):
    language = suite.Language("missing", ["/no/such/program"], {}, {})
    case = suite.load_cases()[0]
    assert "cannot start" in str(programs.loop.run_until_complete(suite.run(case, programs, language, None)))
