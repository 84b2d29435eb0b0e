"""Values of a step that are no templates and can be judged before it runs, so that nobody finds out in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..clock import to_datetime
from ..errors import Invalid
from ..model import check
from ..model import filter as filters
from ..model.bank import RESERVED, checked_key
from .substitute import instant

Wrong = tuple[str, str]
"""The name of a field, and what is wrong with it."""
SPEAKERS = ("user", "assistant")
_PLACES = ("memory_bank_id", "flow", "user")
_TIMES = ("added_after", "added_before")


def judged(kind: str, fields: Mapping[str, Any], banks: Mapping[str, Mapping[str, Any]]) -> Iterator[Wrong]:
    """What is wrong with a step's literal values; `banks` are the settings of banks that the document makes."""
    if kind in ("add_memory", "search_memory", "load_memory") and (key := literal(fields.get("key"))) is not None:
        yield from _refused("key", lambda: checked_key(key))
    match kind:
        case "add_memory":
            yield from _entry(fields, banks)
        case "search_memory" | "retrieval":
            yield from _search(fields)
        case "prompt_call":
            yield from _prompt(fields)
        case "function":
            if fields.get("cache_minutes"):
                yield "cache_minutes", "what a function does depends on more than its input: it is not cached."
    if kind == "retrieval":
        yield from _places(fields)


def literal(value: Any) -> str | None:
    """A text that stays what it is; None if it is a template, or no text."""
    return value if isinstance(value, str) and "{{" not in value else None


def _entry(fields: Mapping[str, Any], banks: Mapping[str, Mapping[str, Any]]) -> Iterator[Wrong]:
    bank = banks.get(literal(fields.get("memory_bank_id")) or "")
    if bank is not None and bank.get("type") == "conversation":
        speaker = fields.get("speaker")
        if speaker is None:
            yield "speaker", "it is missing: a conversation bank needs one, `user` or `assistant`."
        elif (said := literal(speaker)) is not None and said not in SPEAKERS:
            yield "speaker", f"it must be `user` or `assistant`, not {said[:50]!r}."
    metadata = fields.get("entry_metadata")
    if isinstance(metadata, dict):
        yield from _refused("entry_metadata", lambda: check.to_json(metadata, "entry_metadata"))
        for name in RESERVED:
            if name in metadata:
                yield "entry_metadata", f"`{name}` is set by the bank itself: use another name."


def _search(fields: Mapping[str, Any]) -> Iterator[Wrong]:
    """A template inside a filter becomes a text, so a filter is what it is before a run, too."""
    conditions = fields.get("filter")
    if isinstance(conditions, dict):
        yield from _refused("filter", lambda: filters.parse(conditions))
    for name in _TIMES:
        if (text := literal(fields.get(name))) is not None:
            yield from _refused(name, lambda: instant(text, name, to_datetime(0)))  # noqa: B023 -- run at once


def _prompt(fields: Mapping[str, Any]) -> Iterator[Wrong]:
    text = literal(fields.get("prompt_template"))
    messages = fields.get("use_step_input_as_messages") or fields.get("input_is_messages")
    if text is not None and not text.strip() and not messages:
        yield "prompt_template", "the prompt is empty."


def _places(fields: Mapping[str, Any]) -> Iterator[Wrong]:
    """A retrieval has one place. A template may turn out to be empty, and then is none."""
    given = [fields[name] for name in _PLACES if fields.get(name)]
    certain = [one for one in given if literal(one) is not None]
    if not given or len(certain) > 1:
        yield "", "a retrieval needs one of `memory_bank_id`, `flow` or `user`."


def _refused(name: str, judge: Callable[[], object]) -> Iterator[Wrong]:
    try:
        judge()
    except Invalid as error:
        yield name, error.message
