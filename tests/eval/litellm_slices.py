"""LiteLLM's custom_auth: a tenant's key has its slice of the cap, per minute. LiteLLM itself loads this file."""

import json
import os

from litellm.proxy._types import UserAPIKeyAuth

# Tenant -> {"rpm": ..., "tpm": ...}
SLICES = json.loads(os.environ["EVAL_SLICES"])


async def authorize(request, api_key: str) -> UserAPIKeyAuth:
    tenant = api_key.removeprefix("sk-")
    part = SLICES[tenant]
    return UserAPIKeyAuth(
        api_key=api_key, user_id=tenant, rpm_limit=part["rpm"], tpm_limit=part.get("tpm")
    )
