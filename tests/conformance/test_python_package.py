"""The Python client as its users get it: linted, built, installed into a fresh environment, run against a gate."""

from __future__ import annotations

import pathlib
import re
import sys
import tarfile
import venv
import zipfile

import pytest
import staging
from commands import run

CLIENT = staging.CLIENT_DIR
VERSION = re.search(r'"(.+)"', (CLIENT / "src" / "fairgate" / "_version.py").read_text())[1]
# Smallest ones that pyproject.toml admits.
OLDEST = ["grpcio==1.74.0", "protobuf==6.31.1", "googleapis-common-protos==1.70.0"]
POLICY = {
    "dimensions": [
        {"name": "requests", "limit": 1000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
        {"name": "tokens", "limit": 20000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
    ]
}


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, CLIENT)
    return folder


@pytest.fixture(scope="session", params=["newest", "oldest"])
def fresh_python(request, dist, tmp_path_factory):
    """An environment with the wheel and what it asks for alone."""
    folder = tmp_path_factory.mktemp(request.param)
    venv.create(folder, with_pip=True)
    pins = OLDEST if request.param == "oldest" else []
    wheel = dist / f"fairgate-{VERSION}-py3-none-any.whl"
    run(folder / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel, *pins)
    return folder / "bin" / "python"


def test_lint():
    run(sys.executable, "-m", "ruff", "check", "--no-cache", CLIENT)
    run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", CLIENT)


def test_types(tmp_path):
    stage = staging.stage()
    config = CLIENT / "pyproject.toml"
    run(sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path, "-p", "fairgate", cwd=stage)


def test_sdist_holds_the_protos_and_no_stubs(dist):
    with tarfile.open(dist / f"fairgate-{VERSION}.tar.gz") as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"proto/fairgate/v1/admission.proto", "LICENSE", "README.md", "src/fairgate/py.typed"} <= names
    assert not {name for name in names if "_pb2" in name or "__pycache__" in name}


def test_wheel_holds_stubs_types_and_licence(dist):
    with zipfile.ZipFile(dist / f"fairgate-{VERSION}-py3-none-any.whl") as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"fairgate-{VERSION}.dist-info/METADATA").decode()
    stubs = {f"fairgate/v1/admission_{kind}" for kind in ("pb2.py", "pb2.pyi", "pb2_grpc.py")}
    assert stubs | {"fairgate/py.typed", f"fairgate-{VERSION}.dist-info/licenses/LICENSE"} <= names
    assert {name.split("/")[0] for name in names} == {"fairgate", f"fairgate-{VERSION}.dist-info"}
    assert "License-Expression: Apache-2.0" in metadata


def test_example_sees_grants_and_a_defer(fresh_python, real_gate, tmp_path):
    target = f"example-{fresh_python.parts[-3]}"
    limit = {"name": "tokens", "limit": 3000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    real_gate.configure({"name": target, "dimensions": [POLICY["dimensions"][0], limit]})
    example = CLIENT / "examples" / "call_with_admission.py"
    output = run(fresh_python, "-W", "error", example, f"127.0.0.1:{real_gate.port}", target, "acme", cwd=tmp_path)
    assert re.search(r"^call 1: granted$", output, re.MULTILINE), output
    assert re.search(r"deferred by \d+\.\d{3} s$", output, re.MULTILINE), output
    assert real_gate.state(target)["leases_open"] == 0


def test_readme_works_when_pasted(fresh_python, real_gate, tmp_path):
    program = re.search(r"```python\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[1]
    file = tmp_path / "pasted.py"
    for n in range(3):  # a first question that a busy machine does not answer in 100 ms is let go, and debits nothing
        target = f"readme-{fresh_python.parts[-3]}-{n}"
        real_gate.configure({"name": target, **POLICY})
        pasted = program.replace("127.0.0.1:50051", f"127.0.0.1:{real_gate.port}").replace("openai-prod", target)
        file.write_text(pasted)
        output = run(fresh_python, file, cwd=tmp_path)
        if "granted {}" not in output:
            break
    assert "granted {" in output, output
    assert "deferred 0:00:" in output, output


def test_users_get_types(fresh_python, tmp_path):
    file = tmp_path / "typed.py"
    file.write_text(pathlib.Path(CLIENT / "examples" / "call_with_admission.py").read_text())
    options = ["--strict", "--python-executable", fresh_python, "--cache-dir", tmp_path / "cache"]
    run(sys.executable, "-m", "mypy", *options, file, cwd=tmp_path)
