"""Which cells there are: one arm on one workload, once."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

from arms import Asking
from servers import Rule
from traces import trace
from workloads import MAIN, WORKLOADS, Workload


@dataclasses.dataclass(frozen=True)
class Arm:
    """A gate's arm: what the policy says, and how callers ask. Others have no gate."""

    rule: Rule | None = None
    asking: Asking = dataclasses.field(default_factory=Asking)


FLOOR = 1.0  # seconds, of Temporal's durable timer unless configured otherwise
HOLD = 0.25
DRIVER_ARMS: Mapping[str, Arm] = {
    "naive": Arm(),
    "litellm": Arm(),
    "bp": Arm(Rule("buckets", as_written=True), Asking(tells_429=False)),
    "fairgate": Arm(Rule()),
    "fairgate-hold": Arm(Rule(), Asking(max_hold=HOLD)),
    "fairgate-learnt": Arm(Rule(learns_phase=True), Asking(tells_limits=True)),
    "fairgate-no-priority": Arm(Rule(equal_classes=True)),
    "fairgate-no-reconciliation": Arm(Rule(), Asking(tells_usage=False)),
    "fairgate-no-tickets": Arm(Rule(), Asking(keeps_ticket=False)),
}
TEMPORAL_ARMS: Mapping[str, Arm] = {
    "naive": Arm(),
    "tn": Arm(),
    "litellm": Arm(),
    "bp": Arm(Rule("buckets", as_written=True), Asking(tells_429=False)),
    "fairgate": Arm(Rule()),
    "fairgate-floor": Arm(Rule(), Asking(timer_floor=FLOOR)),
    "fairgate-hold": Arm(Rule(), Asking(max_hold=HOLD)),
    "fairgate-floor-hold": Arm(Rule(), Asking(max_hold=HOLD, timer_floor=FLOOR)),
}
ARMS = {"driver": DRIVER_ARMS, "driver-third": DRIVER_ARMS, "temporal": TEMPORAL_ARMS}
# Part of the paper's caps. Two cores do not carry an engine at all of it, nor LiteLLM's proxy.
SCALES = {"driver": 1.0, "driver-third": 1 / 3, "temporal": 1 / 3}
PLAIN = ("naive", "bp", "fairgate", "fairgate-hold")
FIXED = ("fairgate-learnt",)  # only fixed windows have a phase
ABLATIONS = ("fairgate-no-priority", "fairgate-no-reconciliation", "fairgate-no-tickets")
TRACE = "trace"
LITELLM_WINDOW = 60.0  # seconds, of its limits


@dataclasses.dataclass(frozen=True)
class Cell:
    stack: str  # of SCALES
    workload: str
    arm: str
    repeat: int = 1  # also the seed
    window: str = "fixed"  # of the upstream
    warm_up: float = 5.0  # seconds
    seconds: float = 20.0
    drain: float = 10.0  # seconds of the caps; 0: none

    @property
    def name(self) -> str:
        return ".".join((self.stack, self.workload, self.window, self.arm, str(self.repeat)))

    @property
    def load(self) -> Workload:
        """The workload at this stack's scale."""
        if self.workload == TRACE:
            return trace(self.repeat, self.warm_up, self.warm_up + self.seconds)
        scale = SCALES[self.stack]
        whole = WORKLOADS[self.workload]
        return whole if scale == 1 else whole.scaled(scale)

    @property
    def how(self) -> Arm:
        return ARMS[self.stack][self.arm]

    def takes(self) -> float:
        """About how many seconds."""
        start = 15.0 if "litellm" in self.arm else 3.0
        start += 6.0 if self.stack == "temporal" else 0.0
        return start + self.warm_up + self.seconds + 1.2 * self.drain


def _cell(stack: str, workload: str, arm: str, repeat: int, window: str = "fixed") -> Cell:
    cell = Cell(stack, workload, arm, repeat, window)
    if arm == "litellm":  # two of its windows, from the beginning of the first: a drain would wait for a third
        return dataclasses.replace(cell, warm_up=0.0, seconds=2 * LITELLM_WINDOW, drain=0.0)
    if stack == "temporal":
        return dataclasses.replace(cell, warm_up=10.0, seconds=30.0, drain=0.0)
    return cell


def quick() -> list[Cell]:
    """Once over the main workloads, shorter and without a drain. LiteLLM's windows are too long for it."""
    return [
        dataclasses.replace(_cell("driver", *names, 1), warm_up=3.0, seconds=15.0, drain=0.0)
        for names in itertools.product(MAIN, PLAIN)
    ]


def _full(repeats: int) -> Iterator[Cell]:
    """Repeat by repeat, the main workloads first: whatever is done by then is a whole."""
    others = tuple(name for name in WORKLOADS if name not in MAIN)
    for workloads in (MAIN, others):
        if workloads == others:
            for arm in ("naive", "bp", "fairgate"):
                yield Cell("driver", TRACE, arm, 1, "fixed", 30.0, 600.0, 0.0)
        for repeat in range(1, repeats + 1):
            for workload, arm in itertools.product(workloads, (*PLAIN, *FIXED, "litellm")):
                yield _cell("driver", workload, arm, repeat)
            arms = TEMPORAL_ARMS if workloads == MAIN else (*PLAIN, "tn", "litellm")
            for workload, arm in itertools.product(workloads, arms):
                yield _cell("temporal", workload, arm, repeat)
            if workloads == MAIN:
                for workload in MAIN:
                    yield _cell("driver-third", workload, "litellm", repeat)
            if workloads == MAIN and repeat <= 3:
                for workload, arm in itertools.product(MAIN, ABLATIONS):
                    yield _cell("driver", workload, arm, repeat)
                for window, workload in itertools.product(("sliding", "continuous"), MAIN):
                    for arm in PLAIN:
                        yield _cell("driver", workload, arm, repeat, window)


def full(repeats: int) -> list[Cell]:
    return list(_full(repeats))
