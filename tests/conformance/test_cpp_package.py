"""The C++ client as its users get it: installed, found by a project with warnings as errors, run against a gate."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from staging import BUILD_DIR, SOURCE_DIR

CLIENT = SOURCE_DIR / "client" / "cpp"
DIMENSIONS = [
    {"name": "requests", "limit": 1000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
    {"name": "tokens", "limit": 20000, "window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"},
]
PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(user CXX)
find_package(Fairgate 0.1 REQUIRED)
add_executable(user main.cc)
target_compile_options(user PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
target_link_libraries(user PRIVATE Fairgate::client)
"""


def run(*command: str | pathlib.Path) -> str:
    """Its output; what it says is shown where it fails."""
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Where the package is installed."""
    folder = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD_DIR, "--component", "client_cpp", "--prefix", folder)
    return folder


def test_headers_need_neither_grpc_nor_protobuf(prefix):
    headers = sorted((prefix / "include").rglob("*.h"))
    assert headers
    for header in headers:
        included = re.findall(r"^#include [<\"](.+)[>\"]", header.read_text(), re.MULTILINE)
        assert not [name for name in included if re.match(r"grpc|google|fairgate/v1", name)], header


def test_users_find_it_and_the_readme_works_when_pasted(prefix, real_gate, tmp_path):
    program = re.search(r"```cpp\n(#include.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[1]
    real_gate.configure({"name": "readme-cpp", "dimensions": DIMENSIONS})
    program = program.replace("127.0.0.1:50051", f"127.0.0.1:{real_gate.port}").replace("openai-prod", "readme-cpp")
    (tmp_path / "main.cc").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    output = run(tmp_path / "build" / "user")
    assert re.search(r"^granted [0-9a-f]{32}$", output, re.MULTILINE), output
    assert re.search(r"^deferred \d", output, re.MULTILINE), output
    assert real_gate.state("readme-cpp")["leases_open"] == 0
