"""The Go client as the build staged it: a complete module, with its stubs."""

from __future__ import annotations

import os
import pathlib

import commands
import staging

CLIENT = staging.SOURCE_DIR / "client" / "go"
MODULE = staging.BUILD_DIR / "client-go" / "fairgate"


def run(*command: object, cwd: pathlib.Path = MODULE, **environment: str) -> str:
    """Its output; AssertionError: it failed."""
    return commands.run(*command, cwd=cwd, env={**os.environ, "GOWORK": "off", **environment})


def go(*arguments: object, cwd: pathlib.Path = MODULE, **environment: str) -> str:
    """`go` with the caches of the tree."""
    return run(CLIENT / "go.sh", *arguments, cwd=cwd, **environment)


def setting(name: str) -> str:
    """Of `go env`, for example GOROOT."""
    return go("env", name).strip()
