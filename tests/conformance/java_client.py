"""The Java client: its sources, and what the build made of them."""

from __future__ import annotations

import os
import pathlib
import xml.etree.ElementTree

import staging
from commands import run

CLIENT = staging.SOURCE_DIR / "client" / "java"
BUILT = staging.BUILD_DIR / "client-java"
# What Maven fetched for the build; it serves as a repository, too.
REPOSITORY = staging.SOURCE_DIR / "build" / "deps" / "maven" / "repository"
JAVA = pathlib.Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
# A user's project.
_USERS_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.example</groupId><artifactId>user</artifactId><version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <repositories><repository><id>built</id><url>{repository}</url></repository></repositories>
  <dependencies>{dependencies}</dependencies>
  <build><plugins>{plugins}</plugins></build>
</project>
"""
_PLUGINS = ("maven-resources-plugin", "maven-compiler-plugin", "maven-dependency-plugin")
_POM = xml.etree.ElementTree.parse(CLIENT / "pom.xml").getroot()


def pom(path: str) -> str:
    """An element's text; AssertionError: there is none."""
    text = _POM.findtext("/".join(f"{{*}}{name}" for name in path.split("/")))
    assert text is not None, path
    return text


VERSION = pom("version")


def plugin_version(name: str) -> str:
    """As the pom pins it."""
    for plugin in _POM.findall(".//{*}plugin"):
        if plugin.findtext("{*}artifactId") == name:
            return plugin.findtext("{*}version") or ""
    raise KeyError(name)


def mvn(*arguments: object, target: pathlib.Path = BUILT / "target") -> str:
    """The client's Maven. AssertionError: it failed."""
    return run(CLIENT / "mvn.sh", f"-Dfairgate.target={target}", *arguments)


def write_project(folder: pathlib.Path, repository: pathlib.Path, settings: str = "", *before: str) -> None:
    """A user's, of the client in `repository`; `before` are dependencies that come first: "group:artifact:version"."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in (
            name.split(":") for name in (*before, f"io.fairgate:fairgate-client:{VERSION}")
        )
    )
    plugins = "".join(
        f"<plugin><artifactId>{name}</artifactId><version>{plugin_version(name)}</version></plugin>"
        for name in _PLUGINS
    )
    text = _USERS_POM.format(repository=repository.as_uri(), dependencies=dependencies, plugins=plugins)
    (folder / "pom.xml").write_text(text)
    (folder / "settings.xml").write_text(f"<settings>{settings}</settings>")
    sources_of(folder).mkdir(parents=True)


def sources_of(project: pathlib.Path) -> pathlib.Path:
    return project / "src" / "main" / "java"


def compile_project(project: pathlib.Path, local: pathlib.Path) -> None:
    """With `local` as the user's own repository."""
    maven = ["mvn", "-B", "-q", "-s", "settings.xml", f"-Dmaven.repo.local={local}"]
    run(*maven, "compile", "dependency:copy-dependencies", cwd=project)


def class_path(project: pathlib.Path) -> str:
    return f"{project / 'target' / 'classes'}:{project / 'target' / 'dependency'}/*"
