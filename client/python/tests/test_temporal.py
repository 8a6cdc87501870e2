"""Parts of the adapter for Temporal; tests/engines of the project runs it on the real engine."""

import dataclasses
from datetime import timedelta

import pytest

pytest.importorskip("temporalio", reason="the extra fairgate[temporal] is not installed")

from temporalio.common import RetryPolicy
from temporalio.testing import ActivityEnvironment

from fairgate import temporal


@pytest.mark.parametrize(
    ("policy", "failures", "attempts_left", "interval_s"),
    [
        (RetryPolicy(maximum_attempts=3), 0, 3, 1),
        (RetryPolicy(maximum_attempts=3), 2, 1, 4),
        (RetryPolicy(maximum_attempts=0), 2, 0, 4),
        (None, 3, 0, 8),
        (None, 1_000_000, 0, 100),
        (RetryPolicy(maximum_interval=timedelta(seconds=3)), 2, 0, 3),
        (RetryPolicy(backoff_coefficient=1), 1_000, 0, 1),
    ],
)
def test_rest_of_a_policy(policy, failures, attempts_left, interval_s):
    rest = temporal._rest_of(policy, failures)
    assert (rest.maximum_attempts, rest.initial_interval) == (attempts_left, timedelta(seconds=interval_s))


def test_no_policy_stays_none_without_failures():
    assert temporal._rest_of(None, 0) is None


def test_long_ids_fit_the_contract():
    info = ActivityEnvironment().info
    short = temporal._request_id(info)
    assert short == f"{info.workflow_id}/{info.workflow_run_id}/{info.activity_id}"
    ids = {temporal._request_id(dataclasses.replace(info, workflow_id="w" * 500 + end)) for end in "ab"}
    assert {len(request_id) for request_id in ids} == {64}


def test_outside_of_a_worker():
    with pytest.raises(RuntimeError, match="FairgateInterceptor"):
        temporal.of_activity()
