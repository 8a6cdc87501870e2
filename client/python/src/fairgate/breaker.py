"""A breaker, so that a gate that does not answer costs nothing."""

from __future__ import annotations


class Breaker:
    """Counts failures in a row; open, it lets one try through per cooldown. Not thread-safe.

    Instants are seconds of a monotonic clock.
    """

    def __init__(self, failures_max: int, cooldown_s: float) -> None:
        self._failures_max = failures_max
        self._cooldown_s = cooldown_s
        self._failures = 0
        self._retry_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether callers go on without the gate."""
        return 0 < self._failures_max <= self._failures

    def allows(self, now: float) -> bool:
        """Whether this caller may ask; open, the first one after the cooldown tries for all."""
        if not self.is_open:
            return True
        if now < self._retry_at:
            return False
        self._retry_at = now + self._cooldown_s
        return True

    def succeeded(self) -> None:
        """The gate answered."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """The gate did not answer."""
        self._failures = min(self._failures + 1, max(self._failures_max, 0))
        if self.is_open:
            self._retry_at = now + self._cooldown_s
