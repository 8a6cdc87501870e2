"""A cell as the evaluation runs it: real gate, real store, real HTTP, and everything that is read from it."""

import dataclasses
import pathlib

import pytest

from cells import Cell
from run import load_cells, run_cells, write_results


@pytest.mark.parametrize("arm", ["naive", "fairgate-hold"])
def test_a_cell_from_processes_to_results(arm: str, tmp_path: pathlib.Path) -> None:
    cell = Cell("driver", "token-bound", arm, warm_up=1.0, seconds=4.0, drain=1.0)
    out, raw = tmp_path / "out", tmp_path / "raw"
    assert run_cells([cell], out, raw, float("inf"), tries=1) == []
    (got,) = load_cells(out)
    assert got["cell"] == dataclasses.asdict(cell)
    assert got["cap_used"] > 0.8 and got["errors"] == 0 and got["drain_s"] > 0.5
    assert (got["share_429"] > 0.2) == (arm == "naive")
    assert (got["script_ms"] != {}) == (arm != "naive")
    assert 0 < got["load"]["own"] <= got["load"]["busy"] + 0.05
    assert set(got["completion_s"]) == {"p1", "p2", "p3"}
    write_results(out, tmp_path / "REPORT.md")
    assert f"token-bound, fixed | {arm}" in (tmp_path / "REPORT.md").read_text()
    assert (out / "driver.json").exists() and list((out / "figures").glob("*.png"))
    if got["valid"]:  # done is done
        marked = out / "cells" / f"{cell.name}.json"
        before = marked.stat().st_mtime_ns
        run_cells([cell], out, raw, float("inf"), tries=1)
        assert marked.stat().st_mtime_ns == before


def test_a_cell_on_temporal(tmp_path: pathlib.Path) -> None:
    cell = Cell("temporal", "cross-priority", "fairgate", warm_up=2.0, seconds=5.0, drain=0.0)
    out = tmp_path / "out"
    assert run_cells([cell], out, tmp_path / "raw", float("inf"), tries=1) == []
    (got,) = load_cells(out)
    assert got["cap_used"] > 0.5 and got["errors"] == 0 and got["share_429"] < 0.05
    assert got["events_per_call"] > 5  # an activity and a workflow task have six
    assert got["calls_per_grant"] > 1
    assert {"workers", "temporal", "gate", "upstream"} == set(got["load"]["by_process"])
