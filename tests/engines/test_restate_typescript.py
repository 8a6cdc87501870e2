"""The TypeScript adapter on Restate."""

import contextlib
import re

import common
import restate_engine
from restate_suite import *
from typescript_programs import STAGE, compiled

LANGUAGE = "typescript"
CLIENT = common.SOURCE_DIR / "client" / "typescript"
FOLDER = STAGE / "engines"
# Restate's SDK wants Node 22.
NODE_22 = """Promise.withResolvers ??= () => {
  let resolve, reject;
  const promise = new Promise((...both) => ([resolve, reject] = both));
  return { promise, resolve, reject };
};
"""


def program(source, name):
    (FOLDER / f"{name}.ts").write_text(source)
    compiled(FOLDER, f"{name}.ts")
    return FOLDER / f"{name}.js"


@contextlib.contextmanager
def serving(engine, port, folder, *command):
    (FOLDER / "node-22.mjs").write_text(NODE_22)
    worker = common.Program([STAGE / "node", "--import", FOLDER / "node-22.mjs", *command], folder / "serving.log")
    try:
        common.eventually("it is registered", lambda: engine.register(port))
        yield
    finally:
        worker.kill()
        print(worker.text())


def test_readme_works_when_pasted(engine, gate, tmp_path):
    tokens = {"name": "tokens", "limit": 20000, "window": "10s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    programs = re.findall(r"```ts\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    pasted = next(text for text in programs if "RestateGate" in text)
    port = common.free_port()
    pasted = pasted.replace("127.0.0.1:50051", gate.address).replace("9080", str(port))
    with serving(engine, port, tmp_path, program(pasted.replace("openai-prod", "readme"), "pasted")):
        for _ in range(3):
            assert restate_engine.post(f"{engine.server.ingress}/Chat/complete", "hello") == "HELLO"
    assert gate.state("readme")["admits_total"] > 3


def test_example(engine, gate, tmp_path):
    tokens = {"name": "tokens", "limit": 1500, "window": "3s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("example", dimensions=[common.DIMENSION, tokens])
    port = common.free_port()
    example = program((CLIENT / "examples" / "restate-service.ts").read_text(), "example")
    order = {"tenant": "acme", "documents": ["one", "two", "three", "four", "five"]}
    with serving(engine, port, tmp_path, example, gate.address, "example", port):
        answer = restate_engine.post(f"{engine.server.ingress}/Summaries/summarize", order)
    assert answer == ["one: short", "two: short", "three: short", "four: short", "five: short"]
    assert gate.state("example")["admits_total"] > 5
