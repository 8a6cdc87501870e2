"""Reads the library's packed records. Their fields are taken from the lists in the library's own text, so that a field
has one description."""

from __future__ import annotations

import re
import struct
from typing import Any

Record = dict[str, Any]
_MODEL_OF = {"c": "continuous", "f": "fixed", "s": "sliding", "l": "fixed_learnt"}
_SIZES = {"": ("d", 8), "?": ("B", 1), "!": ("c", 1)}


def _module(library: str, name: str) -> str:
    """The module's text without comments."""
    found = re.search(rf"^modules\.{name} = \(function\(\)\n(.*?)^end\)\(\)$", library, re.M | re.S)
    if found is None:
        raise ValueError(f"the library has no module {name}")
    return re.sub(r"--[^\n]*", "", found.group(1))


def _braces(text: str, opening: str) -> list[str]:
    """What is between the braces after `opening`, at the first level, one text per pair."""
    at = text.index(opening) + len(opening)
    out, depth, begin = [], 1, at
    for i in range(at, len(text)):
        if text[i] == "{":
            if depth == 0:
                begin = i + 1
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                out.append(text[begin:i])
        elif depth == 0 and text[i] in ")\n":
            break
    return out


def _fields(text: str) -> list[str]:
    return re.findall(r"'(\w+[?!*]?)'", text)


class _Reader:
    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw, self.at = raw, at

    def take(self, fields: list[str], dims: int) -> Record:
        out: Record = {}
        for field in fields:
            name, kind = (field, "") if field[-1] not in "?!*" else (field[:-1], field[-1])
            if kind == "*":
                out[name] = self.doubles(dims)
                continue
            code, size = _SIZES[kind]
            value = struct.unpack_from("<" + code, self.raw, self.at)[0]
            out[name] = {"": value, "?": value == 1, "!": value.decode() if kind == "!" else None}[kind]
            self.at += size
        return out

    def doubles(self, count: int) -> list[float]:
        values = struct.unpack_from(f"<{count}d", self.raw, self.at)
        self.at += 8 * count
        return list(values)


class Layout:
    """The records of one library text."""

    def __init__(self, library: str) -> None:
        states = _module(library, "states")
        self.head = _fields(_braces(states, "local HEAD = {")[0])
        self.dim = _fields(_braces(states, "local DIM = {")[0])
        self.klass = _fields(_braces(states, "local CLASS = {")[0])
        windows = _braces(states, "local WINDOW = {")[0]
        self.window = {name: _fields(text) for name, text in re.findall(r"(\w+) = \{([^}]*)\}", windows)}
        self.flow_head, self.flow_dim = self._by_count(library, "flows", "codecs")
        self.call_head, self.call_dim = self._by_count(library, "calls", "codecs")
        self.ended_head, _ = self._by_count(library, "calls", "ended_codecs")

    @staticmethod
    def _by_count(library: str, module: str, variable: str) -> tuple[list[str], list[str]]:
        text = _module(library, module)
        head = f"local {variable} = records.by_count({{"
        first = _braces(text, head)[0]
        rest = text[text.index(head) + len(head) + len(first) :]
        return _fields(first), _fields(_braces(rest, ", {")[0])

    def state(self, raw: bytes) -> Record:
        shape = raw[1 : 1 + raw[0]].decode()
        letters = re.findall("[a-z]", shape)
        reader = _Reader(raw, 1 + raw[0])
        state = reader.take(self.head, len(letters))
        state["dims"] = []
        for letter in letters:
            model = _MODEL_OF[letter]
            state["dims"].append({"model": model, **reader.take(self.dim + self.window[model], len(letters))})
        state["classes"] = [reader.take(self.klass, len(letters)) for _ in range(int(shape[len(letters) :]))]
        for dim in state["dims"]:
            if "history_size" in dim:
                dim["history"] = reader.doubles(int(dim["history_size"]))
        return state

    def flow(self, raw: bytes) -> Record:
        reader = _Reader(raw, 1)
        flow = reader.take(self.flow_head, raw[0])
        flow["dims"] = [reader.take(self.flow_dim, raw[0]) for _ in range(raw[0])]
        flow["tag"] = max([0.0, *(dim["F"] for dim in flow["dims"])])
        return flow

    def call(self, raw: bytes) -> Record:
        reader = _Reader(raw, 1)
        if raw[0] == 0:
            call = reader.take(self.ended_head, 0)
            call["tenant"] = raw[reader.at :].decode()
            return call
        call = reader.take(self.call_head, raw[0])
        call["dims"] = [reader.take(self.call_dim, raw[0]) for _ in range(raw[0])]
        size = struct.unpack_from("<H", raw, reader.at)[0]
        call["tenant"] = raw[reader.at + 2 : reader.at + 2 + size].decode()
        return call
