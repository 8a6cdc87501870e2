"""The synthetic trace is what its description says."""

import asyncio
import math
import statistics

import pytest

from arms import Http, NaiveArm
from driver import drive_trace, http_session
from traces import CLASSES, chains, offered, trace
from upstream import Behaviour, Upstream
from windows import make_limiter
from workloads import BOTH

SECONDS = 3600.0


def test_shape() -> None:
    found = chains(1, SECONDS)
    assert all(10 <= len(chain.steps) <= 20 for chain in found)
    assert found == chains(1, SECONDS) and found != chains(2, SECONDS)
    workload = trace(1, 0.0, SECONDS)
    assert len(workload.tenants) == 50
    for name, crowd in CLASSES.items():
        assert sum(t.priority == name for t in workload.tenants) == crowd
    demand = sum(t.demand() * t.mean_tokens for t in workload.tenants) / BOTH["tokens"]
    assert 0.9 < demand < 1.25


def test_lengths_have_heavy_tails_and_arrivals_come_in_bursts() -> None:
    found = chains(1, SECONDS)
    lengths = [s.call.actual_tokens for c in found for s in c.steps]
    assert statistics.quantiles(lengths, n=100)[98] > 4 * statistics.median(lengths)
    assert max(lengths) <= 4000  # a third of a window: 2 000 + 1 000, and a quarter of the same before
    busiest = max({c.tenant for c in found}, key=lambda t: sum(c.tenant == t for c in found))
    starts = [c.start for c in found if c.tenant == busiest]
    gaps = [b - a for a, b in zip(starts, starts[1:])]
    assert statistics.stdev(gaps) / statistics.mean(gaps) > 2


def test_what_is_offered_counts_each_call_once() -> None:
    whole = offered(3, 0.0, 600.0)
    parts = [offered(3, begin, begin + 300.0) for begin in (0.0, 300.0)]
    for tenant, calls in whole.items():
        assert len(calls) == sum(len(part[tenant]) for part in parts)
    assert not math.isclose(sum(map(sum, whole.values())), 0)


@pytest.mark.parametrize("seed", [4])
def test_the_driver_follows_the_chains(seed: int) -> None:
    """Without caps and with a quick upstream every call comes about when the trace says."""
    seconds = 4.0
    upstream = Upstream(
        make_limiter("fixed", {"requests": 1e6}), Behaviour(latency_min=0.001, latency_max=0.002)
    )

    async def run() -> list[tuple[str, int]]:
        base = await upstream.start()
        try:
            async with http_session() as session:
                arm = NaiveArm(Http(base, session), 1)
                got = await drive_trace(arm, trace(seed, 0.0, seconds), seconds, seed)
                return [(r.tenant, r.tokens) for r in got.records if r.ok]
        finally:
            await upstream.stop()

    done = asyncio.run(run())
    assert len(done) > 20
    expected = {(c.tenant, s.call.actual_tokens) for c in chains(seed, seconds) for s in c.steps}
    assert set(done) <= expected
