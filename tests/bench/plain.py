"""The plain script: the commands that one granted Admit runs, one after the other, with nothing between them."""

from __future__ import annotations

import ast
import collections
import dataclasses
import pathlib
import re
import socket
import threading
import time
from collections.abc import Callable

import redis

Command = tuple[bytes, ...]
EVALUATIONS = (b"EVALSHA", b"FCALL")
_FIELD = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LINE = re.compile(rb"^\+[0-9.]+ \[[0-9]+ (\S+)\] (.*)$")


@dataclasses.dataclass(frozen=True)
class Evaluation:
    call: Command  # name, script, number of keys, keys, argument
    commands: tuple[Command, ...]  # what it ran

    def names(self) -> tuple[str, ...]:
        return tuple(command[0].decode().upper() for command in self.commands)


def watch(path: pathlib.Path, act: Callable[[], object]) -> list[Evaluation]:
    """Every evaluation that the server runs while `act` does, by MONITOR."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(b"MONITOR\r\n")
        heard: list[bytes] = []

        def listen() -> None:
            while chunk := connection.recv(1 << 16):
                heard.append(chunk)

        thread = threading.Thread(target=listen)
        thread.start()
        time.sleep(0.05)
        act()
        time.sleep(0.2)
        connection.shutdown(socket.SHUT_RDWR)
        thread.join()
    return _parse(b"".join(heard))


def _parse(text: bytes) -> list[Evaluation]:
    found: list[Evaluation] = []
    call: Command | None = None
    commands: list[Command] = []
    for line in text.split(b"\r\n"):
        match = _LINE.match(line)
        if match is None:
            continue
        fields = tuple(ast.literal_eval("b" + field.decode("ascii")) for field in _FIELD.findall(match.group(2)))
        if match.group(1) == b"lua":
            commands.append(fields)
            continue
        if call is not None:
            found.append(Evaluation(call, tuple(commands)))
        call, commands = (fields if fields[0].upper() in EVALUATIONS else None), []
    return found


def typical(evaluations: list[Evaluation], target: str) -> Evaluation:
    """One of the target's that runs as many commands as all do on average: of the sequences nearest to that, the most
    frequent."""
    tag = b"{" + target.encode() + b"}"
    ours = [e for e in evaluations if len(e.call) > 3 and tag in e.call[3]]
    if not ours:
        raise RuntimeError(f"MONITOR saw no evaluation of target {target}")
    mean = sum(len(e.commands) for e in ours) / len(ours)
    nearest = min((len(e.commands) for e in ours), key=lambda count: abs(count - mean))
    sequences = collections.Counter(e.names() for e in ours if len(e.commands) == nearest)
    most = sequences.most_common(1)[0][0]
    return [e for e in ours if e.names() == most][-1]


def _literal(value: bytes) -> str:
    return '"' + "".join(chr(b) if b < 128 and chr(b).isalnum() else f"\\{b:03d}" for b in value) + '"'


def script(evaluation: Evaluation, request_id: bytes, answer_bytes: int) -> tuple[str, list[bytes]]:
    """The script and the keys that it takes: ARGV[1] is the request's id, everything else stands in it as it was."""
    keys = list(evaluation.call[3 : 3 + int(evaluation.call[2])])

    def expression(value: bytes) -> str:
        if value in keys:
            return f"KEYS[{keys.index(value) + 1}]"
        return "ARGV[1]" if value == request_id else _literal(value)

    lines = [f"redis.call({', '.join([_literal(c[0]), *map(expression, c[1:])])})" for c in evaluation.commands]
    lines.append(f"return {_literal(b'a' * answer_bytes)}")
    return "\n".join(lines) + "\n", keys


def copy_keys(client: redis.Redis, keys: list[bytes], target: str, other: str) -> list[bytes]:
    """Gives `other` the same keys with the same contents, so that reads find as much. Their names."""
    names = [key.replace(b"{" + target.encode() + b"}", b"{" + other.encode() + b"}") for key in keys]
    for key, name in zip(keys, names, strict=True):
        client.execute_command("COPY", key, name, "REPLACE")
    return names
