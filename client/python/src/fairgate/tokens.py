"""Estimating the tokens of a request from its body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairgate.providers import decoded

CHARACTERS_PER_TOKEN = 4
_TEXT_FIELDS = ("system", "instructions", "messages", "input", "prompt", "tools", "functions")
# Values that are ids, names of kinds, or data that is not counted by its characters.
_NOT_TEXT = frozenset((
    "cache_control", "call_id", "data", "file", "file_data", "id", "image_url", "input_audio", "media_type", "role",
    "source", "tool_call_id", "tool_use_id", "type", "url",
))  # fmt: skip
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def estimate_tokens(
    body: Mapping[str, Any] | str | bytes, *, count: Callable[[str], int] | None = None, output: int = 0
) -> int:
    """Tokens that a request may use: its input, and the bound it sets on its output.

    body: the request as a mapping or as JSON text, in the shape of OpenAI's or Anthropic's APIs; text that is no JSON
        object is a prompt.
    count: counts the tokens of a text, see tiktoken_counter(); by default four characters (code points) are one token,
        rounded up over all texts.
    output: tokens of output to expect when the body sets no bound (max_completion_tokens, max_output_tokens,
        max_tokens); times the number of choices ("n").
    """
    request = decoded(body)
    if not isinstance(request, Mapping):
        request = {"prompt": body.decode(errors="replace") if isinstance(body, bytes) else str(body)}
    texts = [text for field in _TEXT_FIELDS for text in _texts(request.get(field))]
    tokens = sum(map(count, texts)) if count else -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)
    bound = next((request[name] for name in _OUTPUT_FIELDS if _is_count(request.get(name))), output)
    choices = request["n"] if _is_count(request.get("n")) else 1
    return tokens + bound * choices


def tiktoken_counter(model: str) -> Callable[[str], int]:
    """Counts with OpenAI's tokenizer (fairgate[tiktoken]); of a model that it does not know, with o200k_base.

    ImportError: tiktoken is not installed. It fetches its vocabularies from the network when first used.
    """
    import tiktoken  # noqa: PLC0415 - optional

    try:
        encoding = tiktoken.encoding_for_model(model)
    except KeyError:
        encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _NOT_TEXT:
                yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
