"""The mock over real HTTP on loopback."""

import asyncio
import pathlib
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from upstream import Behaviour, Upstream
from windows import make_limiter

FAST = {"latency_min": 0.001, "latency_max": 0.002}
Post = Callable[..., Awaitable[tuple[int, dict, dict]]]


def with_upstream(upstream: Upstream, body: Callable[[Post], Awaitable[None]]) -> None:
    async def run() -> None:
        base = await upstream.start()
        try:
            async with aiohttp.ClientSession() as session:

                async def post(words: int, completion: int = 0, **extra: object):
                    message = {"role": "user", "content": "tok " * words}
                    async with session.post(
                        base + "/v1/chat/completions",
                        json={"model": "m", "messages": [message], **extra},
                        headers={"x-mock-completion-tokens": str(completion)},
                    ) as response:
                        return response.status, await response.json(), dict(response.headers)

                await body(post)
        finally:
            await upstream.stop()

    asyncio.run(run())


def make(behaviour: Behaviour | None = None, **caps: float) -> Upstream:
    """A clock that stands still, a quarter into a window."""
    limiter = make_limiter("fixed", caps or {"requests": 100.0})
    return Upstream(limiter, behaviour or Behaviour(**FAST), clock=lambda: 1000.25)


def test_usage_and_max_tokens() -> None:
    async def body(post: Post) -> None:
        status, answer, _ = await post(7, 20)
        assert status == 200
        assert answer["usage"] == {"prompt_tokens": 7, "completion_tokens": 20, "total_tokens": 27}
        assert answer["choices"][0]["finish_reason"] == "stop"
        _, answer, _ = await post(7, 20, max_tokens=5)
        assert answer["usage"]["total_tokens"] == 12
        assert answer["choices"][0]["finish_reason"] == "length"

    with_upstream(make(), body)


def test_beyond_the_cap() -> None:
    upstream = make(requests=2.0, tokens=100.0)

    async def body(post: Post) -> None:
        assert (await post(10))[0] == 200
        status, answer, headers = await post(95)
        assert status == 429
        assert answer["error"]["code"] == "rate_limit_exceeded"
        assert answer["error"]["type"] == "tokens"
        assert headers["Retry-After"] == headers["retry-after-ms"] == "750"
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert headers["x-ratelimit-remaining-requests"] == "1"
        assert headers["x-ratelimit-reset-requests"] == "750ms"
        assert headers["x-ratelimit-limit-tokens"] == "100"
        assert headers["x-ratelimit-remaining-tokens"] == "90"
        assert (await post(10))[0] == 200
        assert (await post(10))[1]["error"]["type"] == "requests"

    with_upstream(upstream, body)
    assert upstream.answers == {200: 2, 429: 2}


def test_concurrent_calls_never_pass_the_cap() -> None:
    async def body(post: Post) -> None:
        answers = await asyncio.gather(*(post(1) for _ in range(50)))
        assert sorted(a[0] for a in answers) == [200] * 20 + [429] * 30

    with_upstream(make(requests=20.0), body)


def test_latency_is_in_its_range_and_slow_is_tenfold() -> None:
    behaviour = Behaviour(latency_min=0.02, latency_max=0.03)

    async def body(post: Post) -> None:
        for slow, least in ((False, 0.02), (True, 0.2)):
            behaviour.slow = slow
            start = time.monotonic()
            assert (await post(1))[0] == 200
            assert time.monotonic() - start >= least

    with_upstream(make(behaviour), body)


def test_outage_truncation_and_bad_bodies() -> None:
    behaviour = Behaviour(**FAST, truncated_share=1.0)

    async def body(post: Post) -> None:
        _, answer, _ = await post(1, 20)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 10
        assert (await post(1, max_tokens="many"))[0] == 400
        behaviour.outage = True
        status, answer, _ = await post(1)
        assert (status, answer["error"]["type"]) == (503, "server_error")

    with_upstream(make(behaviour), body)


def test_program_prints_its_port() -> None:
    async def run() -> None:
        program = pathlib.Path(__file__).with_name("upstream.py")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(program), "--requests=1", "--model=sliding",
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            port = int(await asyncio.wait_for(process.stdout.readline(), 20))
            body = {"messages": [{"role": "user", "content": "hi"}]}
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                statuses = []
                for _ in range(2):
                    async with session.post(url, json=body) as response:
                        statuses.append(response.status)
            assert statuses == [200, 429]
        finally:
            process.terminate()
            await process.wait()

    asyncio.run(run())


@pytest.mark.parametrize("seed", [1, 2])
def test_latencies_repeat_with_the_seed(seed: int) -> None:
    one, two = (Upstream(make_limiter("fixed", {"requests": 1.0}), seed=seed) for _ in range(2))
    drawn = [one._latency() for _ in range(20)]
    assert drawn == [two._latency() for _ in range(20)]
    assert all(0.05 <= latency <= 0.15 for latency in drawn)
