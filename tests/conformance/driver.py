"""A language's driver program: one JSON object per line in, one per line out."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

_ANSWER_TIMEOUT_S = 30
_LINE_MAX = 1 << 22


class DriverError(Exception):
    """The driver failed, as against the client behind it."""


class Driver:
    """Runs for one case."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._command = command
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """DriverError: there is no such program."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self._environment,
                limit=_LINE_MAX,
            )
        except OSError as error:
            raise DriverError(f"cannot start {self._command}: {error}") from error

    async def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """DriverError: no answer, or one that says driver_error."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            line = await asyncio.wait_for(process.stdout.readline(), _ANSWER_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise DriverError(f"no answer to {command} within {_ANSWER_TIMEOUT_S} s") from None
        except OSError as error:
            raise DriverError(f"{command}: {error}") from error
        try:
            answer = json.loads(line)
        except ValueError:
            raise DriverError(f"not JSON, as an answer to {command}: {line!r}") from None
        if "driver_error" in answer:
            raise DriverError(f"{command}: {answer['driver_error']}")
        return dict(answer)

    async def stop(self) -> None:
        """It ends with its input."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
