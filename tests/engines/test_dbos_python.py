"""The Python adapter on DBOS, with PostgreSQL."""

import pathlib
import re
import sys

import common
from commands import run
from dbos_suite import *

LANGUAGE = "python"
CLIENT = common.SOURCE_DIR / "client" / "python"


def test_readme_works_when_pasted(gate, tmp_path):
    tokens = {"name": "tokens", "limit": 20000, "window": "10s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("dbos-readme", dimensions=[common.DIMENSION, tokens])
    programs = re.findall(r"```python\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    program = next(program for program in programs if "DBOSGate" in program)
    program = program.replace("127.0.0.1:50051", gate.address).replace("openai-prod", "dbos-readme")
    (tmp_path / "pasted.py").write_text(program)
    output = run(sys.executable, "pasted.py", env=environment(), cwd=tmp_path)
    assert re.findall(r"^HELLO \d$", output, re.MULTILINE) == ["HELLO 0", "HELLO 1", "HELLO 2"]
    assert gate.state("dbos-readme")["admits_total"] > 3


def test_example(gate, tmp_path):
    tokens = {"name": "tokens", "limit": 1500, "window": "3s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("dbos-example", dimensions=[common.DIMENSION, tokens])
    example = CLIENT / "examples" / "dbos_workflow.py"
    database = f"sqlite:///{tmp_path}/summaries.sqlite"
    output = run(sys.executable, example, database, gate.address, "dbos-example", env=environment())
    for tenant in ("acme", "globex"):
        assert f"summaries-of-{tenant} ['one: short', 'two: short', 'three: short']" in output
    assert gate.state("dbos-example")["admits_total"] > 6


def environment():
    return {"PATH": str(pathlib.Path(sys.executable).parent), "PYTHONPATH": common.CLIENT_PATH}
