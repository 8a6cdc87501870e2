"""The load that peers were measured with: ghz, 64 calls in flight over 2 connections."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
from typing import Any

from engines import Engines

PACKAGE = "github.com/bojand/ghz/cmd/ghz"
VERSION = "v0.93.0"  # of the measurements to compare with


def install(folder: pathlib.Path) -> pathlib.Path:
    binary = folder / f"ghz-{VERSION}"
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ, GOBIN=str(folder))
        subprocess.run(["go", "install", f"{PACKAGE}@{VERSION}"], env=environment, check=True)
        (folder / "ghz").rename(binary)
    return binary


def run(running: Engines, folder: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    """Medians over as many runs as there are rounds; fails when a call does."""
    binary = install(folder)
    runs = [_once(running, binary, options, number) for number in range(options.rounds)]
    found: dict[str, Any] = {key: statistics.median(r[key] for r in runs) for key in runs[0]}
    return {"version": VERSION, **found, "runs": runs}


def _once(running: Engines, binary: pathlib.Path, options: argparse.Namespace, number: int) -> dict[str, float]:
    request = {
        "target": "bench",
        "tenant": "tenant-{{.WorkerID}}",
        "priority": "standard",
        "cost": {"tokens": 750},
        "request_id": f"ghz-{number}/{{{{.RequestNumber}}}}",
    }
    output = subprocess.run(
        [
            # the contract by reflection: this version reads no `optional` of proto3
            str(binary), "--insecure", "--format=json", "--call=fairgate.v1.AdmissionService.Admit",
            f"--data={json.dumps(request)}", "--concurrency=64", "--connections=2", "--duration-stop=wait",
            f"--duration={max(1.0, 3 * options.seconds):g}s", running.addresses["gate"],
        ],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    report = json.loads(output)
    codes = report["statusCodeDistribution"]
    if set(codes) != {"OK"}:
        raise RuntimeError(f"ghz met failures: {codes}")
    latencies = {entry["percentage"]: entry["latency"] / 1e6 for entry in report["latencyDistribution"]}
    return {"calls_per_s": report["rps"], "p50_ms": latencies[50], "p99_ms": latencies[99]}
