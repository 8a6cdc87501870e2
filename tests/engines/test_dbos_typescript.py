"""The TypeScript adapter on DBOS."""

import re
import urllib.parse

import common
import pytest
from commands import run
from dbos_suite import *
from typescript_programs import STAGE, compiled, folder_of

LANGUAGE = "typescript"
# A question that a busy machine does not answer in 100 ms is let go, and then nobody has to wait.
RUNS = 3
CLIENT = common.SOURCE_DIR / "client" / "typescript"


@pytest.fixture
def folder(engine, request):
    return folder_of(request.node.name)


def database_of(database, name):
    """Of the same PostgreSQL; DBOS makes it."""
    return urllib.parse.urlsplit(database.url)._replace(path=f"/{name}").geturl()


def test_readme_works_when_pasted(folder, database, gate):
    programs = re.findall(r"```ts\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    pasted = next(program for program in programs if "DBOSGate" in program)
    pasted = pasted.replace("postgresql://postgres@127.0.0.1:5432/chat", database_of(database, "chat"))
    pasted = pasted.replace("127.0.0.1:50051", gate.address)
    assert any(deferred_when_pasted(folder, gate, pasted, f"dbos-readme-{n}") for n in range(RUNS))


def deferred_when_pasted(folder, gate, program, target):
    tokens = {"name": "tokens", "limit": 20000, "window": "10s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure(target, dimensions=[common.DIMENSION, tokens])
    (folder / "pasted.ts").write_text(program.replace("openai-prod", target))
    compiled(folder, "pasted.ts")
    output = run(STAGE / "node", folder / "pasted.js")
    assert re.findall(r"^HELLO \d$", output, re.MULTILINE) == ["HELLO 0", "HELLO 1", "HELLO 2"]
    return gate.state(target)["admits_total"] > 3


def test_example(folder, database, gate):
    tokens = {"name": "tokens", "limit": 1500, "window": "3s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("dbos-example", dimensions=[common.DIMENSION, tokens])
    (folder / "example.ts").write_text((CLIENT / "examples" / "dbos-workflow.ts").read_text())
    compiled(folder, "example.ts")
    output = run(STAGE / "node", folder / "example.js", database_of(database, "example"), gate.address, "dbos-example")
    for tenant in ("acme", "globex"):
        assert f"summaries-of-{tenant} one: short, two: short, three: short" in output
    assert gate.state("dbos-example")["admits_total"] > 6
