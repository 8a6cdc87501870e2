"""Discrete-event simulation of callers, the production scripts and a provider, in virtual time. See README.md."""

import pathlib
import sys

# The scripts' harness, and the evaluation's windows, measures and workloads, have their home there.
for _folder in ("eval", "lua"):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / _folder))
