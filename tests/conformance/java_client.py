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
