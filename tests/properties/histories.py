"""Any history: a Hypothesis state machine of callers that return or not, settle and lie, of operators and of clocks."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis.strategies as st
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from invariants import INVARIANTS, Violation
from ledger import Ledger
from store import START_US, Answer, Snapshot, Store, Subject

NAMES = ("requests", "tokens", "dollars")
CLASSES = ("p1", "p2", "p3")
TENANTS = ("a", "b", "c")
SETTLED = ("settled", "withdrawn")


@dataclasses.dataclass
class Step:
    entry: str
    args: dict[str, Any]
    answer: Answer
    before: Snapshot
    after: Snapshot
    twin_answer: Answer | None = None
    repeats: Answer | None = None  # the first answer to the same question
    held: dict[str, float] = dataclasses.field(default_factory=dict)  # charge of the lease before a release
    available: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)

    @property
    def granted(self) -> bool:
        return (
            self.entry == "admit"
            and self.answer["outcome"] == "grant"
            and not self.answer.get("repeated")
            and not self.args.get("check")
        )


class Run:
    """One history on one target, or on two that must answer alike."""

    def __init__(
        self, store: Store, twin: Store | None, policy: Answer, tenants: Answer, names: frozenset[str]
    ) -> None:
        self.subject = Subject(store, policy, tenants)
        self.twin = Subject(twin, policy, tenants) if twin else None
        self.policy, self.tenants = policy, tenants
        self.ledger = Ledger(policy)
        self.names = names
        self.last = self.subject.snapshot()

    def held(self, id: str) -> dict[str, float]:
        grant = next((g for g in reversed(self.ledger.grants) if g.id == id), None)
        return grant.debited if grant else {}

    def ask(self, entry: str, args: dict[str, Any], repeats: Answer | None = None) -> Answer:
        answer = self.subject.call(entry, dict(args))
        step = Step(entry, args, answer, self.last, self.subject.snapshot(), repeats=repeats)
        note(f"{(self.subject.now_us - START_US) / 1e6:.6f} s {entry} {args} -> {answer}")
        if self.twin:
            self.twin.now_us = self.subject.now_us
            step.twin_answer = self.twin.call(entry, dict(args))
        self._account(step)
        self.check(step)
        return answer

    def _account(self, step: Step) -> None:
        self.last = step.after
        if step.after.state is None:
            return
        if step.after.state["clock_us"] == self.subject.now_us:
            self.ledger.see_clock(self.subject.now_us)
        self.ledger.now_us = step.after.state["now_us"]
        if step.granted:
            for grant in self.ledger.grants:  # a next attempt: the former one stays charged
                grant.open = grant.open and grant.id != step.args["id"]
            self.ledger.grant(
                step.args["id"], step.args.get("attempt", 1), step.after.state["now_us"], step.answer["debited"]
            )
        if step.entry == "release" and step.answer["result"] in (*SETTLED, "extended"):
            grant = self.ledger.find(step.args["id"], step.args["attempt"])
            if grant is not None and grant.open:
                before = step.before.calls[grant.id]["dims"]
                step.held = {name: before[d]["charge"] for d, name in enumerate(self.ledger.dims)}
                for name, back in step.answer.get("refunded", {}).items():
                    grant.charge[name] = grant.charge.get(name, 0.0) - back
                if step.answer["result"] == "extended":
                    for name, used in step.args.get("usage", {}).items():
                        grant.debited[name] = max(grant.debited.get(name, 0.0), used)
                grant.open = step.answer["result"] == "extended"
        for grant in self.ledger.grants:
            call = step.after.calls.get(grant.id)
            if grant.open and (call is None or call["state"] == "x" or call["attempt"] != grant.attempt):
                grant.open = False
            elif grant.open and step.entry == "admit" and step.args["id"] == grant.id and call["state"] != "l":
                grant.open = False

    def check(self, step: Step) -> None:
        for name in self.names:
            try:
                INVARIANTS[name](self, step)
            except AssertionError as failure:
                raise Violation(name, str(failure)) from None

    def configure(self, policy: Answer, tenants: Answer) -> None:
        before = {d["name"]: d["available"] for d in self.subject.inspect()["dims"]}
        raised = {d["name"]: d["limit"] - self.ledger.dims[d["name"]]["limit"] for d in policy["dims"]}
        subjects = [self.subject, *([self.twin] if self.twin else [])]
        for subject in subjects:
            subject.now_us = self.subject.now_us
            subject.configure(policy, tenants)
        note(f"{(self.subject.now_us - START_US) / 1e6:.6f} s configure {policy} {tenants}")
        after = {d["name"]: d["available"] for d in self.subject.inspect()["dims"]}
        state, at_us = self.last.state, None
        if state:
            at_us = state["now_us"] + max(0, self.subject.now_us - state["clock_us"])
        self.policy, self.tenants = policy, tenants
        self.ledger.configured(policy, at_us)
        step = Step("configure", {"limits": raised}, {"result": "ok"}, self.last, self.subject.snapshot())
        step.available = {name: (before[name], after[name]) for name in after}
        self.last = step.after
        self.check(step)


@st.composite
def dimensions(draw: st.DrawFn, name: str, models: tuple[str, ...]) -> Answer:
    model = draw(st.sampled_from(models))
    window_s = draw(st.sampled_from([1, 10, 60]))
    limit = draw(st.sampled_from({"requests": [3, 5, 20], "tokens": [1000, 100_000], "dollars": [2.5]}[name]))
    rate, burst = draw(st.sampled_from([(1.0, 1.0), {"continuous": (0.995, 0.9)}.get(model, (1.0, 0.2))]))
    phase_us = draw(st.sampled_from([0, 400_000])) if model == "fixed" else 0
    return {
        "name": name,
        "limit": float(limit),
        "window_us": window_s * 1_000_000,
        "model": model,
        "phase_us": phase_us,
        "rate_fraction": rate,
        "burst_fraction": burst,
    }


@st.composite
def policies(draw: st.DrawFn) -> Answer:
    names = NAMES[: draw(st.integers(1, 3))]
    models = draw(st.sampled_from([("continuous",), ("fixed",), ("sliding",), ("continuous", "fixed", "sliding")]))
    classes = CLASSES[: draw(st.integers(1, 3))]
    weights = [draw(st.sampled_from([0.2, 0.5, 1.0, 3.0])) for _ in classes]
    return {
        "discipline": "queue",
        "dims": [draw(dimensions(name, models)) for name in names],
        "classes": [{"name": name, "weight": w} for name, w in zip(classes, weights, strict=True)],
        "default_class": classes[-1],
        "default_weight": 1.0,
        "listed_only": False,
        "max_defer_us": draw(st.sampled_from([2_000_000, 300_000_000])),
        "lease_us": draw(st.sampled_from([600_000_000, 60_000_000, 1_500_000])),
        "retention_us": draw(st.sampled_from([3_000_000, 3_600_000_000])),
        "places_max": 1000,
    }


weights = st.sampled_from([0.5, 1.0, 2.0, 4.0])
shares = st.sampled_from([0.02, 0.1, 0.3, 0.6, 0.9, 1.0])
usages = st.sampled_from([0.3, None, 0.0, 0.3, 1.0, 1.5])
outcomes = st.sampled_from(["ok", "ok", "ok", "ok", "server_error", "not_sent", "unknown", "rate_limited"])
# What the provider says is left, as parts of the limits.
told_left = st.none() | st.tuples(*[st.sampled_from([0.0, 0.1, 0.5, 1.0])] * 3)
late_us = st.sampled_from([0, 0, 0, 1, 30_000, 150_000, 800_000, 4_000_000])


class Histories(RuleBasedStateMachine):
    """Set by the test: `store`, `twin` (None: no twin), `names` of the invariants that are checked."""

    store: Store
    twin: Store | None = None
    names: frozenset[str] = frozenset(INVARIANTS)

    def __init__(self) -> None:
        super().__init__()
        self.run: Run | None = None
        self.asked: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Answer] = {}
        self.back_us: dict[str, int] = {}
        self.leases: dict[str, int] = {}  # id → attempt
        self.ended: dict[str, tuple[dict[str, Any], Answer]] = {}

    @initialize(policy=policies(), listed=st.dictionaries(st.sampled_from(TENANTS), weights, max_size=2))
    def begin(self, policy: Answer, listed: dict[str, float]) -> None:
        note(f"policy {policy} {listed}")
        tenants = {name: {"weight": weight, "caps": []} for name, weight in listed.items()}
        self.run = Run(self.store, self.twin, policy, tenants, self.names)

    def teardown(self) -> None:
        if self.run:
            self.run.subject.drop()
            if self.run.twin:
                self.run.twin.drop()

    def pick(self, of: dict[str, Any], index: int) -> str:
        return list(of)[index % len(of)]

    def move(self, us: int) -> None:
        self.run.subject.now_us += us

    def admit(self, args: dict[str, Any], repeats: Answer | None = None) -> None:
        id = args["id"]
        answer = self.run.ask("admit", args, repeats)
        if args.get("check"):
            return
        self.asked[id], self.answers[id] = args, answer
        self.back_us.pop(id, None)
        self.leases.pop(id, None)
        if answer["outcome"] == "grant":
            self.leases[id] = args["attempt"]
        elif answer["outcome"] == "defer":
            self.back_us[id] = self.run.subject.now_us + answer["delay_us"]

    @rule(
        tenant=st.sampled_from(TENANTS),
        klass=st.integers(0, 2),
        shares=st.tuples(shares, shares, shares),
        whole=st.booleans(),
        bound=st.booleans(),
        check=st.integers(0, 7),
    )
    def asks(self, tenant: str, klass: int, shares: tuple[float, ...], whole: bool, bound: bool, check: int) -> None:
        dims = self.run.policy["dims"]
        cost = {
            d["name"]: float(f"{d['limit'] * share:.3g}")
            for d, share in zip(dims, shares, strict=False)
            if d["name"] != "requests" and (whole or share != 0.02)
        }
        classes = self.run.policy["classes"]
        self.admit(
            {
                "id": f"r{len(self.asked)}",
                "tenant": tenant,
                "attempt": 1,
                "cost": cost,
                "bound": bound,
                "class": classes[klass % len(classes)]["name"],
                **({"check": True} if check == 7 else {}),
            }
        )

    @rule(
        tenant=st.sampled_from(TENANTS),
        klass=st.integers(0, 2),
        shares=st.tuples(shares, shares, shares),
        us=st.sampled_from([100_000, 1_000_000, 9_000_000]),
        used=usages,
        outcome=outcomes,
        left=told_left,
    )
    def calls_through(
        self,
        tenant: str,
        klass: int,
        shares: tuple[float, ...],
        us: int,
        used: float | None,
        outcome: str,
        left: tuple[float, ...] | None,
    ) -> None:
        """Asks, and when granted settles some time later, though others come in between."""
        id = f"r{len(self.asked)}"
        self.asks(tenant, klass, shares, True, True, 0)
        self.move(us)
        self.asks(tenant, klass, shares, True, True, 0)
        if id in self.leases:
            self.releases(list(self.leases).index(id), used, outcome, 0, left)

    @precondition(lambda self: self.back_us)
    @rule(index=st.integers(0, 9), late=late_us, first=st.booleans())
    def comes_back(self, index: int, late: int, first: bool) -> None:
        id = min(self.back_us, key=self.back_us.__getitem__) if first else self.pick(self.back_us, index)
        self.move(max(0, self.back_us[id] + late - self.run.subject.now_us))
        self.admit(self.asked[id])

    @precondition(lambda self: self.back_us)
    @rule(index=st.integers(0, 9))
    def looks_again(self, index: int) -> None:
        """Check-only, by who waits."""
        self.run.ask("admit", {**self.asked[self.pick(self.back_us, index)], "check": True})

    @precondition(lambda self: self.leases)
    @rule(index=st.integers(0, 9), used=usages, outcome=outcomes, extend=st.integers(0, 5), left=told_left)
    def releases(
        self, index: int, used: float | None, outcome: str, extend: int, left: tuple[float, ...] | None
    ) -> None:
        id = self.pick(self.leases, index)
        held = self.answers[id].get("debited", {})
        usage = (
            {} if used is None or outcome == "not_sent" else {n: x * used for n, x in held.items() if n != "requests"}
        )
        args: dict[str, Any] = {"id": id, "attempt": self.leases[id], "usage": usage}
        if extend == 5:
            self.run.ask("release", {**args, "action": "extend", "lease_us": 2_000_000})
            return
        retry = {"retry_after_us": 300_000} if outcome == "rate_limited" else {}
        del self.leases[id]
        args |= {"action": "settle", "outcome": outcome, **retry}
        if left is not None:
            told = zip(self.run.policy["dims"], left, strict=False)
            args["rate_limits"] = {d["name"]: {"remaining": d["limit"] * part} for d, part in told}
        self.ended[id] = (args, self.run.ask("release", args))

    @precondition(lambda self: self.back_us)
    @rule(index=st.integers(0, 9))
    def withdraws(self, index: int) -> None:
        id = self.pick(self.back_us, index)
        del self.back_us[id]
        args = {"id": id, "attempt": self.asked[id]["attempt"], "action": "withdraw"}
        self.ended[id] = (args, self.run.ask("release", args))

    @rule(
        us=st.sampled_from([5_000, 1, 100_000, 1_000_000, 2_500_000, 9_000_000, 61_000_000]) | st.integers(0, 3_000_000)
    )
    def waits(self, us: int) -> None:
        self.move(us)

    @rule(us=st.sampled_from([1, 700_000, 5_000_000]))
    def clock_steps_back(self, us: int) -> None:
        self.move(-us)

    @precondition(lambda self: self.leases)
    @rule(index=st.integers(0, 9))
    def asks_for_a_lease_again(self, index: int) -> None:
        id = self.pick(self.leases, index)
        call = self.run.last.calls.get(id)
        state = self.run.last.state
        now_us = state["now_us"] + max(0, self.run.subject.now_us - state["clock_us"])
        if call and call["state"] == "l" and call["expires_us"] > now_us:
            self.run.ask("admit", self.asked[id], repeats=self.answers[id])

    @precondition(lambda self: self.back_us)
    @rule(index=st.integers(0, 9))
    def is_refused_twice(self, index: int) -> None:
        """Comes when told, and asks once more at the same instant when refused."""
        id = self.pick(self.back_us, index)
        self.move(max(0, self.back_us[id] - self.run.subject.now_us))
        self.admit(self.asked[id])
        if id in self.back_us:
            self.admit(self.asked[id], repeats=self.answers[id])

    @precondition(lambda self: self.ended)
    @rule(index=st.integers(0, 9))
    def releases_again(self, index: int) -> None:
        args, answer = self.ended[self.pick(self.ended, index)]
        call = self.run.last.calls.get(args["id"])
        if call is None or call["attempt"] == args["attempt"]:
            self.run.ask("release", args, repeats=answer)

    @precondition(lambda self: self.asked)
    @rule(index=st.integers(0, 9))
    def sends_again(self, index: int) -> None:
        """The next attempt of a call, whatever became of the one before."""
        id = self.pick(self.asked, index)
        self.admit({**self.asked[id], "attempt": self.asked[id]["attempt"] + 1})

    @rule(
        what=st.sampled_from(["cap", "tenant", "class", "library", "data"]),
        index=st.integers(0, 2),
        factor=st.sampled_from([2.0, 0.5, 10.0]),
        weight=weights,
    )
    def operator_acts(self, what: str, index: int, factor: float, weight: float) -> None:
        """A cap, or a weight, changes; the library is loaded again; or the store reads its data again."""
        policy, tenants = self.run.policy, self.run.tenants
        if what == "cap":
            dims = [dict(d) for d in policy["dims"]]
            dims[index % len(dims)]["limit"] *= factor
            self.run.configure({**policy, "dims": dims}, tenants)
        elif what == "tenant":
            self.run.configure(policy, {**tenants, TENANTS[index]: {"weight": weight, "caps": []}})
        elif what == "class":
            classes = [dict(c) for c in policy["classes"]]
            classes[index % len(classes)]["weight"] = weight
            self.run.configure({**policy, "classes": classes}, tenants)
        else:
            if what == "library":
                self.store.reload()
            else:
                self.store.restart()
            self.run.check(Step("restart", {}, {}, self.run.last, self.run.subject.snapshot()))
