import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import real_gate as real_gate_module  # noqa: E402
import suite  # noqa: E402


@pytest.fixture(scope="session")
def programs():
    running = suite.Programs()
    yield running
    running.close()


@pytest.fixture(scope="session")
def real_gate():
    with real_gate_module.running() as gate:
        yield gate
