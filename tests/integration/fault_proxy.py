"""A proxy between gate and Valkey that makes the network's and the store's faults on demand.

As a program (a process of its own, so that it does not share the tests' loop): `fault_proxy.py HOST PORT`. Prints its
port; then takes one JSON object per line on stdin, {"do": name of a FaultProxy method, ...arguments}, and answers each
with one JSON line. It ends with its stdin.

What TCP can do to a reply is model for the faults: bytes are never lost in the middle of a connection. A lost reply
takes all later ones of its connection along, and the connection is cut.
"""

from __future__ import annotations

import asyncio
import collections
import json
import logging
import socket
import struct
import sys
import time
from typing import Any

from resp import Frames

READ_MAX = 1 << 16
BACKLOG = 128
FILLERS = 3  # connections that fill a queue of length 0


def _abort(writer: asyncio.StreamWriter | None) -> None:
    """Ends a connection with a reset, as a died peer or a firewall does."""
    if writer is None or writer.transport is None:
        return
    sock = writer.transport.get_extra_info("socket")
    if sock is not None and not writer.transport.is_closing():
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    writer.transport.abort()


class _Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy, self.reader, self.writer = proxy, reader, writer
        self.upstream: asyncio.StreamWriter | None = None
        # What the client is owed, in order: its request, and the reply if the proxy gives it itself.
        self.owed: collections.deque[tuple[bytes, bytes | None]] = collections.deque()
        self.swallowing = False

    async def run(self) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            await self.proxy.flowing.wait()  # a silent store: connected, but nobody reads
            from_store, self.upstream = await asyncio.open_connection(*self.proxy.upstream)
            tasks = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._replies(from_store))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.cut()
            self.proxy.pairs.discard(self)

    def cut(self) -> None:
        _abort(self.writer)
        _abort(self.upstream)

    async def _requests(self) -> None:
        frames = Frames()
        while data := await self.reader.read(READ_MAX):
            await self.proxy.flowing.wait()
            for request in frames.feed(data):
                instead = self.proxy.take_answer(request)
                self.owed.append((request, instead))
                if instead is None:
                    self.upstream.write(request)
            self._give_own()
            await self.upstream.drain()

    async def _replies(self, from_store: asyncio.StreamReader) -> None:
        frames = Frames()
        while data := await from_store.read(READ_MAX):
            if self.proxy.reply_delay_s > 0:
                await asyncio.sleep(self.proxy.reply_delay_s)
            await self.proxy.flowing.wait()
            for reply in frames.feed(data):
                request, _ = self.owed.popleft()
                if self.swallowing:
                    continue
                if self.proxy.take_loss(request):
                    self.swallowing = True
                    asyncio.get_running_loop().call_later(self.proxy.cut_after_s, self.cut)
                    continue
                self.proxy.replies += 1
                self.writer.write(reply)
                self._give_own()
            await self.writer.drain()

    def _give_own(self) -> None:
        while self.owed and self.owed[0][1] is not None and not self.swallowing:
            self.writer.write(self.owed.popleft()[1])


class FaultProxy:
    """One listening port in front of one store. Faults last until `restore`, or for as many replies as said."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.flowing = asyncio.Event()  # cleared: nothing passes
        self.flowing.set()
        self.reply_delay_s = 0.0
        self.cut_after_s = 0.0
        self.pairs: set[_Pair] = set()
        self.replies = 0
        self._lost = 0
        self._accepted_at: list[float] = []
        self._losses: list[tuple[bytes, int]] = []
        self._answers: list[tuple[bytes, bytes]] = []
        self._fillers: list[socket.socket] = []
        self._filler_names: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptor: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self.port = 0

    async def start(self) -> None:
        self._listen()

    async def stop(self) -> None:
        self.restore()
        self._unlisten()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Faults

    def lose_reply(self, match: str = "FCALL", count: int = 1, skip: int = 0, cut_after_s: float = 0.0) -> None:
        """The store does what requests that hold `match` ask, but `count` connections lose the reply, and what comes
        after it; the first `skip` of them get through. Each connection is cut `cut_after_s` later."""
        self.cut_after_s = cut_after_s
        self._losses += [(match.encode(), skip)] + [(match.encode(), 0)] * (count - 1)

    def answer(self, error: str, match: str = "FCALL", count: int = 1) -> None:
        """The next `count` requests that hold `match` do not reach the store and get this reply, for example
        "-OOM command not allowed"."""
        self._answers += [(match.encode(), error.encode() + b"\r\n")] * count

    def delay(self, seconds: float) -> None:
        """Holds every reply for so long."""
        self.reply_delay_s = seconds

    def cut(self) -> None:
        """Resets all connections; new ones are welcome."""
        for pair in list(self.pairs):
            pair.cut()

    def refuse(self) -> None:
        """Resets all connections and refuses new ones."""
        self._unlisten()
        self.cut()

    def hang(self) -> None:
        """Connections stand and new ones come about, but nothing is read or answered: a stopped process."""
        self.flowing.clear()

    def black_hole(self) -> None:
        """All packets vanish: what is connected hears nothing, and a new connection gets no answer to its first
        packet, for the queue of those who wait to be accepted is kept full."""
        self.hang()
        if self._acceptor is not None:
            self._acceptor.cancel()
            self._acceptor = None
        self._listener.listen(0)
        for _ in range(FILLERS):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._fillers.append(filler)
            self._filler_names.add(filler.getsockname())

    def restore(self) -> None:
        """Ends every fault. What a silent connection was sent meanwhile goes on, as TCP sends it again."""
        self._losses.clear()
        self._answers.clear()
        self.reply_delay_s = 0.0
        for filler in self._fillers:
            filler.close()
        self._fillers.clear()
        self.flowing.set()
        if self._listener is None:
            self._listen()
        elif self._acceptor is None:
            self._listener.listen(BACKLOG)
            self._accept_more()

    def move(self, host: str, port: int) -> None:
        """New connections lead to another store; those that stand keep theirs."""
        self.upstream = (host, port)

    def state(self) -> dict[str, Any]:
        """`accepted_at` in seconds of the system's monotonic clock."""
        return {"accepted": len(self._accepted_at), "accepted_at": self._accepted_at, "open": len(self.pairs),
                "replies": self.replies, "lost": self._lost, "answers_left": len(self._answers),
                "losses_left": len(self._losses)}

    # Asked by connections

    def take_answer(self, request: bytes) -> bytes | None:
        if self._answers and self._answers[0][0] in request:
            return self._answers.pop(0)[1]
        return None

    def take_loss(self, request: bytes) -> bool:
        if not self._losses or self._losses[0][0] not in request:
            return False
        match, skip = self._losses[0]
        if skip > 0:
            self._losses[0] = (match, skip - 1)
            return False
        self._losses.pop(0)
        self._lost += 1
        return True

    def _listen(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setblocking(False)
        self._listener.bind(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._listener.listen(BACKLOG)
        self._accept_more()

    def _unlisten(self) -> None:
        if self._acceptor is not None:
            self._acceptor.cancel()
            self._acceptor = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _accept_more(self) -> None:
        self._acceptor = asyncio.ensure_future(self._accept())

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, peer = await loop.sock_accept(self._listener)
            if peer in self._filler_names:
                self._filler_names.discard(peer)
                accepted.close()
                continue
            # asyncio sets it by itself only where the socket's protocol was named.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accepted_at.append(time.monotonic())
            reader, writer = await asyncio.open_connection(sock=accepted)
            pair = _Pair(self, reader, writer)
            self.pairs.add(pair)
            task = asyncio.ensure_future(pair.run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def main() -> None:
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of writing to what was just cut
    proxy = FaultProxy(sys.argv[1], int(sys.argv[2]))
    await proxy.start()
    print(json.dumps(proxy.port), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        order = json.loads(line)
        print(json.dumps(getattr(proxy, order.pop("do"))(**order)), flush=True)
    await proxy.stop()


if __name__ == "__main__":
    asyncio.run(main())
