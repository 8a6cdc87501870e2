"""A target's policy as the scripts hold it (server/lua/README.md, `compiled`), with what is derived from it."""

from __future__ import annotations

import dataclasses
from typing import Any

import constants as k


@dataclasses.dataclass
class Dimension:
    """One metered resource. `limit` units per `window_us`; `cap` and `rate` in units per second; `depth` in units."""

    name: str
    limit: float
    window_us: int
    model: str
    phase_us: int
    rate_fraction: float
    burst_fraction: float
    retired: bool = False

    @property
    def window_s(self) -> float:
        return self.window_us / 1e6

    @property
    def cap(self) -> float:
        return self.limit / self.window_s

    @property
    def rate(self) -> float:
        rate = self.cap * self.rate_fraction
        return rate * k.SLOTS / (k.SLOTS + 1) if self.model in ("sliding", "fixed_learnt") else rate

    @property
    def depth(self) -> float:
        """The most that one window may hold."""
        return self.limit * (self.burst_fraction if self.model == "continuous" else self.rate_fraction)

    @property
    def hold(self) -> float:
        return k.HOLD_CONTINUOUS if self.model == "continuous" else k.HOLD_COUNTED

    @property
    def horizon_s(self) -> float:
        ahead = self.depth / self.rate if self.model == "continuous" else k.HORIZON_WINDOW_PART * self.window_s
        return min(k.HORIZON_MAX_S, ahead)


@dataclasses.dataclass
class PriorityClass:
    name: str
    weight: float  # 0: background
    max_share: float | None = None
    retired: bool = False


@dataclasses.dataclass
class TenantCap:
    dimension: str
    limit: float
    window_us: int


@dataclasses.dataclass
class Tenant:
    weight: float
    caps: list[TenantCap]


class Policy:
    """Dimensions and classes keep their index for ever: what is removed stays as retired."""

    def __init__(self, compiled: dict[str, Any], tenants: dict[str, Any], before: Policy | None) -> None:
        self.version = before.version + 1 if before else 1
        dims = [Dimension(**d) for d in compiled["dims"]]
        classes = [PriorityClass(**c) for c in compiled["classes"]]
        self.dims: list[Dimension] = keep_indexes(before.dims if before else [], dims)
        self.classes: list[PriorityClass] = keep_indexes(before.classes if before else [], classes)
        self.tenants = {name: Tenant(t["weight"], [TenantCap(**c) for c in t.get("caps", [])])
                        for name, t in tenants.items()}
        self.discipline = compiled["discipline"]
        self.default_class = compiled["default_class"]
        self.default_weight = compiled["default_weight"]
        self.listed_only = compiled["listed_only"]
        self.max_defer_us = compiled["max_defer_us"]
        self.lease_us = compiled["lease_us"]
        self.retention_us = compiled["retention_us"]
        self.places_max = compiled["places_max"]

    def dim_index(self, name: str) -> int | None:
        return next((d for d, p in enumerate(self.dims) if p.name == name and not p.retired), None)

    def class_index(self, name: str) -> int | None:
        return next((c for c, p in enumerate(self.classes) if p.name == name and not p.retired), None)

    def tenant_weight(self, tenant: str) -> float:
        return self.tenants[tenant].weight if tenant in self.tenants else self.default_weight

    def tenant_caps(self, tenant: str) -> list[TenantCap]:
        return self.tenants[tenant].caps if tenant in self.tenants else []


def keep_indexes(old: list[Any], new: list[Any]) -> list[Any]:
    by_name = {x.name: x for x in new}
    kept = [by_name.pop(x.name, None) or dataclasses.replace(x, retired=True) for x in old]
    return kept + [x for x in new if x.name in by_name]
