"""What the worker on Temporal notes about a call that visits twice; the server is in test_cell.py."""

import asyncio
import dataclasses
import datetime
import time

from temporalio.testing import ActivityEnvironment

import arms
from records import Record, Send
from stubs import admission_pb2 as pb
from temporal_cell import Desk
from temporal_workflow import Told, Visit
from workloads import WORKLOADS, Call, Tenant


class TwoVisits(arms.GateArm):
    """Defers each call once, then sends it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request_of(self, tenant: Tenant, call: Call, request_id: str) -> pb.AdmitRequest:
        return pb.AdmitRequest(request_id=request_id, attempt=1)

    async def visit(self, request: pb.AdmitRequest, call: Call, record: Record) -> float | None:
        self.asked.append(request.request_id)
        if self.asked.count(request.request_id) == 1:
            return 0.25
        now = time.monotonic()
        record.sends.append(Send(now, now + 0.1, 200))
        return None


def visit(desk: Desk, visit: Visit, scheduled: float) -> Told:
    environment = ActivityEnvironment()
    at = datetime.datetime.fromtimestamp(scheduled, datetime.timezone.utc)
    environment.info = dataclasses.replace(environment.info, current_attempt_scheduled_time=at)
    return asyncio.run(environment.run(desk.visit, visit))


def test_two_visits_are_one_call_and_the_sleep_between_them_is_deferral() -> None:
    arm = TwoVisits()
    desk = Desk(WORKLOADS["cross-priority"], arm, "run", 1)
    now = time.time()
    assert visit(desk, Visit(0, 1, 4), now) == Told(0.25)
    assert visit(desk, Visit(0, 1, 4), time.time() + 0.25) == Told(None)
    (record,) = desk.records
    assert (record.tenant, record.worker, record.ok) == ("a1", 0, True)
    assert 0.24 < record.deferred_s < 0.3
    assert abs(record.asked - (now - time.time() + time.monotonic())) < 0.05
    assert arm.asked == ["run/0/1", "run/0/1"]
    # The next call tells how long the history was before it: what the first one cost.
    assert visit(desk, Visit(0, 2, 27), time.time()) == Told(0.25)
    assert record.events == 23 and len(desk.records) == 2
    assert arm.asked[-1] == "run/0/2"
    # Another workflow is another caller.
    assert visit(desk, Visit(9, 1, 4), time.time()) == Told(0.25)
    assert desk.records[-1].tenant == "a2"
