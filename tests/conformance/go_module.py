"""The Go client as the build staged it: a complete module, with its stubs."""

from __future__ import annotations

import os
import pathlib
import subprocess

import staging

CLIENT = staging.SOURCE_DIR / "client" / "go"
MODULE = staging.BUILD_DIR / "client-go" / "fairgate"


def run(*command: object, cwd: pathlib.Path = MODULE, **environment: str) -> str:
    """Its output; AssertionError: it failed."""
    variables = {**os.environ, "GOWORK": "off", **environment}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=variables, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def go(*arguments: object, cwd: pathlib.Path = MODULE, **environment: str) -> str:
    """`go` with the caches of the tree."""
    return run(CLIENT / "go.sh", *arguments, cwd=cwd, **environment)


def setting(name: str) -> str:
    """Of `go env`, for example GOROOT."""
    return go("env", name).strip()
