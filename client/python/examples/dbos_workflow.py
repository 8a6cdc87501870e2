"""Durable workflows whose calls share a quota: dbos_workflow.py [DATABASE_URL [GATE [TARGET]]].

DBOS's database may be SQLite here; for production take PostgreSQL.
"""

import asyncio
import sys

from dbos import DBOS, DBOSConfig, SetWorkflowID

import fairgate
from fairgate.dbos import DBOSGate

DEFAULTS = ["sqlite:///summaries.sqlite", "127.0.0.1:50051", "openai-prod"]
DATABASE_URL, GATE, TARGET = sys.argv[1:] + DEFAULTS[len(sys.argv) - 1 :]
SLOTS = 4  # calls at a time of each worker
POLLING_INTERVAL_S = 0.1

gate = DBOSGate(fairgate.AsyncGate(GATE))


@gate.step(queue="calls", polling_interval=POLLING_INTERVAL_S, options={"retries_allowed": True, "max_attempts": 3})
async def ask_the_provider(call: fairgate.AsyncCall, document: str) -> str:
    """One attempt is one send; when the gate defers it, this is not entered."""
    await asyncio.sleep(0.02)  # here goes the external call
    response = {"text": f"{document}: short", "usage": {"total_tokens": 640}}
    call.settle(response=response)
    return str(response["text"])


@DBOS.workflow()
async def summarize(tenant: str, documents: list[str]) -> list[str]:
    """While a call waits for its turn this workflow sleeps, and takes none of the slots of "calls"."""
    lines = []
    for document in documents:
        try:
            line = await ask_the_provider.run(document, target=TARGET, tenant=tenant, deadline=600, tokens=900)
        except fairgate.Rejected as rejected:
            line = f"{document}: {rejected.reason.value}"
        lines.append(line)
    return lines


async def main() -> None:
    """Two tenants at once; a workflow that was done before is not done again."""
    config: DBOSConfig = {"name": "summaries", "system_database_url": DATABASE_URL}
    DBOS(config=config)
    DBOS.launch()
    await DBOS.register_queue_async("calls", worker_concurrency=SLOTS, polling_interval_sec=POLLING_INTERVAL_S)
    handles = []
    for tenant in ("acme", "globex"):
        with SetWorkflowID(f"summaries-of-{tenant}"):
            handles.append(await DBOS.start_workflow_async(summarize, tenant, ["one", "two", "three"]))
    for handle in handles:
        print(handle.workflow_id, await handle.get_result(polling_interval_sec=POLLING_INTERVAL_S))
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
