"""The Java adapter on Temporal."""

import re
import shutil

import common
import pytest
from commands import run
from java_client import (
    BUILT,
    CLIENT,
    JAVA,
    REPOSITORY,
    VERSION,
    class_path,
    compile_project,
    pom,
    sources_of,
    write_project,
)
from temporal_suite import *

LANGUAGE = "java"
TEMPORAL = f"io.temporal:temporal-sdk:{pom('properties/temporal.version')}"


@pytest.fixture(scope="module")
def project(engine, server, gate, tmp_path_factory):
    """A user's, who has Temporal's SDK already: what Maven takes then of gRPC is not what the client was built with."""
    repository, folder = tmp_path_factory.mktemp("repository"), tmp_path_factory.mktemp("project")
    package = repository / "io" / "fairgate" / "fairgate-client" / VERSION
    package.mkdir(parents=True)
    shutil.copy(CLIENT / "pom.xml", package / f"fairgate-client-{VERSION}.pom")
    shutil.copy(BUILT / "lib" / f"fairgate-client-{VERSION}.jar", package)
    write_project(folder, repository, "", TEMPORAL)
    pasted = re.findall(r"```java\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    program = next(program for program in pasted if "class Chat" in program)
    assert "newLocalServiceStubs()" in program
    program = program.replace("newLocalServiceStubs()", f'newServiceStubs(options("{server.address}"))')
    program = program.replace("127.0.0.1:50051", gate.address).replace("openai-prod", "readme")
    options = """    static io.temporal.serviceclient.WorkflowServiceStubsOptions options(String address) {
        return io.temporal.serviceclient.WorkflowServiceStubsOptions.newBuilder().setTarget(address).build();
    }
"""
    (sources_of(folder) / "Chat.java").write_text(program.replace("class Chat {\n", "class Chat {\n" + options))
    shutil.copy(CLIENT / "examples" / "TemporalWorkflow.java", sources_of(folder))
    compile_project(folder, users_own_repository())
    return folder


def users_own_repository():
    """Begins with what the build has fetched; what the user's choice of versions needs besides is fetched once."""
    own = common.BUILD_DIR / "engines" / "java-repository"
    if not own.exists():
        shutil.copytree(REPOSITORY, own)
    shutil.rmtree(own / "io" / "fairgate", ignore_errors=True)  # each build is another one
    return own


def test_readme_works_when_pasted(project, gate):
    tokens = {"name": "tokens", "limit": 12000, "window": "8s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
    gate.configure("readme", dimensions=[common.DIMENSION, tokens])
    output = run(JAVA, "-cp", class_path(project), "Chat")
    assert re.findall("^HELLO.*", output, re.MULTILINE) == ["HELLO 0", "HELLO 1", "HELLO 2"]
    state = gate.state("readme")
    assert state["admits_total"] > state["grants_total"], "nothing was deferred"


def test_example(project, server, gate):
    configure_example(gate)
    output = run(JAVA, "-cp", class_path(project), "TemporalWorkflow", server.address, gate.address, "example")
    check_example(gate, output)


@pytest.mark.parametrize("part", ["workflows", "steps"])
def test_the_other_part_may_be_python(engine, name, part):
    with_the_other_part_in_python(engine, name, part)
