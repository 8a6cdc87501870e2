"""What providers' responses say: usage, how the call ended, and how long to wait.

Understands the shapes of OpenAI's and Anthropic's APIs (and of those that copy them), as decoded JSON, as their SDKs'
objects and errors, and as responses of httpx, requests and aiohttp.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from fairgate.values import CallOutcome, Settlement

USAGE_KINDS: Mapping[str, str] = {
    "tokens": "total",
    "total_tokens": "total",
    "input_tokens": "input",
    "prompt_tokens": "input",
    "output_tokens": "output",
    "completion_tokens": "output",
}
"""Which usage a dimension of that name takes, unless the gate's options say otherwise."""

_RETRY_AFTER_MAX = timedelta(hours=24)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPANS = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
# A bare number above this is an instant since 1970, not a wait: nobody waits thirty years.
_EPOCH_MIN_S = 1e9
_EPOCH_MIN_MS = 1e12
# Name of a limit's headers: x-ratelimit-reset-tokens, anthropic-ratelimit-input-tokens-reset, x-ratelimit-reset.
_LIMIT_HEADER = re.compile(
    r"(?:x-|anthropic-)?ratelimit(?:-(?P<before>[a-z-]+?))?-(?P<what>limit|remaining|reset)(?:-(?P<after>[a-z-]+))?"
)


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
    with Anthropic's usage, tokens read from its cache are not in it, tokens written to it are.
    """
    found = http_response_of(response) or HttpResponse(body=response)
    http = HttpResponse(
        found.status if status is None else status,
        {key.lower(): value for key, value in (found.headers if headers is None else headers).items()},
        found.body if body is None else body,
    )
    kinds = dimensions if isinstance(dimensions, Mapping) else {name: USAGE_KINDS[name] for name in dimensions}
    usage = usage_of(http.body)
    outcome = _outcome(http.status, known=bool(usage))
    wait = None
    if outcome is CallOutcome.RATE_LIMITED:
        wait = retry_after(http.headers, http.body, time.time() if now_s is None else now_s)
    return Settlement(outcome, {name: usage[kind] for name, kind in kinds.items() if kind in usage}, wait)


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


def retry_after(headers: Mapping[str, str], body: Any, now_s: float) -> timedelta | None:
    """How long a refusal says to wait; header names in lower case. None: it does not say.

    In this order: retry-after-ms; retry-after; retryDelay of a google.rpc.RetryInfo in the body; the longest reset
    among the limits that have nothing left or do not say. Negative limits are placeholders, not limits.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return _clamp(float(milliseconds) / 1000)
    for text in (headers.get("retry-after", ""), _google_delay(body)):
        wait = parse_wait(text, now_s)
        if wait is not None:
            return wait
    waits = [wait for text in _resets(headers) if (wait := parse_wait(text, now_s)) is not None]
    return max(waits, default=None)


def _resets(headers: Mapping[str, str]) -> list[str]:
    limits: dict[str, dict[str, str]] = {}
    for name, value in headers.items():
        match = _LIMIT_HEADER.fullmatch(name)
        if match:
            limits.setdefault(match["before"] or match["after"] or "", {})[match["what"]] = value.strip()
    found = []
    for limit in limits.values():
        if any(limit.get(what, "").startswith("-") for what in ("limit", "remaining")):
            continue
        remaining = limit.get("remaining", "0")
        if "reset" in limit and not (_NUMBER.fullmatch(remaining) and float(remaining) > 0):
            found.append(limit["reset"])
    return found


def _google_delay(body: Any) -> str:
    error = _get(body, "error")
    for detail in _get(error, "details") or ():
        delay = _get(detail, "retryDelay")
        if isinstance(delay, str):
            return delay
    return ""


def parse_wait(text: str, now_s: float) -> timedelta | None:
    """A wait in any of the forms that are about; None: none of them.

    Spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or milliseconds since 1970, RFC 3339 and HTTP dates. An
    instant that is over is a wait of 0.
    """
    text = text.strip()
    if _SPANS.fullmatch(text):
        return _clamp(sum(float(number) * _UNITS_S[unit] for number, unit in _SPAN.findall(text)))
    if _NUMBER.fullmatch(text):
        value = float(text)
        if value >= _EPOCH_MIN_MS:
            value /= 1000
        return _clamp(value - now_s if value >= _EPOCH_MIN_S else value)
    instant = _parse_date(text)
    return None if instant is None else _clamp(instant.timestamp() - now_s)


def _parse_date(text: str) -> datetime | None:
    if len(text) < 19:  # "2026-08-07T21:00:00"
        return None
    try:
        iso = text[:-1] + "+00:00" if text[-1] in "zZ" else text
        instant = datetime.fromisoformat(iso) if text[0].isdigit() else parsedate_to_datetime(text)
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)


def _clamp(wait_s: float) -> timedelta:
    # Whole milliseconds, so that every client says the same.
    return min(timedelta(milliseconds=max(0, round(wait_s * 1000))), _RETRY_AFTER_MAX)


def decoded(body: str | bytes | Any) -> Any:
    """JSON text decoded; anything else as it is."""
    if not isinstance(body, (str, bytes, bytearray)):
        return body
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace") if isinstance(body, (bytes, bytearray)) else body
