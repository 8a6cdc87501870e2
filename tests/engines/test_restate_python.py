"""The Python adapter on Restate."""

import contextlib
import re
import sys

import common
import restate_engine
from restate_suite import *

LANGUAGE = "python"
CLIENT = common.SOURCE_DIR / "client" / "python"


def test_readme_works_when_pasted(engine, gate, tmp_path):
    tokens = {"name": "tokens", "limit": 20000, "window": "10s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    programs = re.findall(r"```python\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    program = next(program for program in programs if "RestateGate" in program)
    port = common.free_port()
    program = program.replace("127.0.0.1:50051", gate.address).replace("9080", str(port))
    (tmp_path / "pasted.py").write_text(program.replace("openai-prod", "readme"))
    with serving(engine, port, tmp_path, tmp_path / "pasted.py"):
        for _ in range(3):
            assert restate_engine.post(f"{engine.server.ingress}/Chat/complete", "hello") == "HELLO"
    assert gate.state("readme")["admits_total"] > 3


def test_example(engine, gate, tmp_path):
    tokens = {"name": "tokens", "limit": 1500, "window": "3s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("example", dimensions=[common.DIMENSION, tokens])
    port = common.free_port()
    example = CLIENT / "examples" / "restate_service.py"
    order = {"tenant": "acme", "documents": ["one", "two", "three", "four", "five"]}
    with serving(engine, port, tmp_path, example, gate.address, "example", port):
        answer = restate_engine.post(f"{engine.server.ingress}/Summaries/summarize", order)
    assert answer == ["one: short", "two: short", "three: short", "four: short", "five: short"]
    assert gate.state("example")["admits_total"] > 5


@contextlib.contextmanager
def serving(engine, port, folder, *program):
    worker = common.Program([sys.executable, *program], folder / "serving.log", {"PYTHONPATH": common.CLIENT_PATH})
    try:
        common.eventually("it is registered", lambda: engine.register(port))
        yield
    finally:
        worker.kill()
        print(worker.text())
