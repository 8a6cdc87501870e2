"""The Python worker's workflow, in a file of its own: the sandbox imports it anew for each."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy


@workflow.defn(name="Calls")
class Calls:
    """Work of common.py."""

    @workflow.run
    async def run(self, work: dict[str, Any]) -> None:
        """Its calls, one after the other."""
        for _ in range(work["calls"]):
            await workflow.execute_activity(
                "call",
                work,
                start_to_close_timeout=timedelta(seconds=work["attempt_timeout_s"]),
                schedule_to_close_timeout=timedelta(seconds=work["deadline_s"]) if work["deadline_s"] else None,
                retry_policy=RetryPolicy(
                    initial_interval=timedelta(milliseconds=100), maximum_attempts=work["attempts_max"]
                ),
            )
        if work["runs"] > 1:
            workflow.continue_as_new({**work, "runs": work["runs"] - 1})
