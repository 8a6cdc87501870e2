"""Random histories: policies of 1 to 4 dimensions and classes, several tenants, and callers that mostly behave."""

from __future__ import annotations

import random
from typing import Any

from subjects import History, Model, Step

NAMES = ["requests", "tokens", "input_tokens", "dollars"]
CLASSES = ["p1", "p2", "p3", "p4"]
TENANTS = ["a", "b", "c", "d:x"]


def dimension(rng: random.Random, name: str) -> dict[str, Any]:
    model = rng.choice(["continuous", "fixed", "sliding", "fixed_learnt"])
    window_s = rng.choice([1.0, 1.0, 10.0, 60.0])
    limit = float({"requests": rng.choice([3, 5, 8, 20]), "tokens": rng.choice([1000, 1e5]), "dollars": 2.5}.get(name, 777))
    rate, burst = {"continuous": (0.995, 0.9), "fixed": (1.0, 0.2), "sliding": (1.0, 0.2), "fixed_learnt": (1.0, 0.2)}[model]
    if rng.random() < 0.4:
        rate, burst = 1.0, 1.0
    phase_us = rng.randrange(int(window_s * 1e6)) if model == "fixed" and rng.random() < 0.5 else 0
    return {"name": name, "limit": limit, "window_us": int(window_s * 1e6), "model": model, "phase_us": phase_us,
            "rate_fraction": rate, "burst_fraction": burst}


def tenants(rng: random.Random, dims: list[dict[str, Any]], caps: bool) -> dict[str, Any]:
    out = {}
    for name in TENANTS[:rng.randint(0, 3)]:
        listed = {"weight": rng.choice([0.5, 1.0, 2.0, 3.0]), "caps": []}
        if caps and rng.random() < 0.3:
            d = rng.choice(dims)
            listed["caps"] = [{"dimension": d["name"], "limit": d["limit"] * rng.choice([0.3, 0.6]),
                               "window_us": d["window_us"]}]
        out[name] = listed
    return out


def policy(rng: random.Random, discipline: str) -> dict[str, Any]:
    names = CLASSES[:rng.randint(1, 4)]
    classes = [{"name": n, "weight": rng.choice([0.1, 0.2, 0.3, 0.5, 1.0, 2.0])} for n in names]
    if len(classes) > 1 and rng.random() < 0.3:
        classes[-1]["weight"] = 0.0
    if discipline == "queue" and rng.random() < 0.2:
        rng.choice(classes)["max_share"] = rng.choice([0.3, 0.6])
    return {"discipline": discipline, "dims": [dimension(rng, n) for n in NAMES[:rng.randint(1, 4)]], "classes": classes,
            "default_class": names[-1], "default_weight": 1.0, "listed_only": discipline == "queue" and rng.random() < 0.05,
            "max_defer_us": rng.choice([2_000_000, 300_000_000]), "lease_us": rng.choice([1_500_000, 60_000_000]),
            "retention_us": rng.choice([3_000_000, 3_600_000_000]), "places_max": rng.choice([2, 1000])}


class Author:
    """Writes a history by asking the model what came of it so far."""

    def __init__(self, seed: int, discipline: str) -> None:
        self.rng = rng = random.Random(seed)
        self.discipline = discipline
        compiled = policy(rng, self.discipline)
        self.history: History = {"seed": seed, "policy": compiled,
                                 "tenants": tenants(rng, compiled["dims"], self.discipline == "queue"), "steps": []}
        self.model = Model(self.history)
        self.now_us = 0
        self.asked: dict[str, Step] = {}    # last question of an id
        self.due_us: dict[str, int] = {}    # waiting ids
        self.leases: dict[str, dict[str, float]] = {}  # what was debited
        self.load = rng.choice([0.1, 0.3])  # typical part of a limit that one call takes
        self.exact = rng.random() < 0.3     # estimates that are right
        self.phase_us = rng.randrange(10_000_000)  # of windows that are learnt
        self.learnt_us = [d["window_us"] for d in compiled["dims"] if d["model"] == "fixed_learnt"]

    def add(self, **step: Any) -> Step:
        step = {"at_us": self.now_us, **step}
        self.history["steps"].append(step)
        answer = self.model.ask(step)
        if step["ask"] == "admit" and not step.get("check"):
            self.due_us.pop(step["id"], None)
            if answer["outcome"] == "grant":
                self.leases[step["id"]] = answer["debited"]
            elif answer["outcome"] == "defer" and self.discipline == "queue":
                self.due_us[step["id"]] = self.now_us + answer["delay_us"]
        return answer

    def move(self, us: float) -> None:
        self.now_us += int(us)

    def cost(self) -> dict[str, float]:
        rng, cost = self.rng, {}
        for d in self.history["policy"]["dims"]:
            if d["name"] == "requests":
                if rng.random() < 0.1:
                    cost["requests"] = float(rng.choice([0, 2]))
            elif rng.random() < 0.8:
                amount = d["limit"] * self.load * rng.choice([0.5, 1.0, rng.random() * 2])
                if rng.random() < 0.03:
                    amount = d["limit"] * rng.choice([0.97, 1.0, 1.1])
                cost[d["name"]] = float(f"{amount:.3g}")
        return cost

    def question(self) -> Step:
        rng = self.rng
        step: Step = {"ask": "admit", "id": f"r{len(self.asked)}", "tenant": rng.choice(TENANTS), "cost": self.cost()}
        if rng.random() < 0.9:
            step["class"] = rng.choice(self.history["policy"]["classes"])["name"]
        if rng.random() < 0.2:
            step["bound"] = True
        if rng.random() < 0.1:
            step["deadline_us"] = rng.choice([50_000, 1_000_000, 20_000_000])
        if rng.random() < 0.1:
            step["timer_floor_us"] = rng.choice([1500, 1_000_000])
        if rng.random() < 0.1:
            step["hold_us"] = rng.choice([100_000, 2_000_000])
        if rng.random() < 0.02:
            step["force"] = True
        if rng.random() < 0.01:
            step["class"] = "unheard of"
        return step

    def usage(self, debited: dict[str, float]) -> dict[str, float]:
        rng = self.rng
        if rng.random() < 0.1:
            return {}
        if self.exact:
            return dict(debited)
        return {name: float(f"{x * rng.choice([0, 0.3, 0.9, 1, 1.3, rng.random() * 2]):.4g}")
                for name, x in debited.items() if name != "requests" or rng.random() < 0.1}

    def release(self, id: str) -> None:
        rng = self.rng
        step: Step = {"ask": "release", "id": id, "attempt": self.asked[id].get("attempt", 1)}
        outcome = rng.choices(["ok", "server_error", "not_sent", "timeout", "rate_limited"], [12, 1, 1, 1, 2])[0]
        roll = rng.random()
        if roll < 0.08:
            step |= {"action": "extend", "usage": self.usage(self.leases[id]), "lease_us": rng.choice([500_000, 30_000_000])}
        elif roll < 0.12:
            step |= {"action": "withdraw"}
        else:
            step |= {"outcome": outcome, "usage": {} if outcome == "not_sent" else self.usage(self.leases[id])}
            if outcome == "rate_limited" and rng.random() < 0.7:
                step["retry_after_us"] = rng.choice([300_000, 5_000_000])
            if rng.random() < 0.5:
                step["rate_limits"] = self.rate_limits()
        if step.get("action") != "extend":
            del self.leases[id]
        self.add(**step)

    def rate_limits(self) -> dict[str, dict[str, float]]:
        """What a provider may say: mostly near what the books hold, of some dimensions, of one that the target lacks."""
        rng, state, out = self.rng, self.model.gate.state, {}
        for p, s in zip(self.model.gate.policy.dims, state.dims):
            if p.retired or rng.random() < 0.2:
                continue
            out[p.name] = told = {}
            if rng.random() < 0.9:
                left = rng.choice([0.0, 1.0, 0.3, 0.02]) * p.limit * rng.random() if rng.random() < 0.5 else \
                    s.window.books + rng.uniform(-0.2, 0.1) * p.limit
                told["remaining"] = float(f"{max(0.0, left):.4g}")
            if p.model == "fixed_learnt" and rng.random() < 0.95:
                step_us = rng.choices([1000, 100_000, 1_000_000], [40, 1, 4])[0]
                told["reset_us"] = -(-((self.phase_us - self.now_us) % p.window_us) // step_us) * step_us
            elif rng.random() < 0.5:
                told["reset_us"] = rng.randrange(p.window_us)
        if rng.random() < 0.1:
            out["unheard of"] = {"remaining": 0.0}
        return out

    def small_calls(self, count: int) -> None:
        """A few that are answered soon, one by one: so a phase becomes known."""
        rng, window_us = self.rng, self.rng.choice(self.learnt_us)
        for _ in range(count):
            step = self.question() | {"cost": {d["name"]: 0.01 * d["limit"] for d in self.history["policy"]["dims"]}}
            step.pop("deadline_us", None)
            self.asked[step["id"]] = step
            self.add(**step)
            self.move(rng.choice([0, 1000, 0.1 * window_us * rng.random()]))
            if step["id"] in self.leases:
                used = self.leases.pop(step["id"])
                self.add(ask="release", id=step["id"], outcome="ok", usage=dict(used), rate_limits=self.rate_limits())
            self.move(rng.choice([0, 1, 1]) * 0.5 * window_us * rng.random())

    def configure(self) -> None:
        rng, compiled = self.rng, self.history["policy"]
        changed = {**compiled, "dims": [dict(d) for d in compiled["dims"]], "classes": [dict(c) for c in compiled["classes"]]}
        who = self.history["tenants"]
        if rng.random() < 0.5:
            d = rng.choice(changed["dims"])
            d["limit"] *= rng.choice([0.5, 2.0, 0.0 if rng.random() < 0.1 else 1.5])
        elif rng.random() < 0.5:
            rng.choice(changed["classes"])["weight"] = rng.choice([0.1, 0.4, 3.0])
        else:
            who = {name: {**t, "weight": rng.choice([0.5, 1.0, 4.0])} for name, t in who.items()}
        self.add(ask="configure", compiled=changed, tenants=who)

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        if self.learnt_us and rng.random() < 0.1:
            self.small_calls(rng.randint(2, 5))
        elif roll < 0.40:
            step = self.question()
            if rng.random() < 0.06:
                step |= {"check": True, "id": "check"}
            else:
                self.asked[step["id"]] = step
            self.add(**step)
        elif roll < 0.62 and self.due_us:  # somebody comes back, mostly when told, mostly the next one
            id = min(self.due_us, key=self.due_us.get) if rng.random() < 0.7 else rng.choice(list(self.due_us))
            late_us = rng.choice([0, 0, rng.randrange(60_000), rng.randrange(60_000), 400_000, -2])
            if late_us != -2:
                self.move(max(0, self.due_us[id] + late_us - self.now_us))
            self.add(**self.asked[id])
        elif roll < 0.80 and self.leases:
            if rng.random() < 0.5:
                self.move(rng.randrange(300_000))
            self.release(rng.choice(list(self.leases)))
        elif roll < 0.90:
            self.move(rng.choice([0, 1, 20_000, rng.randrange(1_000_000), rng.randrange(1_000_000), 5_000_000]))
        elif roll < 0.93 and self.asked:  # the same again, or the next attempt
            id = rng.choice(list(self.asked))
            step = dict(self.asked[id])
            if rng.random() < 0.5:
                step["attempt"] = step.get("attempt", 1) + 1
            elif rng.random() < 0.2:
                step["cost"] = self.cost()
            if rng.random() < 0.2:
                step["check"] = True
            else:
                self.asked[id] = step
            self.add(**step)
        elif roll < 0.95 and self.due_us:
            self.add(ask="release", id=rng.choice(list(self.due_us)), action="withdraw")
        elif roll < 0.96 and self.asked:
            self.add(ask="release", id=rng.choice([*self.asked, "nobody"]), outcome="ok", usage={})
        elif roll < 0.975:
            self.configure()
        elif roll < 0.98:
            self.now_us = max(0, self.now_us - 700_000)  # the clock steps back

    def write(self, steps: int) -> History:
        if self.learnt_us and self.rng.random() < 0.7:
            self.small_calls(16)
            steps += 32
        while len(self.history["steps"]) < steps:
            self.step()
        return self.history
