"""Test-only: takes one mechanism out of the scripts' text, so that production Lua stays free of switches."""

from __future__ import annotations

from collections.abc import Mapping

# name → {entry or "": [(text, replacement)]}; each text must be found in at least one bundle.
MECHANISMS: Mapping[str, list[tuple[str, str]]] = {}


def without(name: str, entry: str, text: str) -> str:
    """The bundle's text with the mechanism off. KeyError: no such mechanism. ValueError: nothing to take out."""
    if not name:
        return text
    for old, new in MECHANISMS[name]:
        if entry == "admit" and text.count(old) == 0:
            raise ValueError(f"mechanism {name}: {old!r} is not in {entry}.lua")
        text = text.replace(old, new)
    return text
