"""Cases C27 and C29: the store is silent, refuses, is no primary any more, or says that it cannot serve."""

from __future__ import annotations

import time

import grpc
import pytest
from harness import Driver, Gate, Proxy, Valkey, policy, stopping, wait_until
from outages import BACK_MAX_S, check_in_time, check_served, is_shared, seconds_until_shared
from stubs import policy_pb2

MODES = {"open": policy_pb2.STORE_LOSS_MODE_OPEN, "bounded": policy_pb2.STORE_LOSS_MODE_BOUNDED,
         "closed": policy_pb2.STORE_LOSS_MODE_CLOSED}
BACKOFF_MIN_S = 0.025  # half of the first step, by jitter
HEARTBEATS_S = 2.5
EVALUATION_S = 0.025  # the server's default limit


class World:
    def __init__(self, directory, stack, gates: int = 2) -> None:
        self.valkey = Valkey(directory / "valkey")
        stack.callback(self.valkey.stop)
        self.proxies, self.gates = [], []
        for i in range(gates):
            self.proxies.append(Proxy(self.valkey.port))
            stack.callback(self.proxies[-1].stop)
            self.gates.append(Gate(directory / f"g{i}", self.proxies[-1].url))
            stack.callback(self.gates[-1].stop)
        self.driver = Driver(self.gates)
        stack.callback(self.driver.stop)

    def configure(self, made) -> None:
        wait_until(lambda: _configured(self.gates[0], made), 60, "the policy is set")
        for gate in self.gates:  # each must have seen the policy before the store goes
            wait_until(lambda: is_shared(gate, made.name), 60, "the policy is known")
        wait_until(lambda: self.valkey.client.zcard("fg:gates") == len(self.gates), 30, "all gates known")
        time.sleep(HEARTBEATS_S)  # and each has heard of the others


def _configured(gate, made) -> bool:
    try:
        return bool(gate.configure(made).config_version)
    except grpc.RpcError:
        return False


@pytest.fixture
def world(tmp_path):
    with stopping() as stack:
        yield World(tmp_path, stack)


@pytest.mark.parametrize("fault", ["black_hole", "hang", "refuse"])
@pytest.mark.parametrize("mode", MODES)
def test_C29_the_store_is_away_from_two_gates(world, mode, fault):
    world.configure(policy("t", 1e9, requests=10, on_store_loss=MODES[mode]))
    accepted = [proxy.state()["accepted"] for proxy in world.proxies]
    for proxy in world.proxies:
        getattr(proxy, fault)()
    away = time.monotonic()
    answers = world.driver.at_once((i % 2, "t", "t", f"i{i}", 1) for i in range(40))
    check_in_time(answers, world.driver, f"{mode}, {fault}, 20 to each gate at once")
    grants = [sum(a.gate == g and a.outcome == "grant" for a in answers) for g in range(2)]
    if mode == "closed":
        assert all(a.code == grpc.StatusCode.UNAVAILABLE.value[0] for a in answers)
    else:
        assert all(a.code == 0 and a.degraded for a in answers)
        assert grants == ([20, 20] if mode == "open" else [5, 5])
        assert all(a.outcome in ("grant", "defer") for a in answers)
    # The bar holds on through redials.
    world.driver.start_load(2.5, "t", callers=8, pause_ms=10, prefix="w")
    waiting = world.driver.answers()
    check_in_time(waiting, world.driver, "while away")
    if mode == "bounded":
        assert not [a for a in waiting if a.outcome != "defer"]
    degraded_grants = sum(grants) + sum(a.outcome == "grant" for a in waiting)
    counted = sum(g.metric("fairgate_degraded_answers_total", target="t", outcome="grant") for g in world.gates)
    assert counted == degraded_grants
    back = time.monotonic()
    for proxy in world.proxies:
        proxy.restore()
    took = seconds_until_shared(world.gates, "t", back)
    print(f"shared decisions {took:.3f} s after the return")
    assert took <= BACK_MAX_S
    if fault == "hang":
        check_attempts(world.proxies, accepted, away, back)
    # All of it is debited with the next heartbeats.
    wait_until(lambda: world.gates[0].inspect("t").leases_open >= degraded_grants, 60, "degraded grants debited", 0.05)
    state = world.gates[0].inspect("t")
    assert next(d for d in state.dimensions if d.name == "requests").debited_total == state.leases_open


def check_attempts(proxies, accepted_before: list[int], away: float, back: float) -> None:
    """At most one attempt per step of the back-off: each waits for the last to fail (1 s of silence) and its step."""
    for proxy, before in zip(proxies, accepted_before):
        attempts = [at for at in proxy.state()["accepted_at"][before:] if away <= at <= back]
        gaps = [b - a for a, b in zip(attempts, attempts[1:])]
        print(f"attempts while silent {len(attempts)}, least time between two {min(gaps, default=0):.2f} s")
        assert len(attempts) <= 1 + (back - away) / 0.25
        assert all(gap >= BACKOFF_MIN_S for gap in gaps)


@pytest.mark.parametrize("error", ["-OOM command not allowed when used memory > 'maxmemory'.",
        "-LOADING loading the dataset",
                                   "-BUSY Valkey is busy running a script.",
                                   "-READONLY You can't write against a read only replica.",
                                   "-MASTERDOWN Link with MASTER is down", "-CLUSTERDOWN The cluster is down",
                                   "-TRYAGAIN Multiple keys request during rehashing of slot",
                                   "-MOVED 1 127.0.0.1:1", "-ASK 1 127.0.0.1:1",
                                   "-NOREPLICAS Not enough good replicas"])
def test_C27_one_error_reply_is_one_degraded_answer(world, error):
    world.configure(policy("t", 1e9, requests=1e6))
    world.proxies[0].answer(error=error, match="{t}")
    start = time.monotonic()
    world.driver.start_load(1.5, "t", callers=4, pause_ms=20, gates="0")  # 200 a second
    answers = world.driver.answers()
    check_served(answers, world.driver, error)
    assert all(a.outcome == "grant" for a in answers)
    # Answered at once, for want of a store; others waited for a slow one up to an evaluation's limit.
    at_once = [a for a in answers if a.degraded and a.latency_s < EVALUATION_S]
    assert any(a.degraded for a in answers)
    assert max((a.start_s for a in at_once), default=start) - start <= BACK_MAX_S
    if not error.startswith("-READONLY"):
        assert len(at_once) <= 1 and world.proxies[0].state()["accepted"] == 1
    assert is_shared(world.gates[0], "t") and time.monotonic() - start < 10
    wait_until(lambda: world.gates[0].inspect("t").leases_open == len(answers), 60, "all debited once", 0.05)


@pytest.mark.parametrize("error", ["-WRONGPASS invalid username-password pair",
        "-NOPERM no permissions to run evalsha"])
def test_what_the_store_forbids_is_no_verdict(world, error):
    """Not known as a passing state of the store: the gate says that it failed. It never grants, defers or rejects."""
    world.configure(policy("t", 1e9))
    world.proxies[0].answer(error=error, match="{t}")
    with pytest.raises(grpc.RpcError) as failed:
        world.gates[0].admit("t", "a", 1)
    assert failed.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)


def test_C27_the_address_moves_and_the_old_primary_stays_as_replica(world, tmp_path):
    world.configure(policy("t", 1e9, requests=1e6))
    new = Valkey(tmp_path / "new")
    with stopping(new):
        new.client.replicaof("127.0.0.1", world.valkey.port)
        wait_until(lambda: new.client.info("replication")["master_link_status"] == "up", 20, "the replica follows")
        world.driver.start_load(4, "t", callers=4, pause_ms=20)
        time.sleep(1)
        for proxy in world.proxies:
            proxy.move(host="127.0.0.1", port=new.port)
        wait_until(lambda: world.valkey.client.info("replication")["master_repl_offset"]
                   <= new.client.info("replication")["slave_repl_offset"] + 10_000, 5, "the replica keeps up")
        new.client.replicaof("no", "one")
        world.valkey.client.replicaof("127.0.0.1", new.port)  # connections stay: writes now fail with READONLY
        moved = time.monotonic()
        answers = world.driver.answers()
        check_served(answers, world.driver, "failover")
        assert all(a.outcome == "grant" for a in answers)
        degraded = [a for a in answers if a.degraded]
        back = [max([a.start_s for a in degraded if a.gate == g], default=moved) - moved for g in range(2)]
        print(f"degraded {len(degraded)}, last {back[0]:.3f} and {back[1]:.3f} s after the move")
        assert max(back) <= BACK_MAX_S
        assert all(gate.process.poll() is None and is_shared(gate, "t") for gate in world.gates)
        for proxy in world.proxies:
            assert proxy.state()["accepted"] <= 4


def test_slow_replies(world):
    """A store that answers after the limit of an evaluation: degraded in time, and no redial."""
    world.configure(policy("t", 1e9, requests=1e6))
    world.proxies[0].delay(seconds=0.1)
    world.driver.start_load(2, "t", callers=16, pause_ms=20, gates="0")
    answers = world.driver.answers()
    check_served(answers, world.driver, "replies 100 ms late")
    assert sum(a.degraded for a in answers) >= len(answers) * 0.9
    world.proxies[0].delay(seconds=0)
    assert seconds_until_shared(world.gates, "t", time.monotonic()) <= BACK_MAX_S
    assert world.proxies[0].state()["accepted"] == 1
    wait_until(lambda: world.gates[0].inspect("t").leases_open == len(answers), 60, "each debited once", 0.05)
