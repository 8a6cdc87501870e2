"""Fixtures of the engine tests: one gate and one upstream for a module's tests, each of which makes its own target."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import common  # noqa: E402


@pytest.fixture(scope="session")
def gate(tmp_path_factory):
    gate = common.Gate(tmp_path_factory.mktemp("gate"))
    yield gate
    gate.stop()


@pytest.fixture(scope="session")
def upstream():
    upstream = common.Upstream()
    yield upstream
    upstream.stop()
