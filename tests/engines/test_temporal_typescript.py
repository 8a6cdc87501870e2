"""The TypeScript adapter on Temporal."""

import re

import common
import pytest
from commands import run
from temporal_suite import *
from typescript_programs import STAGE, compiled, folder_of

LANGUAGE = "typescript"
CLIENT = common.SOURCE_DIR / "client" / "typescript"


@pytest.fixture
def folder(engine, request):
    return folder_of(request.node.name)


def test_readme_works_when_pasted(folder, server, gate):
    tokens = {"name": "tokens", "limit": 12000, "window": "8s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    programs = re.findall(r"```ts\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    workflow = next(program for program in programs if "proxyActivities" in program)
    worker = next(program for program in programs if "Worker.create" in program)
    worker = worker.replace("127.0.0.1:50051", gate.address).replace("127.0.0.1:7233", server.address)
    (folder / "workflows.ts").write_text(workflow)
    (folder / "worker.ts").write_text(worker.replace("openai-prod", "readme"))
    compiled(folder, "workflows.ts", "worker.ts")
    output = run(STAGE / "node", folder / "worker.js")
    assert re.findall("^HELLO.*", output, re.MULTILINE) == ["HELLO 0", "HELLO 1", "HELLO 2"]
    state = gate.state("readme")
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def test_example(folder, server, gate):
    configure_example(gate)
    for name in ("temporal-worker.ts", "temporal-workflow.ts"):
        (folder / name).write_text((CLIENT / "examples" / name).read_text())
    compiled(folder, "temporal-worker.ts", "temporal-workflow.ts")
    output = run(STAGE / "node", folder / "temporal-worker.js", server.address, gate.address, "example")
    check_example(gate, output)


@pytest.mark.parametrize("part", ["workflows", "steps"])
def test_the_other_part_may_be_python(engine, name, part):
    with_the_other_part_in_python(engine, name, part)
