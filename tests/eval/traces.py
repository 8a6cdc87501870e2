"""A synthetic trace with heavy tails, for want of a public one: 50 tenants whose agents make chains of calls.

- Tenants: 10 in p1, 16 in p2, 24 in p3; their loads fall as 1 / rank^0.8 inside a class (Zipf).
- Chains arrive in bursts: gaps between a tenant's chains are gamma-distributed with a coefficient of variation of 3.
- A chain has 10 to 20 calls, one after the other, with lognormal pauses in between (median 0.4 s, sigma 1).
- Lengths are lognormal: first prompts (median 120 tokens, sigma 1, at most 2 000) and completions (median 80, sigma 1,
  at most 1 000). A prompt also holds a quarter of what the call before it had, as contexts grow.
- Together they offer OFFERED times the token cap; callers tell the gate their prompt and twice the median completion.

Everything follows from the seed.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Mapping, Sequence

from workloads import BOTH, MEAN_LATENCY, Call, Tenant, Workload

OFFERED = 1.1  # of the token cap
CLASSES = {"p1": 10, "p2": 16, "p3": 24}  # tenants
CLASS_LOAD = {"p1": 0.4, "p2": 0.35, "p3": 0.25}  # parts of what is offered
_MEDIAN_COMPLETION = 80


@dataclasses.dataclass(frozen=True)
class Step:
    pause: float  # seconds before the call
    call: Call


@dataclasses.dataclass(frozen=True)
class Chain:
    tenant: str
    start: float  # seconds
    steps: tuple[Step, ...]

    def times(self) -> list[float]:
        """When its calls would begin without caps."""
        now, times = self.start, []
        for step in self.steps:
            now += step.pause
            times.append(now)
            now += MEAN_LATENCY
        return times


def _length(rng: random.Random, median: float, most: int) -> int:
    return max(1, min(most, round(median * rng.lognormvariate(0, 1))))


def _chain(rng: random.Random, tenant: str, start: float) -> Chain:
    steps = []
    before = 0
    for number in range(rng.randint(10, 20)):
        prompt = _length(rng, 120, 2000) + before // 4
        completion = _length(rng, _MEDIAN_COMPLETION, 1000)
        before = prompt + completion
        pause = 0.4 * rng.lognormvariate(0, 1) if number else 0.0
        steps.append(Step(pause, Call(prompt, completion, None, prompt + 2 * _MEDIAN_COMPLETION)))
    return Chain(tenant, start, tuple(steps))


@functools.cache
def _tokens_per_chain() -> float:
    rng = random.Random("lengths")
    chains = [_chain(rng, "", 0.0) for _ in range(2000)]
    return sum(s.call.actual_tokens for c in chains for s in c.steps) / len(chains)


def _chains_per_s() -> dict[tuple[str, str], float]:
    """By class and tenant."""
    whole = OFFERED * BOTH["tokens"] / _tokens_per_chain()
    out = {}
    for name, crowd in CLASSES.items():
        parts = [(rank + 1) ** -0.8 for rank in range(crowd)]
        for rank, part in enumerate(parts):
            out[name, f"t{name[1]}-{rank + 1:02}"] = whole * CLASS_LOAD[name] * part / sum(parts)
    return out


@functools.lru_cache(maxsize=4)
def chains(seed: int, seconds: float) -> tuple[Chain, ...]:
    """All that arrive in the time, in order."""
    found = []
    for (_, tenant), rate in _chains_per_s().items():
        rng = random.Random(f"{seed}/trace/{tenant}")
        shape = 1 / 3**2
        at = rng.random() * rng.gammavariate(shape, 1 / rate / shape)  # somewhere inside a gap
        while at < seconds:
            found.append(_chain(rng, tenant, at))
            at += rng.gammavariate(shape, 1 / rate / shape)
    return tuple(sorted(found, key=lambda chain: chain.start))


def offered(seed: int, begin: float, end: float) -> Mapping[str, Sequence[int]]:
    """Tokens of each call that would begin in the span without caps, by tenant."""
    found: dict[str, list[int]] = {tenant: [] for _, tenant in _chains_per_s()}
    for chain in chains(seed, end):
        for at, step in zip(chain.times(), chain.steps):
            if begin <= at < end:
                found[chain.tenant].append(step.call.actual_tokens)
    return found


def _no_draw(_: random.Random) -> Call:
    raise NotImplementedError("a trace has its own calls")


def trace(seed: int, begin: float, end: float) -> Workload:
    """The workload whose tenants demand what the trace offers between the two moments."""
    calls = offered(seed, begin, end)
    tenants = tuple(
        Tenant(
            tenant,
            name,
            0,
            _no_draw,
            sum(calls[tenant]) / max(1, len(calls[tenant])),
            offered=len(calls[tenant]) / (end - begin),
        )
        for name, tenant in _chains_per_s()
    )
    return Workload("trace", BOTH, tenants)
