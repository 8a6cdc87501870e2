"""Cases C08 and C10, and replies that come late, never, or twice asked for."""

from __future__ import annotations

import math
import time

import grpc
import pytest
from harness import EPOCH_US, Gate, Proxy, Valkey, policy, stopping, violations, wait_until
from stubs import admission_pb2 as pb
from stubs import policy_pb2

MODES = [policy_pb2.STORE_LOSS_MODE_OPEN, policy_pb2.STORE_LOSS_MODE_BOUNDED, policy_pb2.STORE_LOSS_MODE_CLOSED]


@pytest.fixture
def world(tmp_path):
    clock = tmp_path / "clock"
    clock.write_text(str(EPOCH_US))
    valkey = Valkey(tmp_path / "valkey")
    with stopping(valkey) as stack:
        proxy = Proxy(valkey.port)
        stack.callback(proxy.stop)
        gate = Gate(tmp_path / "gate", proxy.url, clock=clock, flags=["--store-timeout=500ms"])
        stack.callback(gate.stop)
        yield gate, proxy


def connected(gate, target):
    def ask():
        try:
            return not gate.admit(target, "probe", mode=pb.ADMIT_MODE_CHECK_ONLY).degraded
        except grpc.RpcError:
            return False
    return ask


@pytest.mark.parametrize("mode", MODES, ids=["open", "bounded", "closed"])
def test_C08_a_script_that_committed_and_lost_its_reply_counts_once(world, mode):
    gate, proxy = world
    gate.configure(policy("t", 1e6, requests=10, on_store_loss=mode))
    proxy.lose_reply(match="{t}")
    if mode == policy_pb2.STORE_LOSS_MODE_CLOSED:
        with pytest.raises(grpc.RpcError) as error:
            gate.admit("t", "a")
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    else:
        first = gate.admit("t", "a")
        assert first.WhichOneof("outcome") == "grant" and first.degraded
    wait_until(connected(gate, "t"), 5, "the store answers again")
    again = gate.admit("t", "a")
    assert again.grant.repeated and not again.degraded
    time.sleep(2.5)  # the replay of the degraded grant finds the id
    state = gate.inspect("t")
    assert next(d for d in state.dimensions if d.name == "requests").available == 9
    assert state.leases_open == 1 and state.grants_total == 1


@pytest.mark.parametrize("action", ["settle", "withdraw", "extend"])
def test_a_release_that_lost_its_reply_is_settled_once(world, action):
    gate, proxy = world
    gate.configure(policy("t", 1000))
    gate.admit("t", "a", 600)
    proxy.lose_reply(match="{t}")
    fields = {"settle": {"settle": pb.Settle(outcome=1, actual={"tokens": 100})},
            "withdraw": {"withdraw": pb.Withdraw()},
              "extend": {"extend": pb.Extend(used_so_far={"tokens": 700})}}[action]
    request = pb.ReleaseRequest(target="t", request_id="a", **fields)
    assert gate.admission.Release(request).result == pb.RELEASE_RESULT_QUEUED
    left = {"settle": 900, "withdraw": 1000, "extend": 300}[action]
    wait_until(connected(gate, "t"), 5, "the store answers again")
    assert gate.tokens("t").available == left
    time.sleep(2.5)  # after the replay
    assert gate.tokens("t").available == left
    again = gate.admission.Release(request).result
    assert again == {
        "settle": pb.RELEASE_RESULT_ALREADY_SETTLED, "withdraw": pb.RELEASE_RESULT_ALREADY_SETTLED,
        "extend": pb.RELEASE_RESULT_EXTENDED}[action]
    assert gate.tokens("t").available == left


def test_a_reply_that_comes_too_late_belongs_to_its_own_call(world):
    gate, proxy = world
    gate.configure(policy("t", 1000))
    proxy.delay(seconds=0.7)
    late = gate.admit("t", "late", 400)
    assert late.degraded and late.WhichOneof("outcome") == "grant"
    proxy.delay(seconds=0)
    wait_until(connected(gate, "t"), 5, "the store answers again")
    assert gate.admit("t", "next", 601).WhichOneof("outcome") == "defer"  # 600 are left: the late one was debited
    again = gate.admit("t", "late", 400)
    assert again.grant.repeated and dict(again.grant.debited)["tokens"] == 400
    assert gate.tokens("t").available == 600


def test_C08_configure_whose_reply_is_lost_can_be_repeated(world):
    gate, proxy = world
    gate.configure(policy("t", 1000))
    proxy.lose_reply(match="{t}", skip=1)  # the first is the reading of the policy
    with pytest.raises(grpc.RpcError) as error:
        gate.configure(policy("t", 2000))
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    wait_until(connected(gate, "t"), 5, "the store answers again")
    answer = gate.configure(policy("t", 2000))
    assert not answer.changes and answer.config_version == gate.inspect("t").config_version == 2


def test_C10_no_cost_mints_capacity_or_poisons_the_level(world):
    gate, _ = world
    gate.configure(policy("t", 1000, requests=10))
    before = gate.inspect("t")
    bad = [-1, math.nan, math.inf, -math.inf, 2.0 ** 63, -0.5, 1e12 * (1 + 1e-9), -5e-324, 1.8e308 * 10]
    for amount in bad:
        with pytest.raises(grpc.RpcError) as error:
            gate.admit("t", "bad", amount)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert violations(error.value) == ['cost["tokens"]']
    assert gate.inspect("t") == before
    assert gate.admit("t", "whole", 1000).WhichOneof("outcome") == "grant"
    held = gate.inspect("t")
    for amount in [-5, *bad]:
        with pytest.raises(grpc.RpcError) as error:
            gate.settle("t", "whole", {"tokens": amount})
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert violations(error.value) == ['settle.actual["tokens"]']
    assert gate.inspect("t") == held
    one = gate.admit("t", "one", 1)
    assert one.WhichOneof("outcome") == "defer" and one.defer.retry_delay.ToMilliseconds() == 60
    zero = gate.admit("t", "zero", 0)
    assert zero.WhichOneof("outcome") == "grant" and dict(zero.grant.debited) == {"requests": 1}
    assert gate.admit("t", "minus zero", -0.0).WhichOneof("outcome") == "grant"
    assert gate.tokens("t").available == 0
