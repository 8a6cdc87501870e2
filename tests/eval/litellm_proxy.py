"""LiteLLM's own proxy between the workers and the upstream: each tenant has a static slice of the cap."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator

import aiohttp
import yaml

from servers import Upstream, free_port, stop
from stubs import SOURCE_DIR
from workloads import Workload

START_TIMEOUT = 90.0  # seconds; it imports for long
WINDOW = 60.0  # of its limits, in seconds
_HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = SOURCE_DIR / "build" / "litellm" / "bin" / "litellm"


def slices_of(workload: Workload) -> dict[str, dict[str, int]]:
    """Limits per minute of each tenant's key; together they are the caps."""
    names = {"requests": "rpm", "tokens": "tpm"}
    return {
        tenant: {
            names[name]: round(part * cap * WINDOW) for name, cap in workload.caps.items()
        }
        for tenant, part in workload.slices().items()
    }


def config_of(upstream: str) -> dict[str, object]:
    """Nothing beside what the limits need: retries and cooldowns are LiteLLM's defaults."""
    return {
        "model_list": [
            {
                "model_name": "mock",
                "litellm_params": {
                    "model": "openai/mock",
                    "api_base": upstream + "/v1",
                    "api_key": "none",
                },
            }
        ],
        "general_settings": {
            "custom_auth": "litellm_slices.authorize",
            "forward_client_headers_to_llm_api": True,  # the mock's header tells the length
        },
        "litellm_settings": {"telemetry": False},
    }


async def _ready(url: str, process: asyncio.subprocess.Process, log: pathlib.Path) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(int(START_TIMEOUT / 0.2)):
            if process.returncode is not None:
                break
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(url + "/health/liveliness") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.2)
    raise RuntimeError(f"the proxy is not ready:\n{log.read_text()[-4000:]}")


@contextlib.asynccontextmanager
async def proxy_process(workload: Workload, upstream: Upstream) -> AsyncIterator[Upstream]:
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM} is missing: make eval-setup installs it")
    with tempfile.TemporaryDirectory(prefix="fairgate-eval-") as folder:
        root = pathlib.Path(folder)
        shutil.copy(_HERE / "litellm_slices.py", root)
        (root / "config.yaml").write_text(yaml.safe_dump(config_of(upstream.url)))
        port = free_port()
        environment = os.environ | {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}",  # it does not start without one
            "EVAL_SLICES": json.dumps(slices_of(workload)),
        }
        with (root / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                str(PROGRAM),
                f"--config={root / 'config.yaml'}",
                "--host=127.0.0.1",
                f"--port={port}",
                cwd=root,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        handle = dataclasses.replace(upstream, url=f"http://127.0.0.1:{port}", pid=process.pid)
        try:
            await _ready(handle.url, process, root / "log")
            yield handle
        finally:
            await stop(process)
