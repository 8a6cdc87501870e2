"""The Java client as its users get it: linted, documented, fetched into a fresh repository, run against a gate."""

from __future__ import annotations

import re
import shutil
import zipfile

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
    mvn,
    pom,
    sources_of,
    write_project,
)
from staging import SOURCE_DIR

PATH = "io/fairgate/fairgate-client"
# A question that a busy machine does not answer in 100 ms is let go, and debits nothing that the program sees.
RUNS = 3
WINDOW = {"window": "60s", "window_model": "WINDOW_MODEL_CONTINUOUS"}
REQUESTS = {"name": "requests", "limit": 1000, **WINDOW}


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    """A Maven repository, as a folder, with the package and the jars of its sources and documentation."""
    root, target = tmp_path_factory.mktemp("repository"), tmp_path_factory.mktemp("build")
    mvn("-Prelease", "-DskipTests", "verify", target=target)
    folder = root / PATH / VERSION
    folder.mkdir(parents=True)
    shutil.copy(CLIENT / "pom.xml", folder / f"fairgate-client-{VERSION}.pom")
    for jar in target.glob("*.jar"):
        shutil.copy(jar, folder)
    return root


@pytest.fixture(scope="session")
def project(repository, tmp_path_factory):
    """A user's project, with a repository of its own that was empty."""
    folder = tmp_path_factory.mktemp("project")
    write_project(
        folder,
        repository,
        f"<mirrors><mirror><id>fetched</id><mirrorOf>central</mirrorOf>"
        f"<url>{REPOSITORY.as_uri()}</url></mirror></mirrors>",
    )
    shutil.copy(CLIENT / "examples" / "CallWithAdmission.java", sources_of(folder))
    return folder


@pytest.fixture(scope="session")
def java(project, real_gate):
    """Runs a class of the user's: the example, or the README's program, RUNS times with a target each."""
    pasted = re.search(r"```java\n(.+?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[1]
    pasted = pasted.replace("127.0.0.1:50051", f"127.0.0.1:{real_gate.port}")
    for n in range(RUNS):
        source = sources_of(project) / f"Main{n}.java"
        source.write_text(pasted.replace("class Main", f"class Main{n}").replace("openai-prod", f"readme-java-{n}"))
    compile_project(project, project / "m2")

    def start(name, *arguments):
        return run(JAVA, "-cp", class_path(project), name, *arguments)

    return start


def test_format():
    mvn("-Prelease", "spotless:check")


def test_one_version():
    of_the_project = re.search(r"project\(Fairgate VERSION (\S+)", (SOURCE_DIR / "CMakeLists.txt").read_text())[1]
    assert of_the_project == VERSION
    assert f"<version>{VERSION}</version>" in (CLIENT / "README.md").read_text()


def test_what_is_in_it(repository):
    folder = repository / PATH / VERSION
    names = {path.name for path in folder.iterdir()}
    jars = {f"fairgate-client-{VERSION}{kind}.jar" for kind in ("", "-sources", "-javadoc")}
    assert names == jars | {f"fairgate-client-{VERSION}.pom"}
    assert pom("licenses/license/name") == "Apache-2.0"
    with zipfile.ZipFile(folder / f"fairgate-client-{VERSION}.jar") as archive:
        names = set(archive.namelist())
        assert archive.read("io/fairgate/client/version.txt").decode().strip() == VERSION
    assert {"META-INF/LICENSE", "io/fairgate/client/Gate.class", "io/fairgate/v1/AdmitRequest.class"} <= names
    packages = {name.rpartition("/")[0] for name in names if name.endswith(".class")}
    assert packages == {"io/fairgate/client", "io/fairgate/client/temporal", "io/fairgate/v1"}
    with zipfile.ZipFile(folder / f"fairgate-client-{VERSION}-sources.jar") as archive:
        assert {"io/fairgate/client/Gate.java", "io/fairgate/v1/AdmitRequest.java"} <= set(archive.namelist())
    with zipfile.ZipFile(folder / f"fairgate-client-{VERSION}-javadoc.jar") as archive:
        assert "io/fairgate/client/Gate.html" in archive.namelist()


def test_the_same_sources_give_the_same_bytes(repository):
    jar = f"fairgate-client-{VERSION}.jar"
    assert (BUILT / "lib" / jar).read_bytes() == (repository / PATH / VERSION / jar).read_bytes()


def test_who_does_not_use_temporal_does_not_get_it(java, project):
    names = {path.name for path in (project / "target" / "dependency").iterdir()}
    assert f"fairgate-client-{VERSION}.jar" in names
    assert not [name for name in names if "temporal" in name or "jackson" in name], names


def test_readme_works_when_pasted(java, real_gate):
    for n in range(RUNS):
        target = f"readme-java-{n}"
        real_gate.configure({"name": target, "dimensions": [REQUESTS, {"name": "tokens", "limit": 20000, **WINDOW}]})
        output = java(f"Main{n}")
        if "granted {}" not in output:
            break
    assert re.search(r"^granted \{.*tokens=9000\.0", output, re.MULTILINE), output
    assert re.search(r"^deferred PT\d+", output, re.MULTILINE), output
    assert real_gate.state(target)["leases_open"] == 0


def test_example_sees_grants_and_a_defer(java, real_gate):
    for n in range(RUNS):
        target = f"example-java-{n}"
        real_gate.configure({"name": target, "dimensions": [REQUESTS, {"name": "tokens", "limit": 3000, **WINDOW}]})
        output = java("CallWithAdmission", f"127.0.0.1:{real_gate.port}", target, "acme")
        if "degraded" not in output:
            break
    assert re.search(r"^call 1: granted$", output, re.MULTILINE), output
    assert re.search(r"deferred by \d+\.\d{3} s$", output, re.MULTILINE), output
    assert real_gate.state(target)["leases_open"] == 0
