import itertools
import pathlib
import sys
from collections.abc import Callable, Iterator

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from valkey import Target, Valkey  # noqa: E402


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    server = Valkey()
    yield server
    server.stop()


_names = itertools.count()


@pytest.fixture
def make_target(valkey: Valkey) -> Callable[..., Target]:
    """Makes a target that no other test has."""
    return lambda compiled, tenants=None: Target(valkey, f"target-{next(_names)}", compiled, tenants)
