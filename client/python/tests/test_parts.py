"""The parts that need no gate."""

import pathlib
import re
import sys
import types
from datetime import timedelta

import grpc
import pytest

import fairgate
from fairgate.breaker import Breaker
from fairgate.core import Core, Exchange
from fairgate.durations import from_proto, to_proto
from fairgate.providers import http_response_of, settlement_from_response, usage_of

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_breaker_lets_one_through_per_cooldown():
    breaker = Breaker(2, cooldown_s=1.0)
    breaker.failed(10.0)
    assert breaker.allows(10.0)
    breaker.failed(10.5)
    assert breaker.is_open
    assert not breaker.allows(11.4)
    assert breaker.allows(11.5)
    assert not breaker.allows(11.6)
    breaker.failed(11.7)
    assert not breaker.allows(12.6)
    assert breaker.allows(12.7)
    breaker.succeeded()
    assert breaker.allows(12.7)
    assert not breaker.is_open


def test_no_breaker():
    breaker = Breaker(0, cooldown_s=1.0)
    for _ in range(10):
        breaker.failed(0.0)
    assert breaker.allows(0.0)


class Unavailable(grpc.RpcError):
    def __init__(self, details):
        self._details = details

    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return self._details

    def trailing_metadata(self):
        return ()


def pause_s_after(details, budget_s):
    exchange = Exchange(Core(fairgate.GateOptions()), None, budget_s)
    assert exchange.wants_try()
    assert exchange.pause_s() == 0
    exchange.failed(Unavailable(details))
    assert exchange.wants_try()
    return exchange.pause_s()


def test_the_second_try_waits_for_a_channel_that_lost_its_connection():
    pauses_s = {pause_s_after("recvmsg: Connection reset by peer", 100) for _ in range(20)}
    assert min(pauses_s) >= 0.01
    assert max(pauses_s) <= 0.02
    assert len(pauses_s) > 1, "all who lost it come back at once"
    assert pause_s_after("recvmsg: Connection reset by peer", 0.018) <= 0.009, "nothing is left for the try"
    assert pause_s_after("failed to connect to all addresses", 100) == 0, "a gate that is away costs more"


def test_durations_are_rounded_so_that_nobody_is_early():
    proto = to_proto(1.5)
    assert (proto.seconds, proto.nanos) == (1, 500_000_000)
    proto.nanos = 1
    assert from_proto(proto) == timedelta(seconds=1, microseconds=1)
    assert to_proto(timedelta(milliseconds=20)).ToMilliseconds() == 20


def test_usage_of_an_sdk_object():
    usage = types.SimpleNamespace(input_tokens=3, output_tokens=4, cache_creation_input_tokens=None)
    assert usage_of(types.SimpleNamespace(usage=usage)) == {"input": 3, "output": 4, "total": 7}


def test_a_response_whose_body_comes_later_gives_its_status_and_headers():
    class Streamed:
        status, headers = 429, {"Retry-After": "3"}

        async def json(self):
            raise AssertionError("not to be called")

    settled = settlement_from_response(Streamed())
    assert settled.outcome is fairgate.CallOutcome.RATE_LIMITED
    assert settled.retry_after == timedelta(seconds=3)


def test_a_body_that_is_no_json_is_no_usage():
    class Html:
        status_code, headers = 200, {}

        def json(self):
            raise ValueError("not JSON")

    assert settlement_from_response(Html()) == fairgate.Settlement(fairgate.CallOutcome.OK)


def test_what_is_no_response():
    assert http_response_of(ValueError()) is None
    assert http_response_of({"usage": {}}) is None
    assert settlement_from_response({"choices": []}).outcome is fairgate.CallOutcome.UNKNOWN


def test_unknown_usage_dimension():
    with pytest.raises(KeyError):
        settlement_from_response({}, dimensions=["requests"])


def test_estimate_of_text_bytes_and_json_text():
    assert fairgate.estimate_tokens("12345") == 2
    assert fairgate.estimate_tokens(b"1234") == 1
    assert fairgate.estimate_tokens('{"messages": [{"content": "12345678"}], "max_tokens": 10}') == 12


def test_estimate_with_a_tokenizer(monkeypatch):
    class Encoding:
        def encode(self, text, disallowed_special):
            assert disallowed_special == ()
            return text.split()

    def for_model(model):
        raise KeyError(model)

    fake = types.SimpleNamespace(encoding_for_model=for_model, get_encoding=lambda name: Encoding())
    monkeypatch.setitem(sys.modules, "tiktoken", fake)
    count = fairgate.tiktoken_counter("a-model-of-tomorrow")
    assert fairgate.estimate_tokens({"prompt": "one two three", "max_tokens": 2}, count=count) == 5


@pytest.mark.skipif(not (ROOT / "CMakeLists.txt").exists(), reason="only in the project's tree")
def test_version_is_the_projects():
    project = re.search(r"project\(Fairgate VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert project is not None
    assert fairgate.__version__ == project[1]
