"""Generates the contract's Python stubs: `python build_stubs.py FOLDER` writes FOLDER/fairgate/v1."""

from __future__ import annotations

import importlib.resources
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def proto_dir() -> pathlib.Path:
    """The protos: beside this file in a source distribution, at the tree's top otherwise."""
    for folder in (HERE / "proto", HERE.parents[1] / "proto"):
        if (folder / "fairgate" / "v1" / "admission.proto").exists():
            return folder
    raise FileNotFoundError("proto/fairgate/v1 is neither here nor two folders up")


def generate(into: pathlib.Path) -> None:
    """Writes into/fairgate/v1 with messages, their type stubs and the gRPC stubs. RuntimeError: protoc failed."""
    from grpc_tools import protoc  # noqa: PLC0415 - a build requirement only

    protos = proto_dir()
    files = sorted(str(path) for path in (protos / "fairgate" / "v1").glob("*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    arguments = ["protoc", f"-I{protos}", f"-I{well_known}"]
    arguments += [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main([*arguments, *files]) != 0:
        raise RuntimeError("protoc failed on the contract")
    (into / "fairgate" / "v1" / "__init__.py").write_text('"""The generated contract, fairgate.v1."""\n')


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    generate(target)
