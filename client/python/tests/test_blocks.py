"""What is Python's own; what all clients share is in tests/conformance."""

import asyncio
import json
import logging
import pickle
import threading
from datetime import timedelta

import pytest

import fairgate
from fairgate.v1 import admission_pb2 as pb

PATIENT = fairgate.GateOptions(rpc_timeout=10)
DEFER = pb.Defer(place=2, limited_by=[pb.Limit(layer=pb.LAYER_CLASS)])
DEFER.retry_delay.FromMilliseconds(1500)


class HttpResponse:
    def __init__(self, status_code, headers=None, body=None):
        self.status_code, self.headers, self.body = status_code, headers or {}, body

    def json(self):
        return self.body


class ProviderError(Exception):
    """As the SDKs' status errors."""

    def __init__(self, response):
        super().__init__("refused")
        self.response = response
        self.body = response.body


def test_deferred_is_raised_and_survives_pickling(gate_server):
    gate_server.answers.append(pb.AdmitResponse(defer=DEFER))
    with fairgate.Gate(gate_server.address, PATIENT) as gate, pytest.raises(fairgate.Deferred) as caught:
        with gate.admit(target="t", tenant="a", request_id="job7/1"):
            pytest.fail("the block was entered")
    deferred = pickle.loads(pickle.dumps(caught.value))
    assert type(deferred) is fairgate.Deferred
    assert (deferred.delay, deferred.request_id, deferred.place) == (timedelta(seconds=1.5), "job7/1", 2)
    assert deferred.limited_by == (fairgate.Limit("class", ""),)
    assert str(deferred) == str(caught.value)
    assert gate_server.releases == []


async def test_outcome_is_a_value(gate_server):
    gate_server.answers.append(pb.AdmitResponse(defer=DEFER))
    async with fairgate.AsyncGate(gate_server.address, PATIENT) as gate:
        assert isinstance(await gate.admit(target="t", tenant="a").outcome(), fairgate.Deferred)
        call = await gate.admit(target="t", tenant="a").outcome()
        assert isinstance(call, fairgate.AsyncCall)
        call.settle(tokens=3)
        report = await call.release()
        assert report is not None
        assert report.result is fairgate.ReleaseResult.SETTLED
        assert await call.release() is None
    assert [release.settle.actual["tokens"] for release in gate_server.releases] == [3]


def test_dimensions_as_keywords_and_as_a_mapping(gate_server):
    with fairgate.Gate(gate_server.address, PATIENT) as gate:
        with gate.admit(target="t", tenant="a", tokens=5, cost={"gpu-seconds": 2}) as call:
            call.settle(actual={"gpu-seconds": 1}, tokens=4)
    assert dict(gate_server.admits[0].cost) == {"tokens": 5, "gpu-seconds": 2}
    assert dict(gate_server.releases[0].settle.actual) == {"gpu-seconds": 1, "tokens": 4}


def test_an_error_that_carries_a_response_settles_with_it(gate_server):
    refusal = HttpResponse(429, {"Retry-After": "20"}, {"error": {"type": "rate_limit"}})
    with fairgate.Gate(gate_server.address, PATIENT) as gate, pytest.raises(ProviderError):
        with gate.admit(target="t", tenant="a", tokens=5):
            raise ProviderError(refusal)
    settle = gate_server.releases[0].settle
    assert settle.outcome == pb.CALL_OUTCOME_RATE_LIMITED
    assert settle.retry_after.ToSeconds() == 20


def test_what_headers_and_the_caller_say_of_limits_goes_along(gate_server):
    response = HttpResponse(200, {"x-ratelimit-remaining-tokens": "70", "x-ratelimit-remaining-requests": "7"})
    by_hand = fairgate.RateLimitStatus(reset=timedelta(seconds=12))
    with fairgate.Gate(gate_server.address, PATIENT) as gate, gate.admit(target="t", tenant="a", tokens=9) as call:
        call.settle(response=response, body={"usage": {"total_tokens": 8}}, rate_limits={"requests": by_hand})
    settle = gate_server.releases[0].settle
    assert (settle.outcome, dict(settle.actual)) == (pb.CALL_OUTCOME_OK, {"tokens": 8})
    assert settle.rate_limits["tokens"] == pb.RateLimitStatus(remaining=70)
    requests = settle.rate_limits["requests"]
    assert (requests.HasField("remaining"), requests.reset.ToSeconds()) == (False, 12)


def test_dimensions_of_ones_own_hold_usage(gate_server):
    options = fairgate.GateOptions(rpc_timeout=10, usage_dimensions={"tpm": "total"})
    with fairgate.Gate(gate_server.address, options) as gate, gate.admit(target="t", tenant="a", tpm=0) as call:
        call.settle(response={"usage": {"total_tokens": 12}})
    assert dict(gate_server.releases[0].settle.actual) == {"tpm": 12}


def test_no_more_threads_are_no_error_of_the_caller(gate_server, monkeypatch):
    def start(thread, really=threading.Thread.start):
        if thread.name == "fairgate release":
            raise RuntimeError("can't start new thread")
        really(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    gate_server.answers.append(pb.AdmitResponse(defer=DEFER))
    with fairgate.Gate(gate_server.address, PATIENT) as gate, pytest.raises(fairgate.Deferred):
        with gate.admit(target="t", tenant="a", max_wait=0.001):
            pytest.fail("the block was entered")
    assert gate_server.releases == []


async def test_a_second_cancellation_does_not_stop_the_settlement(gate_server):
    gate_server.may_release.clear()
    entered = asyncio.Event()

    async def work(gate):
        async with gate.admit(target="t", tenant="a"):
            entered.set()
            await asyncio.sleep(60)

    async with fairgate.AsyncGate(gate_server.address, PATIENT) as gate:
        task = asyncio.create_task(work(gate))
        await entered.wait()
        task.cancel()
        await asyncio.sleep(0.05)  # now it waits for the release
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate_server.releases == []
        gate_server.may_release.set()
    assert len(gate_server.releases) == 1  # closing the gate waited for it


async def test_tasks_inherit_the_deadline_and_nested_ones_take_the_earliest(gate_server):
    async def ask(gate):
        async with gate.admit(target="t", tenant="a"):
            pass

    async with fairgate.AsyncGate(gate_server.address, PATIENT) as gate:
        with fairgate.deadline(timedelta(seconds=50)):
            await asyncio.create_task(ask(gate))
            with fairgate.deadline(20):
                await ask(gate)
            with fairgate.deadline(None):
                await ask(gate)
        await ask(gate)
    left_s = [admit.deadline.ToTimedelta().total_seconds() for admit in gate_server.admits]
    for found, expected in zip(left_s, [50, 20, 50, 0], strict=True):
        assert expected - 5 < found <= expected
    assert not gate_server.admits[3].HasField("deadline")


def test_one_async_gate_in_several_loops(gate_server):
    gate = fairgate.AsyncGate(gate_server.address, PATIENT)

    async def ask():
        async with gate.admit(target="t", tenant="a"):
            pass

    asyncio.run(ask())
    asyncio.run(ask())
    assert len(gate_server.releases) == 2
    assert gate.counters.granted == 2


def test_threads_share_a_gate(gate_server):
    gate = fairgate.Gate(gate_server.address, PATIENT)

    def ask():
        for _ in range(20):
            with gate.admit(target="t", tenant="a"):
                pass

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gate.close()
    assert gate.counters.granted == 80
    assert len(gate_server.releases) == 80


def test_a_gate_that_was_closed_opens_again(gate_server):
    gate = fairgate.Gate(gate_server.address, PATIENT)
    for _ in range(2):
        with gate.admit(target="t", tenant="a"):
            pass
        gate.close()
    assert len(gate_server.releases) == 2


def test_a_forked_process_gets_a_channel_of_its_own(gate_server, monkeypatch):
    with fairgate.Gate(gate_server.address, PATIENT) as gate:
        gate.admit(target="t", tenant="a", check_only=True).outcome()
        parents = gate._channel
        monkeypatch.setattr("fairgate.sync.os.getpid", lambda: -1)
        gate.admit(target="t", tenant="a", check_only=True).outcome()
        assert gate._channel is not parents
    assert len(gate_server.admits) == 2


def test_a_hook_that_fails_is_logged(gate_server, caplog):
    def hook(event):
        raise RuntimeError("the hook's own")

    options = fairgate.GateOptions(rpc_timeout=10, on_event=hook)
    with caplog.at_level(logging.ERROR, "fairgate"), fairgate.Gate(gate_server.address, options) as gate:
        with gate.admit(target="t", tenant="a"):
            pass
    assert "on_event failed" in caplog.text


def test_extending_what_is_not_leased_is_an_error():
    options = fairgate.GateOptions(rpc_timeout=1, breaker_failures=0)
    with fairgate.Gate("127.0.0.1:1", options) as gate, gate.admit(target="t", tenant="a") as call:
        assert call.failed_open
        with pytest.raises(fairgate.GateError, match="no open lease"):
            call.extend()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_duration_that_is_none_is_a_value_error(gate_server, bad):
    with fairgate.Gate(gate_server.address, PATIENT) as gate, pytest.raises(ValueError, match="not a duration"):
        gate.admit(target="t", tenant="a", max_hold=bad).outcome()


def test_events_are_json_ready(gate_server):
    events = []
    options = fairgate.GateOptions(rpc_timeout=10, on_event=events.append)
    with fairgate.Gate(gate_server.address, options) as gate, gate.admit(target="t", tenant="a"):
        pass
    assert [type(event).__name__ for event in events] == ["AdmitEvent", "ReleaseEvent"]
    assert json.dumps([vars(event) for event in events])
