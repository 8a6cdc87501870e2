"""Valkey and the gates themselves killed, stopped and started again in mid-load. Real clocks, 64 callers."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from harness import Answer, Driver, Gate, Valkey, health, policy, stopping, wait_until
from outages import BACK_MAX_S, check_served, seconds_until_shared, summary
from stubs import admission_pb2 as pb

CALLERS = 64
PAUSE_MS = 40
THREADS_S = 0.1  # two answers of one connection are heard by two threads here
REPLAY_S = 30.0  # heartbeats come every 2 s; a stalled machine loses some
MACHINE_S = 4.0  # margin of those ends that are no bar of their own
EXPOSER_S = 2.0  # what the end of the metrics exposer takes by itself


def wide():
    """So much that nobody has to wait, and leases that outlive the test."""
    made = policy("t", 1e12, requests=1e12)
    made.lease_ttl.seconds = 3600
    return made


def known(*gates: Gate) -> None:
    gates[0].configure(wide())
    for gate in gates:
        seconds_until_shared([gate], "t", time.monotonic())
    time.sleep(0.2)


def shared_grants(answers: list[Answer]) -> list[Answer]:
    return [a for a in answers if a.outcome == "grant" and not a.degraded]


def check_kept(gate: Gate, answers: list[Answer], also_degraded: bool = False) -> None:
    """What callers were granted by the store is there as leases: asking again grants again and debits nothing."""
    kept = [(0, "t", f"t{tenant(a)}", a.id, 1)
            for a in answers if a.outcome == "grant" and (also_degraded or not a.degraded)]
    driver, lost = Driver([gate]), []
    with stopping(driver):
        end = time.monotonic() + REPLAY_S * 4
        for i in range(0, len(kept), 20):  # few at once, for the store to answer in time
            waiting = kept[i:i + 20]
            while waiting:
                assert time.monotonic() < end, "the store does not answer for all"
                again = driver.at_once(waiting)
                assert not [a for a in again if a.code or a.outcome != "grant"]
                lost += [a.id for a in again if not a.repeated and not a.degraded]
                late = {a.id for a in again if a.degraded}
                waiting = [call for call in waiting if call[3] in late]
    assert not lost, (f"{len(lost)} of {len(kept)} acknowledged grants are gone", lost[:3], lost[-3:])


def tenant(answer: Answer) -> int:
    return int(answer.id.split("-")[1])


@pytest.mark.parametrize("store", ["embedded", "external"])
def test_kill_9_of_valkey(tmp_path, store):
    valkey = Valkey(tmp_path / "valkey") if store == "external" else None
    with stopping(*[valkey] if valkey else []) as stack:
        gate = Gate(tmp_path / "gate", f"valkey://127.0.0.1:{valkey.port}" if valkey else None)
        stack.callback(gate.stop)
        driver = Driver([gate])
        stack.callback(driver.stop)
        known(gate)
        driver.start_load(5, "t", callers=CALLERS, pause_ms=PAUSE_MS)
        time.sleep(1.5)
        if valkey:
            valkey.kill()
            time.sleep(1)
            valkey.start()
        else:
            old = gate.embedded_pid()
            os.kill(old, signal.SIGKILL)
            wait_until(lambda: _other_pid(gate, old), 5, "the embedded store is back", 0.005)
        back = time.monotonic()
        took = seconds_until_shared([gate], "t", back)
        answers = driver.answers()
        check_served(answers, driver, f"kill -9 of the {store} Valkey")
        assert all(a.outcome == "grant" for a in answers) and any(a.degraded for a in answers)
        print(f"normal {took:.3f} s after its return")
        assert took <= BACK_MAX_S
        check_kept(gate, answers)
        end = time.monotonic() + REPLAY_S
        while gate.inspect("t").leases_open < len(answers) and time.monotonic() < end:
            time.sleep(0.05)
        check_kept(gate, answers, also_degraded=True)
        assert gate.inspect("t").leases_open == len(answers)  # each once


def _other_pid(gate: Gate, old: int) -> bool:
    try:
        return gate.embedded_pid() != old
    except Exception:
        return False


def test_kill_9_of_a_gate_with_its_embedded_store(tmp_path):
    gate = Gate(tmp_path / "gate")
    known(gate)
    pid = gate.embedded_pid()
    driver = Driver([gate])
    with stopping(driver):
        driver.start_load(2.5, "t", callers=CALLERS, pause_ms=PAUSE_MS)
        time.sleep(1.2)
        gate.kill()
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30, "the embedded store ends with its gate")
        again = Gate(tmp_path / "gate", listen=gate.address)
        with stopping(again):
            answers = driver.answers()
            print(summary(answers, "kill -9 of the gate"))
            assert {a.code for a in answers} <= {0, 14}  # UNAVAILABLE while there is no gate
            served = [a for a in answers if a.code == 0]
            assert all(a.outcome == "grant" for a in served)
            seconds_until_shared([again], "t", time.monotonic())
            check_kept(again, served)


def test_kill_9_of_one_of_two_gates(tmp_path):
    """State is the store's: the other gate goes on, and knows what its sister granted."""
    valkey = Valkey(tmp_path / "valkey")
    with stopping(valkey) as stack:
        gates = [Gate(tmp_path / f"g{i}", f"valkey://127.0.0.1:{valkey.port}") for i in range(2)]
        stack.callback(gates[0].stop)
        driver = Driver(gates)
        stack.callback(driver.stop)
        known(*gates)
        driver.start_load(2.5, "t", callers=CALLERS, pause_ms=PAUSE_MS)
        time.sleep(1.2)
        gates[1].kill()
        answers = driver.answers()
        check_served([a for a in answers if a.gate == 0], driver, "the other gate")
        check_kept(gates[0], answers)


def test_restart_by_sigterm_in_mid_load(tmp_path):
    gate = Gate(tmp_path / "gate")
    known(gate)
    driver = Driver([gate])
    with stopping(driver):
        driver.start_load(3, "t", callers=CALLERS, pause_ms=PAUSE_MS)
        time.sleep(1)
        gate.stop()  # exit code 0
        again = Gate(tmp_path / "gate", listen=gate.address)
        with stopping(again):
            answers = driver.answers()
            print(summary(answers, "SIGTERM of the gate"))
            # gRPC cancels what had arrived but was not yet handed over; such a call was not decided.
            assert {a.code for a in answers} <= {0, 1, 14}
            served = [a for a in answers if a.code == 0]
            assert all(a.outcome == "grant" for a in served)
            check_kept(again, served)
            # Nobody was granted something without hearing of it.
            assert len(shared_grants(served)) <= again.inspect("t").leases_open <= len(served)


def test_sigterm_drains_in_order(tmp_path):
    """NOT_SERVING first, then the calls in flight are answered, then exit 0."""
    gate = Gate(tmp_path / "gate", flags=["--drain-timeout=5s", "--hold-max=10s"])
    gate.configure(policy("t", 600))  # ten a second
    gate.admit("t", "all", 600)
    answered: list[float] = []
    request = pb.AdmitRequest(target="t", tenant="t", request_id="parked", cost={"tokens": 20})
    request.max_hold.seconds = 8
    call = gate.admission.Admit.future(request, timeout=10)
    call.add_done_callback(lambda _: answered.append(time.monotonic()))
    time.sleep(0.3)
    assert not call.done() and health(gate) == "SERVING"
    seen: list[tuple[float, bytes]] = []
    watch = gate.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=20)
    reader = threading.Thread(target=lambda: _collect(watch, seen), daemon=True)
    reader.start()
    wait_until(lambda: seen, 5, "health is watched")
    told = time.monotonic()
    gate.process.send_signal(signal.SIGTERM)
    wait_until(lambda: seen[-1][1] == b"\x08\x02", 10, "NOT_SERVING")
    answer = call.result(timeout=10)
    wait_until(lambda: answered, 5, "the parked call's end")
    assert seen[-1][0] <= answered[0] + THREADS_S, "health speaks before the last answer"
    assert answer.WhichOneof("outcome") in ("grant", "defer")
    watch.cancel()
    reader.join(5)
    gate.channel.close()
    assert gate.process.wait(60) == 0  # no second signal: that would end it at once
    print(f"drained in {time.monotonic() - told:.1f} s, the parked call got a {answer.WhichOneof('outcome')}")
    assert time.monotonic() - told < 5 + EXPOSER_S + MACHINE_S


def _collect(stream, into: list[tuple[float, bytes]]) -> None:
    try:
        for message in stream:
            into.append((time.monotonic(), message))
    except Exception:
        pass  # the stream ends with the server


@pytest.mark.parametrize("held", [0, 3])
def test_sigterm_when_idle_and_when_calls_wait(tmp_path, held):
    """The drain timeout bounds the end, whoever still waits."""
    gate = Gate(tmp_path / "gate", flags=["--drain-timeout=1s", "--hold-max=30s"])
    gate.configure(policy("t", 60))
    gate.admit("t", "all", 60)
    calls = []
    for i in range(held):
        request = pb.AdmitRequest(target="t", tenant="t", request_id=f"h{i}", cost={"tokens": 5 + i})
        request.max_hold.seconds = 25
        calls.append(gate.admission.Admit.future(request, timeout=30))
    time.sleep(0.3)
    assert not any(call.done() for call in calls)
    start = time.monotonic()
    gate.process.send_signal(signal.SIGTERM)
    assert gate.process.wait(40) == 0
    print(f"ended after {time.monotonic() - start:.2f} s with {held} parked")
    assert time.monotonic() - start < 1 + EXPOSER_S + MACHINE_S
