"""As much of RESP as counting takes: where one frame ends, and whether it is an error."""

from __future__ import annotations

from collections.abc import Iterator

_LINES = b"+-:_#,("
_BULKS = b"$=!"
_AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}


def frame_end(buffer: bytes | bytearray, start: int = 0) -> int | None:
    """The index behind the frame that begins at `start`; None: it is not complete. ValueError: not RESP."""
    open_frames = 1
    at = start
    while open_frames > 0:
        line_end = buffer.find(b"\r\n", at)
        if line_end < 0:
            return None
        kind = buffer[at]
        open_frames -= 1
        if kind in _LINES:
            at = line_end + 2
        elif kind in _BULKS:
            size = int(buffer[at + 1:line_end])
            at = line_end + 2 + (size + 2 if size >= 0 else 0)
            if at > len(buffer):
                return None
        elif kind in _AGGREGATES:
            open_frames += max(0, int(buffer[at + 1:line_end])) * _AGGREGATES[kind]
            at = line_end + 2
        else:
            raise ValueError(f"not RESP: {bytes(buffer[at:at + 20])!r}")
    return at


class Frames:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._buffer += data
        at = 0
        while at < len(self._buffer) and (end := frame_end(self._buffer, at)) is not None:
            yield bytes(self._buffer[at:end])
            at = end
        del self._buffer[:at]
