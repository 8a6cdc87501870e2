"""The network between a client and a gate: a TCP proxy that makes its faults on demand."""

from __future__ import annotations

import asyncio
import socket
import struct

READ_MAX = 1 << 16
_FRAME_HEADER_BYTES = 9
_DATA, _HEADERS = 0, 1


class Network:
    """One port in front of one gate.

    Faults hold until `restore`: `refuse` (nobody listens; what was connected is reset), `hold` (connected, but nothing
    passes in either direction), `lose_answers` (questions arrive, answers do not). `cut` resets what is connected,
    once; `cut_on_answer` does it in place of the next answer of the gate.
    """

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self._gate_port = 0
        self._listener: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._lose_answers = False
        self._cut_on_answer = False
        self._pairs: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def start(self, gate_port: int) -> None:
        """Listens on a free port that stays the same."""
        self._gate_port = gate_port
        await self._listen()

    async def stop(self) -> None:
        """Ends everything."""
        await self.refuse()
        for task in list(self._pairs):
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)

    async def refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.cut()

    async def hold(self) -> None:
        self._flowing.clear()

    async def lose_answers(self) -> None:
        self._lose_answers = True

    async def cut_on_answer(self) -> None:
        self._cut_on_answer = True

    async def restore(self) -> None:
        self._lose_answers = self._cut_on_answer = False
        self._flowing.set()
        await self._listen()

    def cut(self) -> None:
        """With a reset, as a died peer or a firewall does."""
        for writers in self._pairs.values():
            for writer in writers:
                sock = writer.get_extra_info("socket")
                if sock is not None and not writer.transport.is_closing():
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._pairs[task] = [writer]
        try:
            await self._flowing.wait()
            from_gate, to_gate = await asyncio.open_connection("127.0.0.1", self._gate_port)
            self._pairs[task].append(to_gate)
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._questions(reader, to_gate)),
                    asyncio.ensure_future(self._answers(from_gate, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        except (OSError, asyncio.CancelledError):  # the streams' own callback wants no cancelled task
            pass
        finally:
            for end in self._pairs.pop(task, []):
                end.transport.abort()

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(READ_MAX):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(READ_MAX):
                await self._flowing.wait()
                if self._cut_on_answer and _holds_answer(data):
                    self._cut_on_answer = False
                    self.cut()
                elif not self._lose_answers:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass


def _holds_answer(data: bytes) -> bool:
    """Whether a frame of an HTTP/2 stream, as against the connection's own, starts in it."""
    while len(data) >= _FRAME_HEADER_BYTES:
        if data[3] in (_DATA, _HEADERS):
            return True
        data = data[_FRAME_HEADER_BYTES + int.from_bytes(data[:3], "big") :]
    return False
