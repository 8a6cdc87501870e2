"""What the adapter for Restate writes, and what is left of a retry policy; the rest is tested on its server."""

from datetime import timedelta

import pytest
from restate import RunOptions
from restate.serde import BytesSerde, JsonSerde

from fairgate.durable import Deferral, Done, Rejection
from fairgate.restate import _OutcomeSerde, _rest_of


@pytest.mark.parametrize(
    "outcome",
    [
        Done({"deferral": {"delay_ms": 1, "attempt": 1}}),
        Done(None),
        Deferral(1500, 3),
        Rejection("COST_EXCEEDS_CAP", "too much\nof it"),
    ],
)
def test_outcomes_come_back(outcome):
    serde = _OutcomeSerde(JsonSerde())
    assert serde.deserialize(serde.serialize(outcome)) == outcome


def test_results_keep_their_own_serde():
    serde = _OutcomeSerde(BytesSerde())
    outcome = Done(b"\n\x00\xff{}")
    assert serde.deserialize(serde.serialize(outcome)) == outcome


def test_retries_go_on_where_they_were():
    options = RunOptions(max_attempts=4, initial_retry_interval=timedelta(seconds=1))
    rest = _rest_of(options, 2, JsonSerde())
    assert rest.max_attempts == 2
    assert rest.initial_retry_interval == timedelta(seconds=4)
    assert options.max_attempts == 4
    assert _rest_of(options, 9, JsonSerde()).max_attempts == 1
    assert _rest_of(options, 1000, JsonSerde()).initial_retry_interval == timedelta(seconds=10)
    assert _rest_of(RunOptions(), 3, JsonSerde()).initial_retry_interval is None
