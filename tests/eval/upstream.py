"""An OpenAI-shaped mock with hard caps. As a program it prints its port and serves until killed.

A prompt's tokens are its words. The header x-mock-completion-tokens says how long the completion
would be (default 0); max_tokens cuts it. Caps are charged with the real usage on arrival.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import math
import pathlib
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from aiohttp import web

from windows import Limiter, make_limiter


@dataclasses.dataclass
class Behaviour:
    """What the mock does to calls; may be changed while it serves."""

    latency_min: float = 0.05  # seconds
    latency_max: float = 0.15
    slow: bool = False  # latency x 10, status still 200
    outage: bool = False  # every call is a 503
    truncated_share: float = 0.0  # part of the completions that end at half their length


class Upstream:
    """Serves on loopback between start() and stop()."""

    def __init__(
        self,
        limiter: Limiter,
        behaviour: Behaviour | None = None,
        seed: int = 1,
        clock: Callable[[], float] = time.time,
        log: TextIO | None = None,
        hint_in_seconds: bool = False,
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.answers: dict[int, int] = {}  # status -> calls
        self._limiter = limiter
        self._random = random.Random(seed)
        self._clock = clock
        self._log = log
        self._hint_in_seconds = hint_in_seconds
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> str:
        """Returns the base URL. Port 0 takes a free one."""
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port, backlog=1024).start()
        host, bound = self._runner.addresses[0][:2]
        return f"http://{host}:{bound}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _complete(self, request: web.Request) -> web.Response:
        response = await self._answer(request)
        if self._log is not None:
            self._log.write(f"{time.monotonic():.5f} {response.status}\n")
        self.answers[response.status] = self.answers.get(response.status, 0) + 1
        return response

    async def _answer(self, request: web.Request) -> web.Response:
        if self.behaviour.outage:
            return _error(503, "The server is overloaded or not ready yet.", "server_error", None)
        try:
            body = await request.json()
            prompt = sum(len(str(m["content"]).split()) for m in body["messages"])
            completion = int(request.headers.get("x-mock-completion-tokens", "0"))
            most = body.get("max_tokens")
            limit = completion if most is None else int(most)
        except (ValueError, KeyError, TypeError) as error:
            return _error(400, f"Bad request: {error}", "invalid_request_error", None)
        finish = "stop" if completion <= limit else "length"
        completion = min(completion, limit)
        if self._random.random() < self.behaviour.truncated_share:
            finish, completion = "length", completion // 2
        now = self._clock()
        verdict = self._limiter.admit(now, {"requests": 1, "tokens": prompt + completion})
        headers = self._limit_headers(now)
        if not verdict.admitted:
            wait_ms = max(1, math.ceil(verdict.retry_after * 1000))
            # Both in milliseconds, as the evaluated upstream does; real ones give seconds first.
            hint = math.ceil(wait_ms / 1000) if self._hint_in_seconds else wait_ms
            headers |= {"Retry-After": str(hint), "retry-after-ms": str(wait_ms)}
            message = f"Rate limit reached on {verdict.limited_by}. Try again in {wait_ms}ms."
            return _error(429, message, verdict.limited_by, "rate_limit_exceeded", headers)
        await asyncio.sleep(self._latency())
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        answer = _completion(str(body.get("model", "mock")), finish, usage)
        return web.json_response(answer, headers=headers)

    def _latency(self) -> float:
        behaviour = self.behaviour
        latency = self._random.uniform(behaviour.latency_min, behaviour.latency_max)
        return latency * 10 if behaviour.slow else latency

    def _limit_headers(self, now: float) -> dict[str, str]:
        headers = {}
        for name, window in self._limiter.windows.items():
            headers[f"x-ratelimit-limit-{name}"] = f"{window.limit:.0f}"
            headers[f"x-ratelimit-remaining-{name}"] = str(math.floor(window.remaining(now)))
            headers[f"x-ratelimit-reset-{name}"] = f"{math.ceil(window.reset(now) * 1000)}ms"
        return headers


def _completion(model: str, finish: str, usage: Mapping[str, int]) -> dict[str, object]:
    message = {"role": "assistant", "content": "ok"}
    return {
        "id": "chatcmpl-mock",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": dict(usage),
    }


def _error(
    status: int, message: str, kind: str, code: str | None, headers: Mapping[str, str] | None = None
) -> web.Response:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return web.json_response({"error": error}, status=status, headers=headers)


async def _serve(options: argparse.Namespace) -> None:
    caps = {"requests": options.requests}
    if options.tokens:
        caps["tokens"] = options.tokens
    behaviour = Behaviour(
        slow=options.slow, outage=options.outage, truncated_share=options.truncated
    )
    limiter = make_limiter(options.model, caps, options.window, options.count_rejected)
    log = options.log.open("w") if options.log else None
    upstream = Upstream(
        limiter, behaviour, options.seed, log=log, hint_in_seconds=options.hint_in_seconds
    )
    base = await upstream.start(options.port)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print(base.rsplit(":", 1)[1], flush=True)
    try:
        await stopped.wait()
    finally:
        await upstream.stop()
        if log is not None:
            log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--model", choices=("fixed", "sliding", "continuous"), default="fixed")
    parser.add_argument("--window", type=float, default=1.0, help="seconds")
    parser.add_argument("--requests", type=float, default=60.0, help="per window")
    parser.add_argument("--tokens", type=float, default=0.0, help="per window; 0: no token cap")
    parser.add_argument("--count-rejected", action="store_true")
    parser.add_argument("--truncated", type=float, default=0.0, help="part of the completions")
    parser.add_argument("--slow", action="store_true", help="latency x 10")
    parser.add_argument("--hint-in-seconds", action="store_true", help="Retry-After as HTTP has it")
    parser.add_argument("--outage", action="store_true", help="answer 503")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--log", type=pathlib.Path, help="a line per answer: monotonic seconds, status"
    )
    try:
        asyncio.run(_serve(parser.parse_args()))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
