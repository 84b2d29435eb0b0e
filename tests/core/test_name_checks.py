"""Every name in a request is checked by the rules in its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from memwell import Invalid
from memwell.core.operation import NAME_CHECKS, Operation, to_request
from memwell.registry import OPERATIONS

from ..cases import cases
from ..engines import Memory

SAMPLES = ("a", "a b", "a\u200db", "\u00e9", "a\nb", "a\n", "\x00", "a\x7f", "\x85", "x-y", "A_1", "\U0001f600")


def told(operation: Operation) -> dict[str, str]:
    """The patterns that msgspec only tells of, by the fields that have them; those below a field by its path."""
    info = inspect.type_info(operation.request)
    assert isinstance(info, inspect.StructType)
    return {path: pattern for field in info.fields for path, pattern in below(field.type, field.name, ())}


def below(node: Any, path: str, above: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(node, inspect.Metadata):
        if pattern := (node.extra_json_schema or {}).get("pattern"):
            yield path, pattern
        yield from below(node.type, path, above)
    elif isinstance(node, inspect.UnionType):
        for kind in node.types:
            yield from below(kind, path, above)
    elif isinstance(node, inspect.StructType) and node.cls not in above:
        for field in node.fields:
            yield from below(field.type, f"{path}.{field.name}", (*above, node.cls))
    else:
        for part in ("item_type", "key_type", "value_type"):
            if hasattr(node, part):
                yield from below(getattr(node, part), f"{path}.{part}", above)


TOLD = [(name, field) for name, operation in OPERATIONS.items() for field in told(operation)]


def test_there_are_such_names() -> None:
    assert {field for _, field in TOLD} == {"flow", "user", "session", "session_id", "record"}


@cases(("name", "field"), TOLD)
def test_a_name_is_what_its_schema_says(name: str, field: str) -> None:
    """A pattern that is only told is told of a field of the request itself, and matched all the same."""
    operation = OPERATIONS[name]
    pattern = told(operation)[field]
    assert field in NAME_CHECKS
    wrong = {sample for sample in SAMPLES if not re.search(pattern, sample)}
    assert {"a\nb", "a\n", "\x00", "a\x7f", "\x85"} <= wrong < set(SAMPLES)
    for sample in SAMPLES:
        given = {**operation.example.request, field: sample}
        if sample not in wrong:
            assert getattr(to_request(operation, given), field) == sample
            continue
        with pytest.raises(Invalid, match="not allowed") as refused:
            to_request(operation, given)
        assert refused.value.details["field"] == field


@cases("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_what_is_looked_at_is_a_text(operation: Operation) -> None:
    info = inspect.type_info(operation.request)
    assert isinstance(info, inspect.StructType)
    kinds = {field.name: field.type for field in info.fields}
    for name, _ in operation.names:
        assert texts(kinds[name]), f"{operation.name}: {name}"


def texts(node: Any) -> bool:
    if isinstance(node, inspect.Metadata):
        return texts(node.type)
    if isinstance(node, inspect.UnionType):
        return all(map(texts, node.types))
    return isinstance(node, inspect.StrType | inspect.NoneType)


@cases("session", ["a\nb", "a\x00", "..", "."])
def test_sessions_of_an_import_are_named_like_any_other(tmp_path: Path, session: str) -> None:
    line = {"type": "turn", "session": session, "role": "user", "content": "Hi"}
    with Memory(tmp_path, worker=False) as memory:
        with pytest.raises(Invalid, match=r"lines\[0\]\.session"):
            memory.flow("f").import_lines([line])
        assert memory.flow("f").sessions() == []
