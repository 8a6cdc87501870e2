"""The fault proxy itself, against a store that counts what it was asked."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
import pytest_asyncio
from fault_proxy import FaultProxy
from resp import Frames, frame_end

PING = b"*1\r\n$4\r\nPING\r\n"
FCALL = b"*2\r\n$5\r\nFCALL\r\n$1\r\nx\r\n"


@pytest.mark.parametrize("frame", [
    b"+OK\r\n", b"-ERR no\r\n", b":7\r\n", b"$-1\r\n", b"$0\r\n\r\n", b"$5\r\na\r\nbc\r\n", b"*-1\r\n", b"*0\r\n",
    b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", b"%1\r\n+k\r\n*2\r\n:1\r\n:2\r\n", b"_\r\n", b"#t\r\n", FCALL])
def test_a_frame_ends_where_it_ends(frame):
    assert frame_end(frame + b"+next\r\n") == len(frame)
    for cut in range(len(frame)):
        assert frame_end(frame[:cut]) is None


def test_frames_do_not_depend_on_how_the_stream_is_cut():
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    choice = random.Random(seed)
    sent = [choice.choice([PING, FCALL, b"+OK\r\n", b"$3\r\n\r\n\r\r\n"]) for _ in range(200)]
    stream, frames, got = b"".join(sent), Frames(), []
    while stream:
        n = choice.randrange(1, 30)
        got += frames.feed(stream[:n])
        stream = stream[n:]
    assert got == sent


class Store:
    """Answers each request with its number."""

    def __init__(self) -> None:
        self.requests = 0

    async def serve(self, reader, writer):
        frames = Frames()
        while data := await reader.read(4096):
            for _ in frames.feed(data):
                self.requests += 1
                writer.write(b":%d\r\n" % self.requests)


@pytest_asyncio.fixture
async def world():
    store = Store()
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    proxy = FaultProxy("127.0.0.1", server.sockets[0].getsockname()[1])
    await proxy.start()
    yield store, proxy
    await proxy.stop()
    server.close()


async def dial(proxy, timeout_s=2.0):
    return await asyncio.wait_for(asyncio.open_connection("127.0.0.1", proxy.port), timeout_s)


async def ask(connection, request=FCALL, timeout_s=2.0):
    connection[1].write(request)
    return await asyncio.wait_for(connection[0].readuntil(b"\r\n"), timeout_s)


@pytest.mark.asyncio
async def test_passes_and_counts(world):
    store, proxy = world
    a, b = await dial(proxy), await dial(proxy)
    assert [await ask(a), await ask(b), await ask(a, PING)] == [b":1\r\n", b":2\r\n", b":3\r\n"]
    assert proxy.state()["accepted"] == 2 and proxy.replies == 3 and store.requests == 3


@pytest.mark.asyncio
async def test_a_lost_reply_was_done_and_cuts_the_connection(world):
    store, proxy = world
    a, b = await dial(proxy), await dial(proxy)
    proxy.lose_reply(skip=1)
    assert await ask(a, PING) == b":1\r\n"  # does not match
    assert await ask(a) == b":2\r\n"  # skipped
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await ask(a)
    assert store.requests == 3 and proxy.state()["lost"] == 1
    assert await ask(b) == b":4\r\n"


@pytest.mark.asyncio
async def test_an_answer_instead_keeps_the_order_and_reaches_no_store(world):
    store, proxy = world
    a = await dial(proxy)
    proxy.answer("-OOM full")
    a[1].write(PING + FCALL + PING)
    assert [await a[0].readuntil(b"\r\n") for _ in range(3)] == [b":1\r\n", b"-OOM full\r\n", b":2\r\n"]
    assert store.requests == 2


@pytest.mark.asyncio
async def test_delay(world):
    _, proxy = world
    a = await dial(proxy)
    proxy.delay(0.2)
    start = time.monotonic()
    await ask(a)
    assert time.monotonic() - start >= 0.2


@pytest.mark.asyncio
async def test_cut_and_refuse(world):
    _, proxy = world
    a = await dial(proxy)
    await ask(a)
    proxy.cut()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
        await ask(a)
    await ask(await dial(proxy))
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await dial(proxy)
    proxy.restore()
    assert proxy.port == port
    await ask(await dial(proxy))


@pytest.mark.asyncio
async def test_hang_accepts_and_says_nothing(world):
    store, proxy = world
    a = await dial(proxy)
    await ask(a)
    proxy.hang()
    b = await dial(proxy)
    for connection in (a, b):
        with pytest.raises(asyncio.TimeoutError):
            await ask(connection, timeout_s=0.2)
    assert store.requests == 1
    proxy.restore()
    assert {await a[0].readuntil(b"\r\n"), await b[0].readuntil(b"\r\n")} == {b":2\r\n", b":3\r\n"}


@pytest.mark.asyncio
async def test_black_hole_answers_no_packet_at_all(world):
    _, proxy = world
    a = await dial(proxy)
    await ask(a)
    proxy.black_hole()
    with pytest.raises(asyncio.TimeoutError):
        await ask(a, timeout_s=0.2)
    with pytest.raises(asyncio.TimeoutError):
        await dial(proxy, timeout_s=0.5)
    accepted = proxy.state()["accepted"]
    proxy.restore()
    assert await a[0].readuntil(b"\r\n") == b":2\r\n"
    assert await ask(await dial(proxy)) == b":3\r\n"
    assert proxy.state()["accepted"] - accepted <= 2  # the new one, and the one that gave up
