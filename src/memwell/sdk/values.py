"""What the SDK takes and gives beside the values of the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..admin.jobs import Job
from ..errors import Invalid, MemwellError, TooLarge, Unavailable
from ..model.check import as_object
from ..records.file_rows import MAX_FILE
from ..records.working_memory import Tool
from ..timelines.sessions import Erasure
from .types import Conditions

Message = Mapping[str, Any]


class Receipt(msgspec.Struct, frozen=True):
    """Proof of an erasure: how much was erased in each layer, and how many traces a second look found (none)."""

    job: str
    sessions: int
    layers: dict[str, int]
    residual: int


def to_receipt(erasure: Erasure, job: Job) -> Receipt:
    if job.state in ("dead", "cancelled"):
        raise MemwellError(f"The erasure could not be finished: {job.error or job.state}.", job=job.id)
    result = job.result or {}
    return Receipt(erasure.job, erasure.sessions, result.get("layers", {}), result.get("residual", 0))


def unfinished(job: Job) -> Unavailable:
    return Unavailable(
        f"Job {job.id} is still {job.state}: a worker must run, in `memwell serve` or `memwell worker`.", job=job.id
    )


def said(content: str | Message | Sequence[Message]) -> dict[str, Any]:
    """A text, one message or several, as the request wants it."""
    if isinstance(content, str):
        return {"content": content}
    messages: Sequence[Any] = [content] if isinstance(content, Mapping) else content
    if not all(isinstance(message, Mapping) for message in messages):
        raise Invalid("Give a text, a message such as {'role': 'user', 'content': '…'}, or a list of messages.")
    return {"messages": [dict(message) for message in messages]}


def searched(at: Mapping[str, str], query: str, limit: int, conditions: Conditions) -> dict[str, Any]:
    """A search as the request wants it."""
    data: dict[str, Any] = {"query": query, "limit": limit, **conditions, **at}
    if "include" in data:
        data["include"] = listed(data["include"])
    return given(**data)


def tool_for(tool: Tool | None, style: str) -> dict[str, Any] | None:
    """A tool as a model's maker wants it."""
    if tool is None:
        return None
    described = {"name": tool.name, "description": tool.description}
    match style:
        case "openai":
            return {"type": "function", "function": {**described, "parameters": tool.parameters}}
        case "anthropic":
            return {**described, "input_schema": tool.parameters}
    raise Invalid(f"A tool is made for `openai` or `anthropic`, not {style!r}.")


def arguments(given: Any) -> Any:
    """What a model has called a tool with: an object, or the JSON of one."""
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise Invalid(f"What the tool was called with is not JSON: {error}.", field="memory") from None


def mapping(value: Any, field: str) -> dict[str, Any]:
    """An object that a caller has given, or what a model has made of one."""
    if not isinstance(value, Mapping):
        raise Invalid(f"`{field}` must be an object, not {type(value).__name__}{as_object(type(value))}.", field=field)
    return dict(value)


def file_given(file: str | Path | bytes, filename: str | None) -> tuple[bytes, str]:
    """The bytes of a file and what it is called. Of what is too large, no more is read than it takes to know that."""
    if isinstance(file, bytes | bytearray | memoryview):
        if filename is None:
            raise Invalid("`filename` is missing: bytes have no name of their own.", field="filename")
        return bytes(file), filename
    path = Path(file)
    try:
        if not path.is_file():  # what has no end, or never begins, is not even opened
            path.stat()
            raise Invalid(f"{path} cannot be read: it is not a file.", field="file")
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise TooLarge(f"{path.name} is larger than {MAX_FILE // 1024**2} MiB: split it.", limit=MAX_FILE)
        return content, filename or path.name
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.", field="file") from None


def listed(texts: str | Iterable[str]) -> list[str]:
    """Texts as a list. A text alone is one of them, and not the list of its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given; the others keep their defaults."""
    return {name: value for name, value in fields.items() if value is not None}
