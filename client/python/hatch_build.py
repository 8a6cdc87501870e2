"""Build hook: generated stubs into the wheel, the protos into the source distribution."""

from __future__ import annotations

import pathlib
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import build_stubs


class CustomBuildHook(BuildHookInterface[Any]):
    """Generates into a folder that goes with the build; an editable install gets them beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before files are collected."""
        if self.target_name == "sdist":
            build_data["force_include"][str(build_stubs.proto_dir() / "fairgate")] = "proto/fairgate"
        elif version == "editable":
            build_stubs.generate(pathlib.Path(self.root) / "src")
        else:
            self._folder = tempfile.TemporaryDirectory(prefix="fairgate-stubs-")
            build_stubs.generate(pathlib.Path(self._folder.name))
            build_data["force_include"][f"{self._folder.name}/fairgate/v1"] = "fairgate/v1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the artifact is written."""
        if folder := getattr(self, "_folder", None):
            folder.cleanup()
