"""What the Python workers of all engines do in a step. See common.py."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import aiohttp

import fairgate

RPC_TIMEOUT_S = 5.0
"""Workers give the gate so long: a busy machine is no gate that is away."""


class Sender:
    """Sends to the upstream, as the options say."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    async def admitted(self, work: dict[str, Any], call: fairgate.AsyncCall) -> None:
        """With the gate's permission."""
        self._die_at("granted")
        _, answer = await self._post(work, call.request_id, call.attempt, call.degraded)
        self._die_at("answered")
        if call.attempt <= self._options["fail_sends"]:
            raise ConnectionError("the connection broke")
        call.settle(response=answer)

    async def naive(self, work: dict[str, Any], request_id: str) -> None:
        """Without the gate: sleeps as long as it is refused."""
        while True:
            retry_after_s, _ = await self._post(work, request_id, 1, False)
            if retry_after_s == 0:
                return
            await asyncio.sleep(retry_after_s)

    async def _post(self, work: dict[str, Any], request_id: str, attempt: int, degraded: bool) -> tuple[float, Any]:
        body = {name: work[name] for name in ("work", "tenant", "priority")}
        body |= {"request_id": request_id, "attempt": attempt, "degraded": degraded}
        async with aiohttp.ClientSession() as http, http.post(work["upstream"], json=body) as response:
            return float(response.headers.get("Retry-After", 0)), await response.json()

    def _die_at(self, point: str) -> None:
        if self._options["die_at"] == point:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)  # the signal may take a moment, in which nothing more is done


def question_of(work: dict[str, Any]) -> dict[str, Any]:
    """What `run` of an adapter takes of it."""
    question = {name: work[name] for name in ("target", "tenant", "priority")}
    return {**question, "deadline": work["deadline_s"] or None}
