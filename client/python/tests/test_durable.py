"""Which attempt a step asks as, against a gate that says what the tests want."""

import asyncio
from datetime import timedelta

import pytest

import fairgate
from fairgate.durable import Deferral, Done, Rejection, StepQuestion, Steps

QUESTION = StepQuestion(
    target="t",
    tenant="a",
    priority="",
    cost={},
    request_id="r",
    upper_bound=False,
    tells_sent=False,
    timer_floor=0,
    max_hold=0,
    due_at=None,
)


class Call(fairgate.AsyncCall):
    def __init__(self, attempt, repeated=False):
        self._told = attempt, repeated

    attempt = property(lambda self: self._told[0])
    repeated = property(lambda self: self._told[1])

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


class Gate:
    """Answers by attempt."""

    def __init__(self, **answers):
        self.answers = {int(name[1:]): answer for name, answer in answers.items()}
        self.asked = []

    def admit(self, *, attempt, **_):
        self.asked.append(attempt)
        return self

    async def outcome(self):
        return self.answers[self.asked[-1]]


def rejected(attempt, reason):
    return fairgate.Rejected(
        reason=reason,
        message="no",
        dimension="",
        earliest=None,
        request_id="r",
        attempt=attempt,
        degraded=False,
    )


async def send(call):
    return call.attempt


async def fail(call):
    raise ConnectionError


async def test_an_attempt_that_is_over_is_passed_by():
    gate = Gate(
        a1=rejected(1, fairgate.RejectReason.SUPERSEDED),
        a2=rejected(2, fairgate.RejectReason.ALREADY_SETTLED),
        a3=Call(3, repeated=True),
        a4=Call(4),
    )
    assert await Steps(gate).do(QUESTION, 1, send) == Done(4)
    assert gate.asked == [1, 2, 3, 4]


async def test_a_deferral_keeps_its_attempt_and_rounds_up():
    deferred = fairgate.Deferred(
        delay=timedelta(microseconds=1001),
        projected_wait=timedelta(0),
        place=1,
        limited_by=(),
        request_id="r",
        attempt=2,
        degraded=False,
    )
    assert await Steps(Gate(a1=Call(1, repeated=True), a2=deferred)).do(QUESTION, 1, send) == Deferral(2, 2)


async def test_other_rejections_are_the_end():
    gate = Gate(a1=rejected(1, fairgate.RejectReason.COST_EXCEEDS_CAP))
    assert await Steps(gate).do(QUESTION, 1, send) == Rejection("COST_EXCEEDS_CAP", "no")


async def test_after_a_failure_the_next_attempt_is_asked_at_once():
    gate = Gate(a1=Call(1), a2=Call(2))
    steps = Steps(gate)
    with pytest.raises(ConnectionError):
        await steps.do(QUESTION, 1, fail)
    assert await steps.do(QUESTION, 1, send) == Done(2)
    assert gate.asked == [1, 2]


async def test_a_cancelled_step_leaves_no_hint_behind():
    async def cancelled(call):
        raise asyncio.CancelledError

    steps = Steps(Gate(a1=Call(1)))
    with pytest.raises(asyncio.CancelledError):
        await steps.do(QUESTION, 1, cancelled)
    assert not steps._next_attempts
