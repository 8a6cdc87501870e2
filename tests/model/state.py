"""What a target remembers, as plain objects. Nothing here is a running sum: what can be counted anew is a property."""

from __future__ import annotations

import dataclasses
from typing import Any

import constants as k
from policy import Dimension, Policy
from learnt import LearntWindow
from windows import MODELS as PLAIN, Clock

MODELS = {**PLAIN, "fixed_learnt": LearntWindow}
Vector = list[float]  # one number per dimension of the policy


@dataclasses.dataclass(eq=False)
class Call:
    """One request_id: first waiting, then a lease, then a remembered id. sigma: expected dominant share in seconds.

    `queued`: it holds a place in its flow; not so when it is `blocked` by a ceiling, or `lost` after a sweep.
    `before`: service enqueued in the flow before it (its place is that less what has left since).
    """

    id: str
    tenant: str
    cls: int
    raw: Vector
    bound: bool
    attempt: int
    first_us: int
    state: str = "waiting"  # or "lease", "settled", "expired"
    admits: int = 0
    debit: Vector = dataclasses.field(default_factory=list)
    expected: Vector = dataclasses.field(default_factory=list)
    sigma: float = 0.0
    before: float = 0.0
    queued: bool = False
    lost: bool = False
    parked: bool = False
    big: bool = False
    blocked: list[tuple[Any, float, float]] | None = None  # (ceiling, its enqueued before, need)
    told_us: int | None = None
    due_us: int = 0
    projected_us: int | None = None
    charged: Vector = dataclasses.field(default_factory=list)
    marks: list[int] = dataclasses.field(default_factory=list)
    serial: int = 0
    variance: Vector = dataclasses.field(default_factory=list)
    by_buckets: bool = False
    granted_us: int = 0
    ends_us: int = 0  # of the lease, or of the memory of the id

    @property
    def is_due(self) -> bool:
        """Is it among those that are expected back?"""
        return self.state == "waiting" and not self.lost


@dataclasses.dataclass(eq=False)
class Flow:
    """One tenant inside one class. Tags in seconds of the cap per weight."""

    cls: int
    tenant: str
    weight: float
    finish: dict[int, float] = dataclasses.field(default_factory=dict)   # F_d
    profile: dict[int, float] = dataclasses.field(default_factory=dict)  # use of d per unit of dominant share
    actual: dict[int, float] = dataclasses.field(default_factory=dict)   # EWMA of usage, and of estimates
    asked: dict[int, float] = dataclasses.field(default_factory=dict)
    variance: dict[int, float] = dataclasses.field(default_factory=dict)
    enqueued: float = 0.0  # dominant share that ever joined the line, and that left it
    left: float = 0.0
    late_us: float = 0.0
    deviation_us: float = k.DEVIATION_FIRST_US
    grants: int = 0
    service: float = 0.0
    # "waiting", "active", "idle"; "asking" in discipline buckets; None: never stood anywhere
    standing: str | None = None
    standing_at: float = 0.0  # when it took that standing, or was last looked at
    used_us: int = 0  # its last grant
    counted: tuple[float, dict[int, float]] | None = None  # weight and profile with which it is active in W and D
    level: float | None = None  # its bucket in discipline buckets
    level_us: int = 0

    @property
    def field(self) -> bytes:
        return f"{self.cls + 1}:{self.tenant}".encode()

    @property
    def tag(self) -> float:
        """The start tag: the furthest finish tag of its dimensions."""
        return max([0.0, *self.finish.values()])

    def stand(self, standing: str, at: float) -> None:
        self.standing, self.standing_at = standing, at


@dataclasses.dataclass(eq=False)
class ClassState:
    finish: float = k.EPOCH_TAG_S        # F_k
    virtual: float = k.EPOCH_TAG_S       # v of its flows
    grants: int = 0
    service: float = 0.0
    ceiling: Any = None
    shares: dict[int, float] = dataclasses.field(default_factory=dict)  # L2 of discipline buckets


class DimensionState:
    def __init__(self, p: Dimension) -> None:
        self.window = MODELS[p.model](p)
        self.limit = p.limit
        self.actual, self.asked = 1.0, 1.0  # the target's prior of actual / estimate
        self.debited = self.refunded = 0.0
        self.granted: list[tuple[int, float]] = []  # (serial, expected units) of every grant


class State:
    """Created full at the first decision."""

    def __init__(self, policy: Policy, wall_us: int) -> None:
        self.clock = Clock(wall_us, wall_us)
        self.virtual = k.EPOCH_TAG_S  # V of classes
        self.share = 0.0              # last X
        self.mean_sigma: float | None = None
        self.pause_us = 0
        self.shares_at_us = wall_us   # when the classes' shares of discipline buckets were last refilled
        self.serial = self.grants = self.admits = self.expired = 0
        self.dims: list[DimensionState] = []
        self.classes: list[ClassState] = []
        self.flows: dict[tuple[int, str], Flow] = {}
        self.calls: dict[str, Call] = {}
        self.books: dict[str, dict[str, Any]] = {}  # tenant -> dimension -> Ceiling
        self.fit(policy)

    def read_clock(self, wall_us: int) -> None:
        """A clock that steps back stands still for the target, and its new reading is kept."""
        elapsed = max(0, wall_us - self.clock.wall_us)
        self.clock = Clock(wall_us, self.clock.now_us + elapsed, elapsed)

    def fit(self, policy: Policy) -> None:
        """What Configure changed: a raised cap mints nothing, a lowered one cuts."""
        for d, p in enumerate(policy.dims):
            if d == len(self.dims):
                self.dims.append(DimensionState(p))
            window, before = self.dims[d].window, self.dims[d].window.p
            window.p = p
            if before.model != p.model:
                self.dims[d].window = MODELS[p.model](p)
                self.dims[d].window.came = window.came
            elif (before.window_us, before.phase_us) != (p.window_us, p.phase_us):
                window.shape_changed()
            if self.dims[d].limit != p.limit:
                self.dims[d].limit = p.limit
                self.dims[d].window.cap_changed()
        while len(self.classes) < len(policy.classes):
            self.classes.append(ClassState())
        self.version = policy.version

    @property
    def now_us(self) -> int:
        return self.clock.now_us

    def flows_of(self, cls: int) -> list[Flow]:
        return [f for f in self.flows.values() if f.cls == cls]

    def queued(self, cls: int | None = None, flow: Flow | None = None) -> list[Call]:
        return [c for c in self.calls.values() if c.queued and cls in (None, c.cls)
                and (flow is None or (c.cls, c.tenant) == (flow.cls, flow.tenant))]

    def leases(self) -> list[Call]:
        return [c for c in self.calls.values() if c.state == "lease"]

    def waiting_cost(self, d: int) -> float:
        """Q_d: the expected cost of all that hold a place."""
        return sum(at(c.expected, d) for c in self.queued())

    def open_variance(self, d: int) -> float:
        """Noise of estimates that leases may still settle into what the dimension counts now."""
        window = self.dims[d].window
        return sum(at(c.variance, d) for c in self.leases()
                   if at(c.variance, d) > 0 and window.in_flight(c.granted_us, c.marks[d]))

    def weight_sum(self, cls: int) -> float:
        """W: weights of the class's active flows."""
        return sum(f.counted[0] for f in self.flows_of(cls) if f.counted)

    def demand(self, cls: int, d: int) -> float:
        """D_d: weighted use of a dimension per unit of dominant share."""
        return sum(f.counted[0] * f.counted[1].get(d, 0.0) for f in self.flows_of(cls) if f.counted)


def at(values: Vector, d: int) -> float:
    """A call may be older than a dimension."""
    return values[d] if d < len(values) else 0.0
