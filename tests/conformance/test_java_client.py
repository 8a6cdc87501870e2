"""The Java client's own tests, as the build compiled them."""

from __future__ import annotations

from java_client import mvn


def test_own_tests():
    mvn("surefire:test")
