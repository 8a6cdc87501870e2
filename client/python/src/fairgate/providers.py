"""What providers' responses say: usage, how the call ended, how long to wait, and what is left of the limits.

Understands the shapes of OpenAI's and Anthropic's APIs (and of those that copy them), as decoded JSON, as their SDKs'
objects and errors, and as responses of httpx, requests and aiohttp.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from fairgate.headers import rate_limits, retry_after
from fairgate.values import USAGE_KINDS, CallOutcome, Settlement


@dataclasses.dataclass(frozen=True)
class HttpResponse:
    """What is needed of a response. status 0: not known."""

    status: int = 0
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: Any = None


def settlement_from_response(
    response: Any = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    dimensions: Iterable[str] | Mapping[str, str] = ("tokens",),
    now_s: float | None = None,
) -> Settlement:
    """The settlement that a provider's response amounts to.

    response: see the module; status, headers and body (decoded JSON) override what it says, or stand alone.
    dimensions: those to settle: names of USAGE_KINDS, or a mapping of names to "total", "input" or "output".
    now_s: seconds since 1970, for waits that are given as dates.

    Usage that the response does not tell is left out, never zero. Input is what counts against the provider's limit:
    with Anthropic's usage, tokens read from its cache are not in it, tokens written to it are. Limits are told for
    these dimensions and for "requests".
    """
    found = http_response_of(response) or HttpResponse(body=response)
    http = HttpResponse(
        found.status if status is None else status,
        {key.lower(): value for key, value in (found.headers if headers is None else headers).items()},
        found.body if body is None else body,
    )
    kinds = dimensions if isinstance(dimensions, Mapping) else {name: USAGE_KINDS[name] for name in dimensions}
    now_s = time.time() if now_s is None else now_s
    usage = usage_of(http.body)
    outcome = _outcome(http.status, known=bool(usage))
    return Settlement(
        outcome,
        {name: usage[kind] for name, kind in kinds.items() if kind in usage},
        retry_after(http.headers, _retry_delay(http.body), now_s) if outcome is CallOutcome.RATE_LIMITED else None,
        rate_limits(http.headers, kinds, now_s),
    )


def http_response_of(thing: Any) -> HttpResponse | None:
    """The HTTP response in a response object, or in an exception that carries one; None: there is none."""
    if isinstance(thing, BaseException):
        inner = getattr(thing, "response", None)
        found = None if inner is None else http_response_of(inner)
        if found is not None and found.body is None:
            return dataclasses.replace(found, body=getattr(thing, "body", None))
        return found
    status = getattr(thing, "status_code", None)
    if not isinstance(status, int):
        status = getattr(thing, "status", None)
    headers = getattr(thing, "headers", None)
    if not isinstance(status, int) or headers is None:
        return None
    return HttpResponse(status, dict(headers.items()), _body_of(thing))


def _body_of(response: Any) -> Any:
    decode = getattr(response, "json", None)
    if decode is None or inspect.iscoroutinefunction(decode):
        return None
    try:
        return decode()
    except Exception:  # a stream that was not read, or no JSON: every library has its own error for it
        return None


def _outcome(status: int, *, known: bool) -> CallOutcome:
    if status == 429:
        return CallOutcome.RATE_LIMITED
    if status in (408, 504):
        return CallOutcome.TIMEOUT
    if status >= 500:
        return CallOutcome.SERVER_ERROR
    if 200 <= status < 300 or (status == 0 and known):
        return CallOutcome.OK
    return CallOutcome.UNKNOWN


def usage_of(body: Any) -> dict[str, float]:
    """Token usage in a decoded body or an SDK's object: "input", "output", "total", those that are told."""
    usage = _get(body, "usage")
    if usage is None:
        usage = _get(_get(body, "message"), "usage")  # first event of Anthropic's streams
    if usage is None:
        return {}
    # Anthropic has no total, and counts what went through its cache apart.
    total = _amount(usage, "total_tokens")
    reads = _first(usage, "prompt_tokens", "input_tokens")
    if reads is not None and total is None:
        reads += _amount(usage, "cache_creation_input_tokens") or 0.0
    writes = _first(usage, "completion_tokens", "output_tokens")
    if total is None and reads is not None and writes is not None:
        total = reads + writes
    found = {"input": reads, "output": writes, "total": total}
    return {kind: amount for kind, amount in found.items() if amount is not None}


def _first(usage: Any, *names: str) -> float | None:
    return next((amount for name in names if (amount := _amount(usage, name)) is not None), None)


def _get(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _amount(usage: Any, name: str) -> float | None:
    value = _get(usage, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _retry_delay(body: Any) -> str:
    """Of a google.rpc.RetryInfo; empty: there is none."""
    error = _get(body, "error")
    for detail in _get(error, "details") or ():
        delay = _get(detail, "retryDelay")
        if isinstance(delay, str):
            return delay
    return ""


def decoded(body: str | bytes | Any) -> Any:
    """JSON text decoded; anything else as it is."""
    if not isinstance(body, (str, bytes, bytearray)):
        return body
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace") if isinstance(body, (bytes, bytearray)) else body
