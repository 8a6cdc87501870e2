"""The TypeScript client as its users get it: linted, packed, installed into a fresh folder, run against a gate."""

from __future__ import annotations

import json
import os
import re
import tarfile

import pytest
from commands import run
from staging import BUILD_DIR, SOURCE_DIR

CLIENT = SOURCE_DIR / "client" / "typescript"
STAGE = BUILD_DIR / "client-typescript"
VERSION = json.loads((CLIENT / "package.json").read_text())["version"]
WINDOW = {"window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
REQUESTS = {"name": "requests", "limit": 1000, **WINDOW}
NODE = (STAGE / "node").resolve()
# The npm beside a Node that the setup fetched, or the system's.
NPM_OF_NODE = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
NPM = [NODE, NPM_OF_NODE] if NPM_OF_NODE.exists() else ["npm"]


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The packed file. It was built before: packing alone is tried here."""
    folder = tmp_path_factory.mktemp("pack")
    run(*NPM, "pack", "--ignore-scripts", "--pack-destination", folder, cwd=STAGE)
    return folder / f"fairgate-client-{VERSION}.tgz"


@pytest.fixture(scope="session")
def project(package, tmp_path_factory):
    """A user's project with the package and TypeScript."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text(json.dumps({"name": "project", "private": True, "type": "module"}))
    pins = json.loads((CLIENT / "package.json").read_text())["devDependencies"]
    tools = [f"{name}@{pins[name]}" for name in ("typescript", "@types/node")]
    environment = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    run(*NPM, "install", "--no-audit", "--no-fund", package, *tools, cwd=folder, env=environment)
    return folder


def compiled(project, source, name):
    """Strictly, as a user's program."""
    (project / f"{name}.ts").write_text(source)
    options = ["--strict", "--target", "es2022", "--lib", "es2022,esnext.disposable", "--module", "nodenext"]
    tsc = project / "node_modules" / "typescript" / "bin" / "tsc"
    run(NODE, tsc, *options, "--types", "node", f"{name}.ts", cwd=project)
    return project / f"{name}.js"


def test_lint():
    prettier = STAGE / "node_modules" / "prettier" / "bin" / "prettier.cjs"
    run(NODE, prettier, "--check", ".", cwd=CLIENT)
    run(NODE, prettier, "--print-width", 120, "--check", SOURCE_DIR / "tests/conformance/drivers/typescript_driver.mjs")


def test_the_lock_names_no_registry():
    assert "resolved" not in (CLIENT / "package-lock.json").read_text()


def test_package_holds_types_and_licence_and_no_sources(package):
    with tarfile.open(package) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"} <= names
    assert {"dist/generated/fairgate/v1/admission.js", "examples/call-with-admission.ts"} <= names
    assert not {name for name in names if name.startswith(("src/", "test/", "node_modules/")) or ".test." in name}


def test_example_sees_grants_and_a_defer(project, real_gate):
    real_gate.configure({"name": "example", "dimensions": [REQUESTS, {"name": "tokens", "limit": 3000, **WINDOW}]})
    example = compiled(project, (CLIENT / "examples" / "call-with-admission.ts").read_text(), "example")
    output = run(NODE, "--throw-deprecation", example, f"127.0.0.1:{real_gate.port}", "example", "acme", cwd=project)
    assert re.search(r"^call 1: granted$", output, re.MULTILINE), output
    assert re.search(r"deferred by \d+\.\d{3} s$", output, re.MULTILINE), output
    assert real_gate.state("example")["leases_open"] == 0


def test_readme_works_when_pasted(project, real_gate):
    program = re.search(r"```ts\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[1]
    real_gate.configure({"name": "readme", "dimensions": [REQUESTS, {"name": "tokens", "limit": 20000, **WINDOW}]})
    program = program.replace("127.0.0.1:50051", f"127.0.0.1:{real_gate.port}").replace("openai-prod", "readme")
    output = run(NODE, compiled(project, program, "pasted"), cwd=project)
    assert "granted {" in output, output
    assert re.search(r"deferred \d+ \w+", output), output


def test_a_program_ends_by_itself(project, real_gate):
    """A connection that nobody uses keeps no program from ending."""
    program = f"""
import {{ Gate }} from "@fairgate/client";
const gate = new Gate("127.0.0.1:{real_gate.port}");
const answer = await gate.tryAdmit({{ target: "nobody", tenant: "a" }}).catch((error: Error) => error.name);
console.log(answer);
"""
    assert "UnknownTarget" in run(NODE, compiled(project, program, "ending"), cwd=project)
