"""The driver against the mock and a fake gate, both in this process."""

import asyncio
import time

import grpc
import pytest
import yaml
from google.protobuf import json_format

from arms import Asking, GateArm, Http, NaiveArm
from driver import drain_calls, drive, http_session
from records import Record, Send
from servers import Rule, policy_text
from stubs import admission_pb2 as pb
from stubs import admission_pb2_grpc, policy_pb2
from summary import as_json, summarize, table
from upstream import Behaviour, Upstream
from windows import MODELS, make_limiter
from workloads import CLASS_WEIGHTS, WORKLOADS, Call, Tenant, Workload

FAST = {"latency_min": 0.001, "latency_max": 0.002}
SMALL = Workload(
    "small",
    {"requests": 50.0, "tokens": 5000.0},
    (
        Tenant("a", "p1", 3, lambda _: Call(10, 5, None, 10), 15),
        Tenant("b", "p2", 3, lambda _: Call(10, 5, None, 10), 15),
    ),
)


class FakeGate(admission_pb2_grpc.AdmissionServiceServicer):
    """Gives every request the next slot of a steady rate and remembers what it was told."""

    def __init__(self, rate: float) -> None:
        self._gap = 1 / rate
        self._next = 0.0
        self.places: dict[tuple[str, int], float] = {}
        self.requests: dict[tuple[str, int], pb.AdmitRequest] = {}
        self.granted: set[tuple[str, int]] = set()
        self.settled: dict[tuple[str, int], pb.Settle] = {}
        self.withdrawn: set[tuple[str, int]] = set()
        self.early = 0
        self.reject = False

    async def Admit(self, request: pb.AdmitRequest, context: object) -> pb.AdmitResponse:
        answer = pb.AdmitResponse(request_id=request.request_id, attempt=request.attempt)
        if self.reject:
            answer.reject.reason = pb.REJECT_REASON_COST_EXCEEDS_CAP
            answer.reject.message = "too large"
            return answer
        key = (request.request_id, request.attempt)
        now = time.monotonic()
        if key not in self.places:
            self._next = max(self._next, now) + self._gap
            self.places[key] = self._next
            self.requests[key] = pb.AdmitRequest.FromString(request.SerializeToString())
        else:
            assert self.requests[key] == request  # the same question, word for word
            self.early += now < self.places[key] - 0.002
        wait = self.places[key] - now
        if wait > 0:
            answer.defer.retry_delay.FromMilliseconds(int(wait * 1000) + 1)
        else:
            assert key not in self.granted
            self.granted.add(key)
            answer.grant.debited.update(request.cost)
        return answer

    async def Release(self, request: pb.ReleaseRequest, context: object) -> pb.ReleaseResponse:
        key = (request.request_id, request.attempt)
        if request.WhichOneof("action") == "withdraw":
            assert key in self.places and key not in self.granted
            self.withdrawn.add(key)
            return pb.ReleaseResponse(result=pb.RELEASE_RESULT_WITHDRAWN)
        assert key in self.granted and key not in self.settled
        self.settled[key] = request.settle
        return pb.ReleaseResponse(result=pb.RELEASE_RESULT_SETTLED)


def gate_run(
    gate: FakeGate,
    upstream: Upstream,
    workload: Workload,
    seconds: float,
    asking: Asking = Asking(),
) -> list[Record]:
    async def run() -> list[Record]:
        server = grpc.aio.server()
        admission_pb2_grpc.add_AdmissionServiceServicer_to_server(gate, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        base = await upstream.start()
        try:
            address = f"127.0.0.1:{port}"
            async with grpc.aio.insecure_channel(address) as channel, http_session() as session:
                arm = GateArm(Http(base, session), channel, "mock", workload, "run", asking)
                return (await drive(arm, workload, seconds, 1)).records
        finally:
            await upstream.stop()
            await server.stop(None)

    return asyncio.run(run())


def test_gate_arm_keeps_its_id_obeys_defer_and_settles_with_usage() -> None:
    gate = FakeGate(rate=40)
    upstream = Upstream(make_limiter("sliding", SMALL.caps), Behaviour(**FAST))
    start = time.monotonic()
    records = gate_run(gate, upstream, SMALL, 1.5)
    done = [r for r in records if r.ok]
    assert len(done) > 20
    assert upstream.answers.keys() == {200}
    assert gate.early == 0
    assert all(r.admits == 2 and r.grants == 1 and not r.error for r in done)
    assert all(r.asked <= r.granted <= r.sends[0].start <= r.sends[0].end for r in done)
    assert all(dict(q.cost) == {"requests": 1, "tokens": 10} for q in gate.requests.values())
    settled = list(gate.settled.values())
    assert len(settled) >= len(done)
    assert all(s.outcome == pb.CALL_OUTCOME_OK for s in settled)
    assert all(dict(s.actual) == {"requests": 1, "tokens": 15} for s in settled)
    summary = summarize(records, SMALL, start, start + 1.5)
    assert summary.admits_per_grant == pytest.approx(2)
    assert summary.share_429 == 0


def test_gate_arm_reports_429_and_asks_again_as_the_next_attempt() -> None:
    gate = FakeGate(rate=1000)
    upstream = Upstream(make_limiter("fixed", {"requests": 10.0}), Behaviour(**FAST))
    gate_run(gate, upstream, SMALL, 1.3)
    limited = {k: s for k, s in gate.settled.items() if s.outcome == pb.CALL_OUTCOME_RATE_LIMITED}
    assert limited
    assert all(0 < s.retry_after.ToMilliseconds() <= 1000 for s in limited.values())
    assert all(not s.actual for s in limited.values())
    assert any(attempt > 1 for _, attempt in gate.granted)


def test_the_papers_rule_keeps_the_charge_of_a_429_and_waits_for_the_hint() -> None:
    gate = FakeGate(rate=1000)
    upstream = Upstream(make_limiter("fixed", {"requests": 10.0}), Behaviour(**FAST))
    records = gate_run(gate, upstream, SMALL, 2.3, Asking(tells_429=False))
    assert all(s.outcome == pb.CALL_OUTCOME_OK for s in gate.settled.values())
    again = [r for r in records if r.ok and len(r.sends) > 1]
    assert again
    for record in again:
        assert record.grants == len(record.sends)
        assert record.deferred_s > 0.005 and record.backoff_s == 0


def test_a_caller_without_a_ticket_comes_back_as_somebody_else() -> None:
    gate = FakeGate(rate=40)
    upstream = Upstream(make_limiter("sliding", SMALL.caps), Behaviour(**FAST))
    gate_run(gate, upstream, SMALL, 1.0, Asking(keeps_ticket=False))
    asked_again = [key for key in gate.places if key in gate.withdrawn]
    assert asked_again and not gate.withdrawn & gate.granted
    assert all(attempt == 1 for _, attempt in gate.places)


def test_usage_may_be_kept_back_and_holds_and_floors_are_told() -> None:
    gate = FakeGate(rate=1000)
    upstream = Upstream(make_limiter("sliding", SMALL.caps), Behaviour(**FAST))
    asking = Asking(max_hold=0.25, timer_floor=1.0, tells_usage=False)
    gate_run(gate, upstream, SMALL, 0.5, asking)
    assert gate.settled and all(not settle.actual for settle in gate.settled.values())
    for request in gate.requests.values():
        assert request.max_hold.ToMilliseconds() == 250
        assert request.timer_floor.ToMilliseconds() == 1000


def test_what_the_headers_say_goes_back_when_the_arm_says_so() -> None:
    gate = FakeGate(rate=1000)
    upstream = Upstream(make_limiter("fixed", {"requests": 10.0}), Behaviour(**FAST))
    gate_run(gate, upstream, SMALL, 1.2, Asking(tells_limits=True))
    assert {s.outcome for s in gate.settled.values()} == {
        pb.CALL_OUTCOME_OK,
        pb.CALL_OUTCOME_RATE_LIMITED,
    }
    told = [s.rate_limits["requests"] for s in gate.settled.values()]
    assert {limit.remaining for limit in told} == set(range(10))
    assert all(0 < limit.reset.ToMilliseconds() <= 1000 for limit in told)
    silent = FakeGate(rate=1000)
    gate_run(silent, Upstream(make_limiter("fixed", SMALL.caps), Behaviour(**FAST)), SMALL, 0.3)
    assert silent.settled and not any(s.rate_limits for s in silent.settled.values())


def test_gate_arm_sends_nothing_after_a_reject() -> None:
    gate = FakeGate(rate=1000)
    gate.reject = True
    upstream = Upstream(make_limiter("fixed", {"requests": 10.0}), Behaviour(**FAST))
    records = gate_run(gate, upstream, SMALL, 0.5)
    assert records and all(not r.sends for r in records)
    assert upstream.answers == {}
    assert {r.error for r in records if r.admits} == {"too large"}


def test_naive_arm_retries_429_until_it_succeeds() -> None:
    upstream = Upstream(make_limiter("fixed", {"requests": 5.0}), Behaviour(**FAST))

    async def run() -> list[Record]:
        base = await upstream.start()
        try:
            async with http_session() as session:
                arm = NaiveArm(Http(base, session), 1)
                return (await drive(arm, SMALL, 2.5, 1)).records
        finally:
            await upstream.stop()

    records = asyncio.run(run())
    retried = [r for r in records if r.ok and len(r.sends) > 1]
    assert retried
    for record in retried:
        assert all(send.status == 429 for send in record.sends[:-1])
        gaps = [b.start - a.end for a, b in zip(record.sends, record.sends[1:])]
        assert all(gap >= 0.37 for gap in gaps)  # 0.5 s less a quarter of jitter


def test_a_drain_is_as_many_calls_as_the_caps_take() -> None:
    assert drain_calls(WORKLOADS["cross-priority"], 10.0) == 11  # 616 calls at 60/s
    assert drain_calls(WORKLOADS["token-bound"], 10.0) == 5  # 280 calls of 400 tokens at 12 000/s


def test_summary_of_known_records() -> None:
    """Ten seconds at exactly the ideal rates, one 429 in each eleventh call of a1."""
    workload = WORKLOADS["cross-priority"]
    records = []
    for tenant, rate in {"a1": 15, "b1": 15, "a2": 9, "b2": 9, "a3": 6, "b3": 6}.items():
        for i in range(rate * 10):
            at = 100 + (i + 0.5) / rate
            record = Record(tenant, f"p{tenant[1]}", at - 0.3, at - 0.1, admits=2, grants=1)
            record.sends = [Send(at - 0.1, at, 200)]
            if tenant == "a1" and i % 10 == 0:
                record.sends.insert(0, Send(at - 0.2, at - 0.15, 429))
            records.append(record)
    summary = summarize(records, workload, 100, 110)
    assert summary.ok_per_second == pytest.approx({"p1": 30, "p2": 18, "p3": 12})
    assert summary.cap_used == {"requests": pytest.approx(1)}
    assert summary.achievement_jain == pytest.approx(1)
    assert (summary.r_min, summary.r_max) == pytest.approx((1, 1))
    assert summary.share_429 == pytest.approx(14 / 614)  # the first ended before
    assert summary.p1_http_p95_ms == pytest.approx(110, abs=91)
    assert summary.p1_first_ask_p95_ms == pytest.approx(300)
    assert summary.admits_per_grant == pytest.approx(2)
    assert as_json(summarize([], workload, 0, 1))["admits_per_grant"] is None
    assert "achievement-Jain" in table({"one": summary, "two": summary})


def test_policy_file_is_a_policy_of_the_contract() -> None:
    for workload in WORKLOADS.values():
        for model in MODELS:
            policy = yaml.safe_load(policy_text(workload, model, Rule("buckets")))
            parsed = json_format.ParseDict(policy, policy_pb2.PolicyFile()).targets[0]
            limits = {d.name: d.limit / d.window.ToTimedelta().total_seconds()
                      for d in parsed.dimensions}
            assert limits == workload.caps
            assert {c.name: c.weight for c in parsed.classes} == CLASS_WEIGHTS
            assert parsed.discipline == policy_pb2.DISCIPLINE_BUCKETS
    learnt = yaml.safe_load(policy_text(SMALL, "fixed", Rule(learns_phase=True)))
    for dimension in json_format.ParseDict(learnt, policy_pb2.PolicyFile()).targets[0].dimensions:
        assert dimension.window_model == policy_pb2.WINDOW_MODEL_FIXED_LEARNT
