"""The contract's Python stubs, generated from proto/ into the build directory on first use."""

from __future__ import annotations

import importlib.resources
import os
import pathlib
import shutil
import sys
import tempfile

SOURCE_DIR = pathlib.Path(
    os.environ.get("FAIRGATE_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2])
)
BUILD_DIR = pathlib.Path(os.environ.get("FAIRGATE_BUILD_DIR", SOURCE_DIR / "build" / "release"))


def _generate(protos: list[pathlib.Path], into: pathlib.Path) -> None:
    from grpc_tools import protoc

    include = importlib.resources.files("grpc_tools") / "_proto"
    arguments = ["protoc", f"-I{SOURCE_DIR / 'proto'}", f"-I{include}"]
    arguments += [f"--python_out={into}", f"--grpc_python_out={into}", *map(str, protos)]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed on the contract")


def _ensure() -> pathlib.Path:
    """Tests run side by side: each generates aside, and one rename wins."""
    protos = sorted((SOURCE_DIR / "proto" / "fairgate" / "v1").glob("*.proto"))
    stamp = max(proto.stat().st_mtime_ns for proto in protos)
    target = BUILD_DIR / "eval-stubs" / str(stamp)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        aside = pathlib.Path(tempfile.mkdtemp(dir=target.parent))
        try:
            _generate(protos, aside)
            aside.rename(target)
        except OSError:
            if not target.exists():
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return target


sys.path.insert(0, str(_ensure()))

from fairgate.v1 import admin_pb2, admin_pb2_grpc  # noqa: E402, F401
from fairgate.v1 import admission_pb2, admission_pb2_grpc  # noqa: E402, F401
from fairgate.v1 import policy_pb2  # noqa: E402, F401
