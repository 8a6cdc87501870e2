"""What the headers of providers' responses say: how long to wait, and what is left of which limit.

Header names are in lower case; now_s is in seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from fairgate.values import USAGE_KINDS, RateLimitStatus

_WAIT_MAX_MS = 24 * 3600 * 1000
_REMAINING_MAX = 1e12  # the contract's
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
_Limits = dict[str, dict[str, str]]


def retry_after(headers: Mapping[str, str], retry_delay: str, now_s: float) -> timedelta | None:
    """How long a refusal says to wait. None: it does not say.

    In this order: retry-after-ms; retry-after; retry_delay (of the body); the longest reset among the limits that have
    nothing left or do not say.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return _clamp(float(milliseconds) / 1000)
    for text in (headers.get("retry-after", ""), retry_delay):
        wait = parse_wait(text, now_s)
        if wait is not None:
            return wait
    waits = [
        wait
        for limit in _limits(headers).values()
        if not _number(limit.get("remaining", "")) and (wait := parse_wait(limit.get("reset", ""), now_s)) is not None
    ]
    return max(waits, default=None)


def rate_limits(headers: Mapping[str, str], kinds: Mapping[str, str], now_s: float) -> dict[str, RateLimitStatus]:
    """What is told of the limits of these dimensions (names and their kinds of usage) and of "requests".

    A limit belongs to the dimension of its name ("input-tokens" is "input_tokens"), else to those that take the usage
    of that name. A limit without a name is one of requests. What is absent or malformed is left out.
    """
    limits = _limits(headers)
    told = {name: _status([name, *_of_kind(limits, kind)], limits, now_s) for name, kind in kinds.items()}
    told["requests"] = _status(["requests", ""], limits, now_s)
    return {name: status for name, status in told.items() if status is not None}


def _of_kind(limits: _Limits, kind: str) -> list[str]:
    return sorted(name for name in limits if USAGE_KINDS.get(name) == kind)


def _status(names: list[str], limits: _Limits, now_s: float) -> RateLimitStatus | None:
    """Of the first of these limits that tells anything."""
    for name in names:
        limit = limits.get(_normal(name), {})
        remaining, reset = _number(limit.get("remaining", "")), parse_wait(limit.get("reset", ""), now_s)
        if remaining is not None and remaining > _REMAINING_MAX:
            remaining = None
        if remaining is not None or reset is not None:
            return RateLimitStatus(remaining, reset)
    return None


def _limits(headers: Mapping[str, str]) -> _Limits:
    """The values of "limit", "remaining" and "reset" by the limit's name; the first header by name holds."""
    limits: _Limits = {}
    for header, value in sorted(headers.items()):
        if match := _LIMIT_HEADER.fullmatch(header):
            told = [(match["before"] or match["after"] or "", match["what"], value.strip())]
        else:
            told = list(_listed(value)) if header == "ratelimit" else []
        for name, what, text in told:
            limit = limits.setdefault(_normal(name), {})
            limit[what] = limit.get(what) or text
    # Negative ones are placeholders, not limits.
    return {
        name: limit
        for name, limit in limits.items()
        if not any(limit.get(what, "").startswith("-") for what in ("limit", "remaining"))
    }


def _listed(text: str) -> Iterator[tuple[str, str, str]]:
    """Of the IETF's header: "requests";r=50;t=12, "tokens";r=5000;t=30."""
    for item in text.split(","):
        name, *parameters = (part.strip().strip('"') for part in item.split(";"))
        for key, _, value in (parameter.partition("=") for parameter in parameters):
            if key in ("r", "t"):
                yield name, "remaining" if key == "r" else "reset", value


def _normal(name: str) -> str:
    return name.lower().replace("-", "_")


def parse_wait(text: str, now_s: float) -> timedelta | None:
    """A wait in any of the forms that are about; None: none of them.

    Spans ("6m0s", "20ms"), seconds ("55", "0.5"), seconds or milliseconds since 1970, RFC 3339 and HTTP dates. An
    instant that is over is a wait of 0.
    """
    text = text.strip()
    if _SPANS.fullmatch(text):
        return _clamp(sum(float(number) * _UNITS_S[unit] for number, unit in _SPAN.findall(text)))
    value = _number(text)
    if value is not None:
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


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _clamp(wait_s: float) -> timedelta:
    # Whole milliseconds, so that every client says the same.
    return timedelta(milliseconds=round(min(max(wait_s * 1000, 0.0), _WAIT_MAX_MS)))
