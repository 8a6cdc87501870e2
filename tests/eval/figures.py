"""The report's figures, from the summaries of cells alone."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy  # noqa: E402

from cells import ABLATIONS, ARMS, SCALES  # noqa: E402
from measures import ideal_rates  # noqa: E402
from workloads import MAIN, WORKLOADS  # noqa: E402

Json = dict[str, Any]
_COLOURS = {"p1": "#1b6ca8", "p2": "#e08e1b", "p3": "#7a9e3a"}
CONGESTED = set(WORKLOADS) - {"uncongested"}
_STARVED = 0.1  # of the ideal, in a second


def _find(rows: Sequence[Json], **wanted: str) -> list[Json]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _save(figure: Any, path: pathlib.Path) -> pathlib.Path:
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def _ideal_by_class(stack: str, workload: str) -> dict[str, float]:
    load = WORKLOADS[workload].scaled(SCALES[stack])
    rates = ideal_rates(load.queues(), load.caps)
    out: dict[str, float] = {}
    for tenant, rate in zip(load.tenants, rates):
        out[tenant.priority] = out.get(tenant.priority, 0.0) + rate
    return out


def ok_per_class(rows: Sequence[Json], stack: str, path: pathlib.Path) -> pathlib.Path | None:
    """OK calls/s of each class by arm; a line is the class's ideal."""
    shown = [w for w in MAIN if _find(rows, stack=stack, workload=w, window="fixed")]
    if not shown:
        return None
    figure, axes = plt.subplots(1, len(shown), figsize=(5.2 * len(shown), 4), squeeze=False, layout="constrained")
    for axis, workload in zip(axes[0], shown):
        found = {r["arm"]: r for r in _find(rows, stack=stack, workload=workload, window="fixed")}
        arms = [a for a in ARMS[stack] if a in found and a not in ABLATIONS]
        ideal = _ideal_by_class(stack, workload)
        width = 0.8 / len(ideal)
        for number, name in enumerate(ideal):
            values = [found[a]["ok_per_class"].get(name, {"mean": 0, "ci95": None}) for a in arms]
            places = numpy.arange(len(arms)) + number * width - 0.4 + width / 2
            axis.bar(places, [v["mean"] for v in values], width, color=_COLOURS[name], label=name,
                     yerr=[v["ci95"] or 0 for v in values], capsize=2)
            axis.axhline(ideal[name], color=_COLOURS[name], linewidth=1, linestyle="--")
        axis.set_xticks(range(len(arms)), arms, rotation=30, ha="right")
        axis.set_title(workload)
        axis.set_ylabel("OK calls/s")
        axis.legend()
    return _save(figure, path)


def heatmap(cells: Sequence[Json], stack: str, path: pathlib.Path) -> pathlib.Path | None:
    """Calls served per tenant and second; hatched where a tenant got below a tenth of what it is due."""
    found: dict[str, Json] = {}
    for cell in cells:
        c = cell["cell"]
        if (c["stack"], c["workload"], c["window"]) == (stack, "cross-priority", "fixed"):
            if c["arm"] not in ABLATIONS:
                found.setdefault(c["arm"], cell)
    arms = [a for a in ARMS[stack] if a in found]
    if not arms:
        return None
    load = WORKLOADS["cross-priority"].scaled(SCALES[stack])
    rates = dict(zip((t.name for t in load.tenants), ideal_rates(load.queues(), load.caps)))
    figure, axes = plt.subplots(len(arms), 1, figsize=(9, 1.5 * len(arms) + 0.6), squeeze=False, layout="constrained")
    most = 2 * max(rates.values())
    for axis, arm in zip(axes[:, 0], arms):
        served = found[arm]["served"]
        grid = numpy.array([served.get(name, [0] * len(next(iter(served.values())))) for name in rates])
        image = axis.imshow(grid, aspect="auto", cmap="viridis", vmin=0, vmax=most, interpolation="nearest")
        for y, due in enumerate(rates.values()):
            for x in numpy.flatnonzero(grid[y] < _STARVED * due):
                axis.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="////", edgecolor="red", lw=0))
        axis.set_yticks(range(len(rates)), rates)
        axis.set_title(f"{arm} (seed {found[arm]['cell']['repeat']})", fontsize=9)
    axes[-1, 0].set_xlabel("seconds")
    figure.colorbar(image, ax=axes[:, 0], label="calls served per second", shrink=0.6)
    return _save(figure, path)


def _pooled(cells: Sequence[Json], measure: str, name: str) -> numpy.ndarray[Any, Any]:
    """Quantiles of all repeats, each weighing the same."""
    values = [c[measure].get(name) for c in cells]
    return numpy.sort(numpy.concatenate([v for v in values if v])) if any(values) else numpy.array([])


def cdfs(cells: Sequence[Json], stack: str, path: pathlib.Path) -> pathlib.Path | None:
    """Deferral (first ask to first send) and latency (first ask to success), first and last class."""
    mine: dict[str, list[Json]] = {}
    for cell in cells:
        c = cell["cell"]
        if (c["stack"], c["workload"], c["window"]) == (stack, "cross-priority", "fixed"):
            mine.setdefault(c["arm"], []).append(cell)
    arms = [a for a in ARMS[stack] if a in mine and a not in ABLATIONS]
    if not arms:
        return None
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for row, (measure, title) in enumerate(
        [("deferral_quantiles_ms", "deferral"), ("latency_quantiles_ms", "first ask to success")]
    ):
        for column, name in enumerate(("p1", "p3")):
            axis = axes[row][column]
            for arm in arms:
                values = _pooled(mine[arm], measure, name)
                if len(values):
                    axis.plot(values.clip(1), numpy.linspace(0, 1, len(values)), label=arm)
            axis.set_xscale("log")
            axis.set_title(f"{title}, {name}")
            axis.set_xlabel("ms")
            axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8)
    return _save(figure, path)


def cost_of_fairness(rows: Sequence[Json], stack: str, path: pathlib.Path) -> pathlib.Path | None:
    """What arms give up for fairness: least achievement against the use of the cap, and against the drain span."""
    found = [r for r in _find(rows, stack=stack, window="fixed") if r["workload"] in CONGESTED]
    found = [r for r in found if r["arm"] not in ABLATIONS]
    if not found:
        return None
    naive = {r["workload"]: r for r in found if r["arm"] == "naive"}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for number, arm in enumerate(a for a in ARMS[stack] if any(r["arm"] == a for r in found)):
        mine = [r for r in found if r["arm"] == arm]
        style: Mapping[str, Any] = {"label": arm, "color": f"C{number}", "alpha": 0.8}
        axes[0].scatter([r["min_r"]["mean"] for r in mine],
                        [100 * r["cap_used"]["mean"] / r["cap_ideal"]["mean"] for r in mine], **style)
        both = [(r, naive[r["workload"]]) for r in mine if r["workload"] in naive]
        both = [(r, n) for r, n in both if r["drain_s"]["mean"] and n["drain_s"]["mean"]]
        axes[1].scatter([r["min_r"]["mean"] for r, _ in both],
                        [100 * r["drain_s"]["mean"] / n["drain_s"]["mean"] for r, n in both], **style)
    axes[1].set_visible(bool(axes[1].collections) and any(len(c.get_offsets()) for c in axes[1].collections))
    for axis, label in zip(axes, ("% of the usable cap used", "drain span, % of naive's")):
        axis.set_xlabel("least observed / ideal of a tenant")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    return _save(figure, path)


def draw(rows: Sequence[Json], cells: Sequence[Json], stack: str, folder: pathlib.Path) -> dict[str, str]:
    """Title -> file, of what there was data for."""
    folder.mkdir(parents=True, exist_ok=True)
    valid = [c for c in cells if c["valid"]] or list(cells)
    drawn = {
        "OK calls/s per class, with 95 % intervals; dashed: the ideal":
            ok_per_class(rows, stack, folder / f"{stack}-ok-per-class.png"),
        "cross-priority: calls served per tenant and second; hatched: starved":
            heatmap(valid, stack, folder / f"{stack}-served.png"),
        "cross-priority: deferral and latency": cdfs(valid, stack, folder / f"{stack}-cdf.png"),
        "Cost of fairness": cost_of_fairness(rows, stack, folder / f"{stack}-cost.png"),
    }  # fmt: skip
    return {title: path.name for title, path in drawn.items() if path is not None}
