"""The Go client's own tests, its format and vet."""

from __future__ import annotations

import pathlib

from go_module import CLIENT, go, run, setting


def test_format():
    gofmt = pathlib.Path(setting("GOROOT")) / "bin" / "gofmt"
    assert run(gofmt, "-l", CLIENT, CLIENT.parents[1] / "tests" / "conformance" / "drivers" / "go") == ""


def test_vet():
    go("vet", "./...")


def test_own_tests():
    go("test", "-count=1", "./...")
