"""What one decision costs the store: Admit (grant, defer, return) and Release, by known and active flows and
dimensions, beside a bare script of the same commands and other limiters' scripts in the same run. A table and JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import redis
import report
from peers import Peers
from questions import Target, write

import plain  # noqa: E402,I001  of tests/bench, which questions.py has put into the path
from valkey import Valkey  # noqa: E402  of tests/lua

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FAIRGATE_BUILD_DIR", ROOT / "build" / "bench-release"))
KINDS = ("grant", "release", "defer", "return")
PEER_TENANTS = 1000
BARE_CELL = (1000, 10, 2)


def cells(flows: list[int], active: list[int], dims: list[int]) -> list[tuple[int, int, int]]:
    """(known flows, active ones, dimensions): each of the three varied alone."""
    middle = sorted(flows)[-2] if len(flows) > 1 else flows[0]
    out = [(f, min(f, 10), 2) for f in flows] + [(max(middle, a), a, 2) for a in active] + [(1000, 10, d) for d in dims]
    return list(dict.fromkeys([BARE_CELL, *out]))


class Bench:
    def __init__(self, server: Valkey, folder: pathlib.Path, options: argparse.Namespace) -> None:
        self.server, self.folder, self.options = server, folder, options
        self.client: redis.Redis = server.client
        self.file = folder / "commands"
        self.open: dict[tuple[int, int, int], Target] = {}
        self.shut: dict[tuple[int, int, int], Target] = {}
        self.scripts: dict[str, Callable[[], list[list[bytes]]]] = {}
        self.commands: dict[str, Any] = {}

    def prepare(self) -> None:
        if self.options.peers:
            self._prepare_peers()
        for cell in cells(self.options.flows, self.options.active, self.options.dims):
            print(f"seeding {cell}", file=sys.stderr)
            self.open[cell] = Target(self.client, self.server.library, *cell, shut=False)
            self.shut[cell] = Target(self.client, self.server.library, *cell, shut=True)
        self._prepare_bare()

    def _prepare_peers(self) -> None:
        peers = Peers(ROOT / "build" / "bench_lua" / "venv")
        peers.install()
        calls = self.options.calls
        made = {
            f"limits {kind} window": peers.limits(self.client, self.server.socket, kind, PEER_TENANTS, calls)
            for kind in ("moving", "sliding")
        }
        made["litellm"] = peers.litellm(PEER_TENANTS, calls)
        for name, (text, arguments) in made.items():
            sha = self.client.script_load(text).encode()
            self.scripts[name] = lambda sha=sha, arguments=arguments: [[b"EVALSHA", sha, *rest] for rest in arguments]

    def _prepare_bare(self) -> None:
        """The commands that a granted Admit runs, with nothing between them, on copies of its keys."""
        target = self.open[BARE_CELL]
        seen = plain.watch(
            pathlib.Path(self.server.socket),
            lambda: [target.ask(command) for command in target.admits(target.fresh(200))],
        )
        evaluation = plain.typical(seen, target.name)
        match = re.search(rb"\d{5}/\d{10}", evaluation.call[-1])
        assert match is not None, evaluation.call[-1]
        [answer] = self.client.execute_command(*target.admit(target.fresh(1)[0], 0))
        text, keys = plain.script(evaluation, match.group(), len(answer))
        names = plain.copy_keys(self.client, keys, target.name, "bare")
        sha = self.client.script_load(text).encode()
        filler = b"f" * len(evaluation.call[-1])
        self.bare_keys = names
        self.commands = {"names": evaluation.names(), "bare": len(evaluation.commands)}
        self.scripts["bare"] = lambda: [
            [b"EVALSHA", sha, b"%d" % len(names), *names, id.encode(), filler]
            for id in target.fresh(self.options.calls)
        ]

    def replay(self, commands: list[list[bytes]]) -> dict[str, Any]:
        """One measurement, by the driver and by the server's own statistics."""
        write(self.file, commands)
        before = self._cpu()
        self.client.config_resetstat()
        output = subprocess.run(
            [
                str(BUILD / "bin" / "bench_replay"),
                self.server.socket,
                str(self.file),
                f"--connections={self.options.connections}",
            ],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        found = json.loads(output)
        assert found["errors"] == 0, found
        kind = commands[0][0].decode().lower()
        stats = self.client.info("commandstats")
        slow = self.client.info("latencystats")[f"latency_percentiles_usec_{kind}"]
        nested = sum(
            v["calls"]
            for k, v in stats.items()
            if not k.startswith(("cmdstat_config", "cmdstat_info", f"cmdstat_{kind}"))
        )
        calls = found["calls"]
        return {
            "decisions_per_s": found["calls_per_s"],
            "mean_us": stats[f"cmdstat_{kind}"]["usec_per_call"],
            "p50_us": slow["p50"],
            "p99_us": slow["p99"],
            "commands": nested / calls,
            "cpu_us": (self._cpu() - before) / calls * 1e6,
            "seen_p50_us": found["p50_us"],
            "seen_p99_us": found["p99_us"],
        }

    def _cpu(self) -> float:
        cpu = self.client.info("cpu")
        return cpu["used_cpu_sys_main_thread"] + cpu["used_cpu_user_main_thread"]

    def measure_cell(self, cell: tuple[int, int, int]) -> dict[str, dict[str, Any]]:
        target, calls = self.open[cell], self.options.calls
        ids = target.fresh(calls)
        out = {
            "grant": self.replay(target.admits(ids)),
            "release": self.replay([target.release(id, "settle") for id in ids]),
        }
        self._check(target, {"outcome": "grant"})
        target.forget()
        target = self.shut[cell]
        ids = target.fresh(calls)
        out["defer"] = self.replay(target.admits(ids))
        self._check(target, {"outcome": "defer"})
        self.replay([target.release(id, "withdraw") for id in ids])
        out["return"] = self.replay(target.returns(calls))
        return out

    @staticmethod
    def _check(target: Target, expected: dict[str, Any]) -> None:
        """A cell that decides something else than it says is no measurement."""
        id = target.fresh(1)[0]
        answer = target.ask(target.admit(id, 0))
        assert answer["outcome"] == expected["outcome"], answer
        target.ask(target.release(id, "withdraw"))

    def measure_shared(self, questions: int) -> dict[str, Any]:
        target = self.open[BARE_CELL]
        calls = self.options.calls // questions * questions
        found = self.replay(target.shared_admits(target.fresh(calls), questions))
        target.forget()
        found["decisions_per_s"] *= questions
        for key in ("mean_us", "p50_us", "p99_us", "commands", "cpu_us"):
            found[key] /= questions
        return found

    def measure_script(self, name: str) -> dict[str, Any]:
        found = self.replay(self.scripts[name]())
        if name == "bare":
            for key in self.bare_keys:
                if key.endswith((b":calls", b":expiry")):
                    self.client.unlink(key)
        return found


def conditions(options: argparse.Namespace, client: redis.Redis) -> dict[str, Any]:
    def said(*command: str) -> str:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()

    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    server, memory = client.info("server"), client.info("memory")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu_model": model.group(1) if model else platform.processor(),
        "cores": os.cpu_count(),
        "load_average": [options.load_average, os.getloadavg()[0]],
        "commit": said("git", "rev-parse", "--short", "HEAD"),
        "changed_files": len(said("git", "status", "--porcelain", "--", "server/lua").splitlines()),
        "valkey": server.get("valkey_version", server["redis_version"]),
        "memory_mb": memory["used_memory"] // 2**20,
        "calls": options.calls,
        "rounds": options.rounds,
        "connections": options.connections,
        "store": "Unix socket, no append-only file; client and server share the machine",
    }


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flows", type=numbers, default=[10, 1000, 100_000, 1_000_000], help="known ones")
    parser.add_argument("--active", type=numbers, default=[1, 10, 1000, 10_000])
    parser.add_argument("--dims", type=numbers, default=[1, 2, 3, 4])
    parser.add_argument("--calls", type=int, default=5000, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="each measures everything once")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without other limiters")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench_lua.json")
    parser.add_argument("--markdown", type=pathlib.Path, help="the table, for RESULTS.md")
    options = parser.parse_args()
    options.load_average = os.getloadavg()[0]
    return options


def measure(bench: Bench, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Everything once a round, in another order each time, so that a slow moment does not meet one arm alone."""
    found: dict[str, list[dict[str, Any]]] = {}
    arms = [*bench.scripts, *bench.open]
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for arm in arms[number % len(arms) :] + arms[: number % len(arms)]:
            if isinstance(arm, str):
                found.setdefault(arm, []).append(bench.measure_script(arm))
                continue
            for kind, figures in bench.measure_cell(arm).items():
                found.setdefault(report.name_of(kind, arm), []).append(figures)
        for questions in report.SHARED:
            found.setdefault(report.shared_name(questions), []).append(bench.measure_shared(questions))
    return found


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {key: statistics.median(float(run[key]) for run in runs) for key in runs[0]}


def main() -> int:
    options = parse_options()
    server = Valkey((BUILD / "lua" / "fairgate.lua").read_text())
    try:
        with tempfile.TemporaryDirectory(prefix="fairgate-bench-lua-") as folder:
            bench = Bench(server, pathlib.Path(folder), options)
            bench.prepare()
            arms = {name: medians(runs) for name, runs in measure(bench, options.rounds).items()}
            result: dict[str, Any] = {
                "conditions": conditions(options, bench.client),
                "commands": bench.commands,
                "arms": arms,
                "cells": list(bench.open),
            }
    finally:
        server.stop()
    result["bars"] = report.bars(arms, result["cells"])
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(report.table(result))
    if options.markdown:
        options.markdown.write_text(report.markdown(result))
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
