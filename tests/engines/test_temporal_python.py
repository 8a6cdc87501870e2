"""The Python adapter on Temporal."""

import pathlib
import re
import sys

import common
from temporal import output_of
from temporal_suite import *

LANGUAGE = "python"
CLIENT = common.SOURCE_DIR / "client" / "python"


def test_readme_works_when_pasted(server, gate, tmp_path):
    tokens = {"name": "tokens", "limit": 12000, "window": "8s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    programs = re.findall(r"```python\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    program = next(program for program in programs if "FairgateInterceptor" in program)
    program = program.replace("127.0.0.1:50051", gate.address).replace("127.0.0.1:7233", server.address)
    (tmp_path / "pasted.py").write_text(program.replace("openai-prod", "readme"))
    output = output_of(sys.executable, tmp_path / "pasted.py", env=environment())
    assert output.splitlines() == ["HELLO 0", "HELLO 1", "HELLO 2"]
    state = gate.state("readme")
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def test_example(server, gate):
    configure_example(gate)
    example = CLIENT / "examples" / "temporal_workflow.py"
    output = output_of(sys.executable, "-W", "error", example, server.address, gate.address, "example", env=environment())
    check_example(gate, output)


def environment():
    return {"PATH": str(pathlib.Path(sys.executable).parent), "PYTHONPATH": common.CLIENT_PATH}
