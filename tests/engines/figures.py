"""FIGURES.md, one section per engine: each engine's script replaces its own and leaves the others."""

from __future__ import annotations

import pathlib
import re

FILE = pathlib.Path(__file__).resolve().parent / "FIGURES.md"
_HEAD = """# Durable engines, measured

Every section was written by the script that it names, on the real engine and a real gate.
"""


def write_section(name: str, text: str) -> None:
    """`name` is the section's title."""
    former = FILE.read_text() if FILE.exists() else _HEAD
    head, *rest = re.split(r"^## ", former, flags=re.MULTILINE)
    sections = dict(section.split("\n", 1) for section in rest)
    sections[name] = f"\n{text.strip()}\n"
    body = "\n".join(f"## {title}\n\n{content.strip()}\n" for title, content in sorted(sections.items()))
    FILE.write_text(f"{head.rstrip()}\n\n{body}")
