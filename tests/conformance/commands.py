"""Programs that the package tests run."""

from __future__ import annotations

import subprocess
from typing import Any


def run(*command: object, **options: Any) -> str:
    """Its output; AssertionError with all it wrote: it failed. `options`: of subprocess.run."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
