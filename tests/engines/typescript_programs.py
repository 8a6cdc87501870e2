"""Programs in TypeScript as users write them, beside the built package, so that its name means that one."""

import pathlib

import common
from commands import run

STAGE = common.BUILD_DIR / "client-typescript"
_OPTIONS = ["--ignoreConfig", "--strict", "--skipLibCheck", "--target", "es2022", "--lib", "es2022,esnext.disposable"]


def compiled(folder: pathlib.Path, *files: str) -> None:
    """Strictly."""
    tsc = STAGE / "node_modules" / "typescript" / "bin" / "tsc"
    run(STAGE / "node", tsc, *_OPTIONS, "--module", "nodenext", "--types", "node", *files, cwd=folder)


def folder_of(name: str) -> pathlib.Path:
    """For a test's programs."""
    folder = STAGE / "engines" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
