"""Arguments and results of the SDK beside those of the operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from .. import typed
from ..core.space import Kept, Remains
from ..errors import Invalid, MemwellError, TooLarge, Unavailable
from ..model.fields import MAX_FILE, as_object

if TYPE_CHECKING:
    from ..admin.jobs import Job
    from ..core.space import Erasure
    from ..records.working_memory import MemoryTool
    from .types import Conditions

Message = Mapping[str, Any]


class Handle:
    """An object of the SDK. It holds a transport and the ids that its calls begin with."""

    _transport: Any

    def __repr__(self) -> str:
        named: Mapping[str, Any] = getattr(self, "_at", None) or {
            name.strip("_"): value for name, value in vars(self).items() if isinstance(value, str)
        }
        fields = {**named, "memory": self._transport.place}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Receipt(msgspec.Struct, frozen=True):
    """The receipt of an erasure: the amounts erased in each layer, and the number of traces that a second look found (0). `kept`
    lists places that may concern a forgotten user and were not reached, `remains` those where erased bytes stay for some time."""

    job: str
    sessions: int
    layers: dict[str, int]
    residual: int
    kept: list[Kept] = []
    remains: list[Remains] = []


def to_receipt(erasure: Erasure, job: Job) -> Receipt:
    if job.state in ("dead", "cancelled"):
        raise MemwellError(f"The erasure could not be finished: {job.error or job.state}.", job=job.id)
    from ..core.space import Remains  # here, so that importing the SDK stays cheap

    result = job.result or {}
    return Receipt(
        erasure.job,
        erasure.sessions,
        result.get("layers", {}),
        result.get("residual", 0),
        erasure.kept or [],
        typed.convert(result.get("remains", []), list[Remains]),
    )


def to_unavailable(job: Job) -> Unavailable:
    return Unavailable(
        f"Job {job.id} is still {job.state}: a worker must run, in `memwell serve` or `memwell worker`.", job=job.id
    )


def to_messages(content: str | Message | Sequence[Message]) -> dict[str, Any]:
    """Convert a text, a message or several messages to fields of a request."""
    if isinstance(content, str):
        return {"content": content}
    messages: Sequence[Any] = [content] if isinstance(content, Mapping) else content
    if not all(isinstance(message, Mapping) for message in messages):
        raise Invalid("Give a text, a message such as {'role': 'user', 'content': '…'}, or a list of messages.")
    return {"messages": [dict(message) for message in messages]}


def build_search(at: Mapping[str, str], query: str, limit: int, conditions: Conditions) -> dict[str, Any]:
    """Build the request of a search."""
    data: dict[str, Any] = {"query": query, "limit": limit, **conditions, **at}
    if "include" in data:
        data["include"] = to_list(data["include"])
    return omit_none(**data)


def render_tool(tool: MemoryTool | None, style: str) -> dict[str, Any] | None:
    """Render a tool in the format of a vendor."""
    if tool is None:
        return None
    described = {"name": tool.name, "description": tool.description}
    match style:
        case "openai":
            return {"type": "function", "function": {**described, "parameters": tool.parameters}}
        case "anthropic":
            return {**described, "input_schema": tool.parameters}
    raise Invalid(f"`style` must be `openai` or `anthropic`, not {style!r}.")


def parse_arguments(given: Any) -> Any:
    """Parse the arguments of a tool call: an object, or its JSON."""
    if not isinstance(given, str):
        return given
    try:
        return msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise Invalid(f"The arguments of the tool call are not JSON: {error}.", field="memory") from None


def to_object(value: Any, field: str) -> dict[str, Any]:
    """Check that a value is a mapping, and copy it."""
    if not isinstance(value, Mapping):
        raise Invalid(f"`{field}` must be an object, not {type(value).__name__}{as_object(type(value))}.", field=field)
    return dict(value)


def read_file(file: str | Path | bytes, filename: str | None) -> tuple[bytes, str]:
    """Return the bytes of a file and its name. At most one byte more than the limit is read."""
    if isinstance(file, bytes | bytearray | memoryview):
        if filename is None:
            raise Invalid("`filename` is missing: bytes have no file name.", field="filename")
        return bytes(file), filename
    path = Path(file)
    try:
        if not path.is_file():  # never open a pipe or a device
            path.stat()
            raise Invalid(f"{path} cannot be read: it is not a file.", field="file")
        with path.open("rb") as opened:
            content = opened.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise TooLarge(f"{path.name} is larger than {MAX_FILE // 1024**2} MiB: split it.", limit=MAX_FILE)
        return content, filename or path.name
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.", field="file") from None


def to_list(texts: str | Iterable[str]) -> list[str]:
    """Convert to a list. A single text becomes a list of one."""
    return [texts] if isinstance(texts, str) else list(texts)


Moment: TypeAlias = date | datetime | str
"""A time, a day, or a text such as `2026-04-19` or `yesterday`."""
Lifetime: TypeAlias = int | str | None
"""A number, or a text such as `2 weeks`; None, 0 and `none` are for good."""


def omit_none(**fields: Any) -> dict[str, Any]:
    """Drop the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def omit_unset(**fields: Any) -> dict[str, Any]:
    """Drop the fields that were not given, where None is a value."""
    return {name: value for name, value in fields.items() if value is not msgspec.UNSET}
