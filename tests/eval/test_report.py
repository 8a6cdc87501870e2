"""The report says what the results say."""

import pathlib

import pytest

from analysis import results_of, rounded, summary_of
from bars import PAPER, bars_of
from cells import ARMS
from figures import draw
from report import ARM_NOTES, report
from test_analysis import PACE, steady, write_cell
from workloads import WORKLOADS


def cell_of(folder: pathlib.Path, arm: str, pace: dict[str, float], repeat: int = 1) -> dict:
    write_cell(folder, steady(pace, 5, 15))
    summary = rounded(summary_of(folder))
    summary["cell"] |= {"arm": arm, "repeat": repeat}
    return summary


def test_bars_met_and_missed_are_told(tmp_path: pathlib.Path) -> None:
    cells = [cell_of(tmp_path, "fairgate", PACE, n) for n in (1, 2)]
    cells.append(cell_of(tmp_path, "fairgate-hold", PACE | {"a1": 7.5}))
    cells.append(cell_of(tmp_path, "naive", PACE | {"a1": 0.0, "a3": 21.0}))
    rows = results_of(cells)
    figures = draw(rows, cells, "driver", tmp_path / "figures")
    assert len(figures) == 4
    text = report(rows, cells, {"driver": {t: f"figures/{f}" for t, f in figures.items()}})
    lines = text.splitlines()
    (held,) = [x for x in lines if x.startswith("| cross-priority, fixed | fairgate-hold |")]
    assert "**0.5**, min_r >= 0.95" in held and "**52.5**, ok_per_s >= 58" in held
    (plain,) = [x for x in lines if x.startswith("| cross-priority, fixed | fairgate |")]
    assert plain == "| cross-priority, fixed | fairgate | 10 |  |"
    assert any(x.startswith("| fairgate | 2 | 30.0 ± 0.0 / 18.0 ± 0.0 / 12.0 ± 0.0 |") for x in lines)
    assert any(x.startswith("| *paper: bp* |  | 21.3 / 18.5 / 11.8 | 4.1 | 0.890 |") for x in lines)
    assert "virtual time" not in text
    assert "driver: overload" in text and "temporal: cross-priority" in text  # not measured


def test_every_arm_and_workload_is_known() -> None:
    assert {arm for arms in ARMS.values() for arm in arms} == set(ARM_NOTES)
    assert set(PAPER) == set(WORKLOADS)
    for workload in WORKLOADS:
        for stack in ARMS:
            for window in ("fixed", "sliding"):
                assert bars_of(stack, workload, window)


def test_the_same_results_make_the_same_figures(tmp_path: pathlib.Path) -> None:
    cells = [cell_of(tmp_path, "naive", PACE)]
    for folder in ("a", "b"):
        draw(results_of(cells), cells, "driver", tmp_path / folder)
    for path in (tmp_path / "a").glob("*.png"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("measure", ["slot_ms", "drain_s"])
def test_bars_without_a_counterpart_say_nothing(measure: str, tmp_path: pathlib.Path) -> None:
    (row,) = results_of([cell_of(tmp_path, "fairgate", PACE)])
    for bar in bars_of("driver", "uncongested", "fixed"):
        if bar.measure == measure:
            assert bar.holds(row, {"fairgate": row}) is None
