import pathlib
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from store import Store  # noqa: E402


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    server = Store()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def twin() -> Iterator[Store]:
    server = Store()
    yield server
    server.stop()
