"""Test-only: takes one mechanism out of the scripts' text, so that production Lua stays free of switches."""

from __future__ import annotations

from collections.abc import Mapping

from .jobs import Job

# name → [(text, replacement)]; each text must be in the library exactly once.
MECHANISMS: Mapping[str, list[tuple[str, str]]] = {}


def without(name: str, text: str) -> str:
    """The library's text with the mechanism off. KeyError: no such mechanism. ValueError: its text is not there once."""
    if not name:
        return text
    for old, new in MECHANISMS[name]:
        if text.count(old) != 1:
            raise ValueError(f"mechanism {name}: {text.count(old)} places with {old!r}")
        text = text.replace(old, new)
    return text


# Where each is measured with and without.
ABLATIONS: Mapping[str, list[Job]] = {}
