"""Compares what was observed with what a case expects.

An expectation is a value to be equal to, a mapping whose keys are looked at (others may be there), or one of
  {min: 1, max: 2}         a number in the range, either end may be missing
  {matches: "regex"}       a text in which it is found
  {absent: true}           missing, null, or an empty text, list or mapping
  {present: true}          the opposite
  {save: name}             anything; later expectations and commands say "${name}"
{} is the empty mapping. Lists are compared element by element, and have as many of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"\$\{(\w+)\}")


def substitute(value: Any, names: Mapping[str, Any]) -> Any:
    """Puts saved values in place of "${name}". KeyError: a name that was not saved."""
    if isinstance(value, str):
        whole = _NAME.fullmatch(value)
        return names[whole[1]] if whole else _NAME.sub(lambda match: str(names[match[1]]), value)
    if isinstance(value, Mapping):
        return {key: substitute(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [substitute(inner, names) for inner in value]
    return value


def differences(expected: Any, found: Any, names: dict[str, Any], path: str = "") -> list[str]:
    """Says what differs; empty: nothing. Saves into names."""
    if isinstance(expected, Mapping):
        return _mapping(expected, found, names, path)
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            count = len(found) if isinstance(found, list) else "no list"
            return [f"{path}: expected {len(expected)} elements, found {count}: {found!r}"]
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for i, (want, have) in pairs for line in differences(want, have, names, f"{path}[{i}]")]
    wanted = substitute(expected, names)
    same_kind = isinstance(wanted, bool) == isinstance(found, bool)
    return [] if same_kind and wanted == found else [f"{path}: expected {wanted!r}, found {found!r}"]


def _mapping(expected: Mapping[str, Any], found: Any, names: dict[str, Any], path: str) -> list[str]:
    keys = set(expected)
    if keys == {"save"}:
        names[expected["save"]] = found
        return [] if found not in (None, "") else [f"{path}: nothing to save"]
    if keys in ({"absent"}, {"present"}):
        is_absent = found in (None, "", [], {})
        return (
            []
            if is_absent == ("absent" in keys)
            else [f"{path}: expected {'no' if not is_absent else 'a'} value, found {found!r}"]
        )
    if keys == {"matches"}:
        matched = isinstance(found, str) and re.search(expected["matches"], found)
        return [] if matched else [f"{path}: expected a text with /{expected['matches']}/, found {found!r}"]
    if keys and keys <= {"min", "max"}:
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            return [f"{path}: expected a number, found {found!r}"]
        low, high = expected.get("min", found), expected.get("max", found)
        return [] if low <= found <= high else [f"{path}: expected {low} to {high}, found {found}"]
    if not isinstance(found, Mapping):
        return [f"{path}: expected {dict(expected)!r}, found {found!r}"]
    if not expected:
        return [f"{path}: expected nothing, found {dict(found)!r}"] if found else []
    return [
        line for key, want in expected.items() for line in differences(want, found.get(key), names, f"{path}.{key}")
    ]
