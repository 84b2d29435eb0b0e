"""Running the examples that operations carry, through any surface."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from memwell.core.operation import Operation

Call = Callable[[str, dict[str, Any]], Any]

_MASKS = (
    (r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "<time>"),
    (r"\bmw_[\w-]{43}", "<secret>"),
    (r'"took_ms":[\d.]+', '"took_ms":0'),
    (r'seconds":[\d.e-]+', 'seconds":0'),
    (r'token=\\"[0-9a-f]{16}\\"', "token"),
    (r'\\"[0-9a-f]{1,16}-(\d+)\\"', r'\\"<etag>-\1\\"'),
    (r'"(download_url|downloadUrl)":"[^"]+"', r'"\1":"<link>"'),
    (r'"tokens":\d+', '"tokens":0'),  # of the fence's token, too, which is another in every store
    (r"\b[0-9a-hjkmnp-tv-z]{26}\b", "<id>"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<uuid>"),
    (
        r'"answers":\d+',
        '"answers":0',
    ),  # the HTTP SDK sends idempotency keys by itself, and these answers are erased too
)


def run_example(operation: Operation, call: Call) -> Any:
    """Carry out an operation's example, after what it builds on."""
    results: list[Any] = []
    for name, data in operation.example.given:
        results.append(call(name, filled(data, results)))
    return call(operation.name, filled(operation.example.request, results))


def filled(data: dict[str, Any], results: list[Any]) -> dict[str, Any]:
    return {name: _value(value, results) for name, value in data.items()}


def _value(value: Any, results: list[Any]) -> Any:
    if isinstance(value, str) and (found := re.fullmatch(r"\$(\d+)((?:\.\w+)+)", value)):
        place = plain(results[int(found[1])])
        for name in found[2][1:].split("."):
            place = place[int(name) if isinstance(place, list) else name]
        return place
    return value


def plain(value: Any) -> Any:
    """A result as JSON would carry it."""
    return msgspec.json.decode(msgspec.json.encode(value))


def masked(value: Any) -> Any:
    """A result without what differs from run to run: ids, times, secrets."""
    text = msgspec.json.encode(value).decode()
    for pattern, mask in _MASKS:
        text = re.sub(pattern, mask, text)
    return msgspec.json.decode(text)
