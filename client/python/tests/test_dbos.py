"""What is left of a retry policy after a deferral; the rest of the adapter for DBOS is tested with its database."""

from fairgate.dbos import _rest_of


def test_retries_go_on_where_they_were():
    options = {"name": "call", "retries_allowed": True, "max_attempts": 4, "interval_seconds": 1.0}
    rest = _rest_of(options, 2)
    assert rest == {**options, "max_attempts": 2, "interval_seconds": 4.0}
    assert _rest_of(options, 9)["max_attempts"] == 1
    assert _rest_of(options, 1000)["interval_seconds"] == 3600


def test_a_step_without_retries_has_none_left_to_count():
    assert _rest_of({"name": "call", "max_attempts": 4}, 2) == {"name": "call", "max_attempts": 4}
