"""The bench itself: a run of moments gives all figures. Their size is not judged here."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_a_small_run_gives_every_figure(tmp_path: pathlib.Path) -> None:
    output, markdown = tmp_path / "bench.json", tmp_path / "RESULTS.md"
    flags = [
        "--flows=10,1000",
        "--active=1,10",
        "--dims=1,2",
        "--calls=200",
        "--rounds=1",
        "--connections=8",
        "--no-peers",
    ]
    environment = {"FAIRGATE_BUILD_DIR": os.environ["FAIRGATE_BUILD_DIR"], "PATH": os.environ["PATH"]}
    subprocess.run(
        [sys.executable, str(HERE / "run.py"), *flags, f"--output={output}", f"--markdown={markdown}"],
        check=True,
        timeout=100,
        env=environment,
    )
    result = json.loads(output.read_text())
    assert {name.split()[0] for name in result["arms"]} == {"bare", "grant", "release", "defer", "return"}
    for name, run in result["arms"].items():
        assert run["decisions_per_s"] > 0 and run["cpu_us"] >= 0, name
        assert 0 < run["p50_us"] <= run["p99_us"], name
    bare, grant = result["arms"]["bare"], result["arms"]["grant 1000 flows 10 active 2 dims"]
    assert abs(bare["commands"] - result["commands"]["bare"]) < 0.1
    assert abs(grant["commands"] - bare["commands"]) < 0.3 * bare["commands"]
    assert "grant by the bare script, p50 us" in {bar["name"] for bar in result["bars"]}
    assert "| grant 1000 flows 10 active 2 dims |" in markdown.read_text()
