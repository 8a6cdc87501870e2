"""Measures Admit through the full stack beside two ceilings in the same run: a bare gRPC echo server, and a pipelined
script of as many plain commands. Prints a table and writes the figures as JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from typing import Any

import figures
import ghz
import plain
from engines import Engines, engines

ROOT = pathlib.Path(__file__).resolve().parents[2]
ECHOES = {
    "echo_callback": ["--api=callback"],
    "echo_cq1": ["--api=cq", "--threads=1"],
    "echo_cq2": ["--api=cq", "--threads=2"],
    "echo_cq1_health": ["--api=cq", "--threads=1", "--health"],
}
KINDS = ("admit", "release", "defer")
PROTO_OVERHEAD = 2  # bytes that a payload field of up to 127 bytes adds


class Bench:
    def __init__(self, running: Engines, options: argparse.Namespace) -> None:
        self.running = running
        self.options = options
        self.client = running.valkey()
        self.runs = 0
        self.payload_bytes = 0
        self.filler_bytes = 0
        self.plain_keys: list[bytes] = []
        self.commands: dict[str, Any] = {}

    def load(self, program: str, *arguments: str, prefix: str = "") -> dict[str, Any]:
        """One run of a load generator. Ids of different runs differ."""
        self.runs += 1
        output = subprocess.run(
            [str(self.running.binaries / program), *arguments, f"--id-prefix={prefix or f'run-{self.runs:04d}'}"],
            stdout=subprocess.PIPE, text=True, check=True,
        ).stdout  # fmt: skip
        return json.loads(output)

    def duration(self) -> tuple[str, str]:
        return f"--seconds={self.options.seconds}", f"--warmup={self.options.warmup}"

    def prepare(self) -> None:
        """Sizes, and the plain script from what an Admit really runs."""
        seen: dict[str, Any] = {}

        def probe() -> None:  # one at a time: in each evaluation is one question
            seen.update(self.load(
                "bench_rpc_load", self.running.addresses["gate"], "--kind=admit", "--in-flight=1", "--seconds=0.3",
                "--warmup=0.1", prefix=f"probe-{self.runs}",
            ))  # fmt: skip

        probe()  # flows and keys are there
        evaluation = plain.typical(plain.watch(self.running.socket, probe), "bench")
        argument = evaluation.call[-1]
        request_id = re.search(rb"probe-[0-9]+/[0-9]+", argument)
        assert request_id is not None, argument
        # the same question with an id of its own, for the size of the answer
        fresh = argument.replace(request_id.group(), request_id.group()[:-1] + b"x")
        [answer] = self.client.execute_command(*evaluation.call[:-1], fresh)
        text, keys = plain.script(evaluation, request_id.group(), len(answer))
        (self.running.folder / "plain.lua").write_text(text)
        self.plain_keys = plain.copy_keys(self.client, keys, "bench", "plain")
        self.payload_bytes = seen["request_bytes"] - PROTO_OVERHEAD
        self.filler_bytes = len(argument)
        self.commands = {
            "plain": len(evaluation.commands),
            "names": evaluation.names(),
            "argument_bytes": len(argument),
            "answer_bytes": len(answer),
            "request_bytes": seen["request_bytes"],
            "response_bytes": seen["response_bytes"],
        }
        for name, flags in ECHOES.items():
            self.running.start_echo(name, *flags, f"--answer-bytes={seen['response_bytes'] - PROTO_OVERHEAD}")

    def run(self, arm: str, level: int) -> dict[str, Any]:
        self.forget()
        self.client.config_resetstat()
        server = arm if arm in ECHOES else "gate" if arm in KINDS else None
        before = self._cpu(server)
        if arm == "script":
            keys = [f"--key={key.decode()}" for key in self.plain_keys]
            found = self.load(
                "bench_script_load", str(self.running.socket), f"--script={self.running.folder / 'plain.lua'}", *keys,
                f"--in-flight={level}", f"--filler-bytes={self.filler_bytes}", *self.duration(),
            )  # fmt: skip
        else:
            found = self.load(
                "bench_rpc_load", self.running.addresses[server or ""], f"--kind={arm if arm in KINDS else 'echo'}",
                f"--in-flight={level}", f"--channels={min(level, self.options.channels)}",
                f"--payload-bytes={self.payload_bytes}", f"--target={'defer' if arm == 'defer' else 'bench'}",
                *self.duration(), prefix="poller" if arm == "defer" else "",
            )  # fmt: skip
        for key, used in self._cpu(server).items():
            found[key] = (used - before[key]) / max(found["answers"], 1) * 1e6
        self._check(arm, found)
        if arm in (*KINDS, "script"):
            found.update(self._store_figures(found["answers"]))
        return found

    def forget(self) -> None:
        """What the arm before left behind would slow the next one's evaluations."""
        names = [f"fg:{{{target}}}:{kind}" for target in ("bench", "plain") for kind in ("calls", "expiry", "due")]
        self.client.unlink(*names)

    def _cpu(self, server: str | None) -> dict[str, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = {"load_us": children.ru_utime + children.ru_stime, "valkey_us": self.running.cpu_s("valkey")}
        if server is not None:
            used["server_us"] = self.running.cpu_s(server)
        return used

    @staticmethod
    def _check(arm: str, found: dict[str, Any]) -> None:
        """An arm that did something else than it says is no measurement."""
        wrong = found["errors"] + found.get("degraded", 0) + found.get("rejects", 0)
        wrong += found["defers"] if arm in ("admit", "release") else found["grants"] if arm == "defer" else 0
        if wrong > 0.001 * found["calls"] + 2:
            raise RuntimeError(f"arm {arm} went wrong: {found}")

    def _store_figures(self, answers: int) -> dict[str, float]:
        """Per answer of the arm: time in scripts (with Release that of both) and commands that they ran. The 99th
        percentile is of single evaluations."""
        stats = self.client.info("commandstats")
        kinds = ("cmdstat_evalsha", "cmdstat_fcall")
        outer = {kind: stats[kind] for kind in kinds if kind in stats}
        most = max(outer, key=lambda kind: outer[kind]["calls"])
        nested = sum(v["calls"] for k, v in stats.items() if k not in (*kinds, "cmdstat_config|resetstat"))
        slow = self.client.info("latencystats")[most.replace("cmdstat_", "latency_percentiles_usec_")]
        return {
            "script_us": sum(v["usec"] for v in outer.values()) / answers,
            "script_p99_us": slow["p99"],
            "commands_per_call": nested / answers,
        }


def conditions(options: argparse.Namespace, bench: Bench) -> dict[str, Any]:
    def said(*command: str) -> str:
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.strip()

    cache = (bench.running.binaries.parent / "CMakeCache.txt").read_text()
    model = re.search(r"model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text())
    build_type = re.search(r"CMAKE_BUILD_TYPE:\w+=(.*)", cache)
    server = bench.client.info("server")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu_model": model.group(1) if model else platform.processor(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "load_average_before": options.load_average,
        "commit": said("git", "rev-parse", "--short", "HEAD"),
        "changed_files": len(said("git", "status", "--porcelain", "--", "server", "proto").splitlines()),
        "build_type": build_type.group(1) if build_type else "",
        "compiler": said("c++", "--version").splitlines()[0],
        "grpc": said("pkg-config", "--modversion", "grpc++"),
        "valkey": server.get("valkey_version", server["redis_version"]),
        "seconds": options.seconds,
        "warmup_s": options.warmup,
        "rounds": options.rounds,
        "channels": options.channels,
        "completion_queue_threads": options.threads,
        "store_timeout": options.store_timeout,
        "policy": "two dimensions, three classes, 100 tenants, default window model",
        "store": "on a Unix socket, append-only file on",
        "machine": "shared by client, server and store",
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--warmup", type=float, default=0.2, help="seconds before the count starts")
    parser.add_argument("--rounds", type=int, default=5, help="each runs every arm once")
    parser.add_argument("--levels", type=lambda text: [int(x) for x in text.split(",")], default=[1, 64, 256],
                        help="calls in flight")  # fmt: skip
    parser.add_argument("--arms", type=lambda text: text.split(","), default=[*ECHOES, "script", *KINDS])
    parser.add_argument("--channels", type=int, default=2, help="connections, at most the calls in flight")
    parser.add_argument("--threads", type=int, default=1, help="completion queue threads of the gate")
    parser.add_argument("--store-timeout", default="2s", help="of the gate: longer than any stall of the machine")
    parser.add_argument("--ghz", action="store_true", help="also the load of ghz, which is fetched and built")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench.json")
    options = parser.parse_args()
    options.load_average = os.getloadavg()[0]
    return options


def measure(bench: Bench, options: argparse.Namespace) -> figures.Rounds:
    """Every arm once a round, so that a slow moment of the machine does not meet one arm alone."""
    rounds: figures.Rounds = {arm: {level: [] for level in options.levels} for arm in options.arms}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for level in options.levels:
            turn = number % len(options.arms)
            for arm in options.arms[turn:] + options.arms[:turn]:
                rounds[arm][level].append(bench.run(arm, level))
    return rounds


def main() -> int:
    options = parse_options()
    binaries = pathlib.Path(os.environ.get("FAIRGATE_BUILD_DIR", ROOT / "build" / "bench-release")) / "bin"
    with tempfile.TemporaryDirectory(prefix="fairgate-bench-") as folder, engines(binaries, pathlib.Path(folder)) as running:
        running.start_valkey()
        running.start_gate(options.threads, options.store_timeout)
        bench = Bench(running, options)
        bench.prepare()
        rounds = measure(bench, options)
        result: dict[str, Any] = {"conditions": conditions(options, bench)}
        bench.forget()
        ghz_found = ghz.run(running, ROOT / "build" / "bench", options) if options.ghz else None
    result["arms"] = figures.summarize(rounds)
    if "admit" in rounds:
        bench.commands["per_admit"] = {
            level: statistics.median(run["commands_per_call"] for run in runs) for level, runs in rounds["admit"].items()
        }
    result["commands"] = bench.commands
    complete = {"admit", "script"} <= set(rounds) and any(echo in rounds for echo in figures.ECHOES)
    result["figures"] = figures.figures(rounds, options.levels) if complete else {}
    result["ghz"] = ghz_found
    result["bars"] = figures.bars(result["figures"], ghz_found)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(figures.table(result))
    print(f"written to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
