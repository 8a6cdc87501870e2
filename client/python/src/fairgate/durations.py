"""Durations as callers give them and as the contract carries them."""

from __future__ import annotations

import contextlib
import contextvars
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TypeAlias

from google.protobuf import duration_pb2

Duration: TypeAlias = timedelta | float
"""A timedelta, or a number of seconds."""

_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar("fairgate_deadline", default=None)


def seconds(duration: Duration) -> float:
    """The duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def to_proto(duration: Duration) -> duration_pb2.Duration:
    """ValueError: not finite. Whole nanoseconds, rounded down."""
    value = seconds(duration)
    if not abs(value) < 1e11:
        raise ValueError(f"not a duration: {duration!r}")
    proto = duration_pb2.Duration()
    proto.FromNanoseconds(int(value * 1e9))
    return proto


def from_proto(proto: duration_pb2.Duration) -> timedelta:
    """Rounded up to a microsecond: who sleeps it is not early."""
    return timedelta(seconds=proto.seconds, microseconds=-(-proto.nanos // 1000))


@contextlib.contextmanager
def deadline(within: Duration | None) -> Iterator[None]:
    """Everything inside has to be done within that time from now; admissions tell the gate what is left of it.

    Of nested ones the earliest holds. None changes nothing, which suits `grpc.ServicerContext.time_remaining()`. Tasks
    that are started inside inherit it, as do functions run by asyncio.to_thread.
    """
    outer = _deadline.get()
    if within is None:
        inner = outer
    else:
        mine = time.monotonic() + seconds(within)
        inner = mine if outer is None else min(mine, outer)
    token = _deadline.set(inner)
    try:
        yield
    finally:
        _deadline.reset(token)


def work_deadline(explicit: Duration | None) -> float | None:
    """The earlier of `explicit` and the context's, as an instant of time.monotonic(); None: there is none."""
    context = _deadline.get()
    if explicit is None:
        return context
    mine = time.monotonic() + seconds(explicit)
    return mine if context is None else min(mine, context)
