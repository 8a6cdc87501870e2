"""What is noted about each call, and the files that hold it. Times are of the monotonic clock, in seconds."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable


@dataclasses.dataclass
class Send:
    """One HTTP exchange."""

    start: float
    end: float
    status: int  # 0: no answer


@dataclasses.dataclass
class Record:
    """One call from the first ask to its end."""

    tenant: str
    priority: str
    asked: float
    granted: float = 0.0  # of the last attempt; without a gate: when it was first sent
    sends: list[Send] = dataclasses.field(default_factory=list)
    admits: int = 0
    grants: int = 0
    degraded: int = 0
    gate_s: float = 0.0  # inside calls of the gate
    backoff_s: float = 0.0  # asleep with the worker's slot held
    deferred_s: float = 0.0  # asleep without it
    tokens: int = 0  # as the upstream reported
    worker: int = 0  # which workflow
    draining: bool = False  # began after the contention window
    events: int = 0  # of a workflow engine's history, where there is one
    error: str = ""

    @property
    def ok(self) -> bool:
        return bool(self.sends) and self.sends[-1].status == 200

    @property
    def slot_s(self) -> float:
        """How long a worker's slot was held: all but deferral."""
        return self.gate_s + self.backoff_s + sum(s.end - s.start for s in self.sends)


def as_line(record: Record, zero: float) -> str:
    """JSON, in seconds since `zero`, to 10 us."""
    fields = dataclasses.asdict(record)
    for name in ("asked", "granted"):
        fields[name] = round(fields[name] - zero, 5) if fields[name] else None
    for name in ("gate_s", "backoff_s", "deferred_s"):
        fields[name] = round(fields[name], 5)
    fields["sends"] = [
        [round(s.start - zero, 5), round(s.end - zero, 5), s.status] for s in record.sends
    ]
    return json.dumps(fields, separators=(",", ":"))


def write(path: pathlib.Path, records: Iterable[Record], zero: float) -> None:
    path.write_text("".join(as_line(record, zero) + "\n" for record in records))


def read(path: pathlib.Path) -> list[Record]:
    """Times count from the file's zero."""
    records = []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        fields["sends"] = [Send(*send) for send in fields["sends"]]
        fields["granted"] = fields["granted"] or 0.0
        records.append(Record(**fields))
    return records
