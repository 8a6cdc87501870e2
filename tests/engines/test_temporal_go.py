"""The Go adapter on Temporal."""

import os
import re

import common
import pytest
from commands import run
from temporal_suite import *

LANGUAGE = "go"
WORKSPACE = common.BUILD_DIR / "engines" / "go"
GO = common.SOURCE_DIR / "client" / "go" / "go.sh"


def test_its_own_tests_and_lint(engine):
    run(GO, "vet", "./temporal/...", "./worker/...", cwd=WORKSPACE)
    run(GO, "test", "./temporal/...", cwd=WORKSPACE)
    gofmt = os.path.join(run(GO, "env", "GOROOT").strip(), "bin", "gofmt")
    assert run(gofmt, "-l", WORKSPACE / "temporal", WORKSPACE / "worker") == ""


def test_readme_works_when_pasted(engine, server, gate, tmp_path):
    """As it says: a module of the user's own, with the two of this tree."""
    tokens = {"name": "tokens", "limit": 12000, "window": "8s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    program = re.search(r"```go\n(package main.+?)```", (WORKSPACE / "temporal" / "README.md").read_text(), re.DOTALL)[
        1
    ]
    program = program.replace("127.0.0.1:50051", gate.address).replace("127.0.0.1:7233", server.address)
    (tmp_path / "main.go").write_text(program.replace("openai-prod", "readme"))
    environment = {**os.environ, "GOWORK": "off"}
    run(GO, "mod", "init", "example.com/user", cwd=tmp_path, env=environment)
    edits = []
    for name, folder in (("fairgate", "fairgate"), ("fairgate/temporal", "temporal")):
        module = f"fairgate.io/go/{name}"
        edits += [f"-require={module}@v0.1.0", f"-replace={module}={WORKSPACE / folder}"]
    run(GO, "mod", "edit", *edits, cwd=tmp_path, env=environment)
    run(GO, "mod", "tidy", cwd=tmp_path, env=environment)
    output = run(GO, "run", ".", cwd=tmp_path, env=environment)
    assert re.findall(r"^hello.*", output, re.MULTILINE) == ["hello 0! <nil>", "hello 1! <nil>", "hello 2! <nil>"]
    state = gate.state("readme")
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def test_example(engine, server, gate):
    configure_example(gate)
    example = "./temporal/examples/temporal_workflow"
    output = run(GO, "run", example, server.address, gate.address, "example", cwd=WORKSPACE)
    check_example(gate, output)


@pytest.mark.parametrize("part", ["workflows", "steps"])
def test_the_other_part_may_be_python(engine, name, part):
    with_the_other_part_in_python(engine, name, part)
