"""The bench itself: a run of moments gives all figures. Their size is not judged here."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ECHOES = ("echo_callback", "echo_cq1", "echo_cq2", "echo_cq1_health")
ARMS = (*ECHOES, "script", "admit", "release", "defer")
LEVELS = ("1", "8")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict:
    output = tmp_path_factory.mktemp("bench") / "bench.json"
    flags = ["--seconds=0.05", "--warmup=0.02", "--rounds=1", f"--levels={','.join(LEVELS)}", "--store-timeout=10s"]
    environment = {"FAIRGATE_BUILD_DIR": os.environ["FAIRGATE_BUILD_DIR"], "PATH": os.environ["PATH"]}
    subprocess.run(
        [sys.executable, str(HERE / "run.py"), *flags, f"--output={output}"], check=True, timeout=100, env=environment
    )
    return json.loads(output.read_text())


def test_every_arm_has_its_figures(result: dict) -> None:
    assert tuple(result["arms"]) == ARMS
    for arm, levels in result["arms"].items():
        assert tuple(levels) == LEVELS
        keys = ["calls_per_s", "p50_us", "p99_us"]
        if arm in ("script", "admit", "release", "defer"):
            keys += ["script_us", "script_p99_us", "commands_per_call"]
        for run in levels.values():
            for key in keys:
                assert 0 < run[key]["min"] <= run[key]["median"] <= run[key]["max"], (arm, key)
            assert run["p50_us"]["median"] <= run["p99_us"]["median"]


def test_the_plain_script_runs_what_an_admit_runs(result: dict) -> None:
    commands = result["commands"]
    assert commands["plain"] == len(commands["names"]) > 5
    for run in result["arms"]["script"].values():
        assert abs(run["commands_per_call"]["median"] - commands["plain"]) < 1
    # beside them an Admit reaps and moves flows that fell idle, the more of them the slower it is asked; many at a time
    # share what they read and write
    per_admit = commands["per_admit"]
    assert commands["plain"] - 1 < per_admit["1"] < 2.5 * commands["plain"]
    assert per_admit[str(max(LEVELS))] < per_admit["1"]
    assert commands["request_bytes"] > 20 and commands["response_bytes"] > 20


def test_echo_has_the_size_of_an_admit(result: dict) -> None:
    for arm in ECHOES:
        for run in result["arms"][arm].values():
            assert run["request_bytes"]["median"] == result["commands"]["request_bytes"]
            assert run["response_bytes"]["median"] == result["commands"]["response_bytes"]


def test_ceilings_and_bars(result: dict) -> None:
    for level in LEVELS:
        found = result["figures"][level]
        assert found["best_echo"] in ECHOES[:3]
        assert 0 < found["share_min"] <= found["share_max"]
        assert found["ceiling_calls_per_s"] < min(found["echo_calls_per_s"], found["script_calls_per_s"])
        assert found["share"] == pytest.approx(found["admit_calls_per_s"] / found["ceiling_calls_per_s"])
        assert found["p50_ratio"] > 0
    assert [bar["name"] for bar in result["bars"]] == ["p50 by the sum of both, 1 in flight"]


def test_conditions_are_told(result: dict) -> None:
    conditions = result["conditions"]
    for key in ("date", "cpu_model", "cores", "commit", "build_type", "grpc", "valkey", "seconds", "rounds"):
        assert conditions[key], key
