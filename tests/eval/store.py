"""What the store itself says about its decisions: latencies of the scripts."""

from __future__ import annotations

import pathlib

from redis.asyncio import Redis

PERCENTILES = (50, 95, 99)


class ScriptTimes:
    """Counts from `begin` to `end`, by the store's own latency statistics."""

    def __init__(self, socket: pathlib.Path) -> None:
        self._client = Redis(unix_socket_path=str(socket))

    async def begin(self) -> None:
        percentiles = " ".join(map(str, PERCENTILES))
        await self._client.config_set("latency-tracking-info-percentiles", percentiles)
        await self._client.config_resetstat()

    async def end(self) -> dict[str, float]:
        """Milliseconds by percentile, and how many decisions there were."""
        try:
            latencies = await self._client.info("latencystats")
            counts = await self._client.info("commandstats")
        finally:
            await self._client.aclose()
        found = latencies.get("latency_percentiles_usec_fcall", {})
        times = {f"p{p}": float(found.get(f"p{p}", "nan")) / 1000 for p in PERCENTILES}
        return times | {"calls": float(counts.get("cmdstat_fcall", {}).get("calls", 0))}
