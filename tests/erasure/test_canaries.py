"""A word in each field of each request that stores something: once what was made is deleted, no file has the word (G9).

The places are found, not listed: every text in the examples of the operations, and every field that their requests may have.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from memwell import MemwellError
from memwell.core.operation import Operation
from memwell.registry import OPERATIONS
from memwell.sdk.transport import LocalTransport

from ..engines import Memory, remains
from ..examples import filled, plain
from .test_stored_answers import MADE, WORK_ON_OTHERS, find_field, list_deletions

LETTERS = "bcdfghjklmnpqrstvwxz"
Path_ = tuple[str | int, ...]


USER = "alice"
OUTSIDE = {"stores.delete": "app"}
"""Deletions, and the place that names what contains the deleted thing."""
NOT_OF_A_USER = ("document", "app", "workflow", "run")
NAMES_OF_OTHERS = ("metadata.userId", "flow")
"""Places that are not about the user who is forgotten: another user, and the name that the application gives a flow."""


def owner_field(operation: Operation) -> str | None:
    """The field of a request that names a user, if it has one."""
    return next((one for one in ("user", "user_id", "owner") if one in operation.request.__struct_fields__), None)


def canary(number: int) -> str:
    """A word that nothing else contains."""
    return "zyxoq" + "".join(LETTERS[number // 20**place % 20] for place in range(3)) + "wv"


def places(operation: Operation, request: dict[str, Any]) -> Iterator[tuple[str, Path_, Any]]:
    """The places of an operation: their names, their paths in the request, and the kinds of what they hold."""
    for path, value in leaves(request):
        yield ".".join(map(str, path)), path, "key" if value is None else "text"
    for name, hint in typing.get_type_hints(operation.request).items():
        if name not in request:
            for kind in sorted(kinds(hint)):
                yield f"{name}:{kind}", (name,), kind


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """The paths of all texts, and of an additional name in each object."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        if path:
            yield (*path, "#"), None
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))


def kinds(hint: Any) -> set[str]:
    """What a field of this type may hold."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is str:
        return {"text"}
    if hint is Any:
        return {"object", "text"}
    if origin is dict or hint is dict:
        return {"object"}
    if origin is list and "text" in kinds(inner[0]):
        return {"list"}
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return set().union(*map(kinds, inner[:1] if origin is typing.Annotated else inner))
    return set()


def put(request: dict[str, Any], path: Path_, kind: str, word: str) -> dict[str, Any]:
    """The request with a word at a place."""
    request = msgspec.json.decode(msgspec.json.encode(request))
    where: Any = request
    for step in path[:-1]:
        where = where[step]
    last: Any = word if path[-1] == "#" else path[-1]
    before = where.get(last) if isinstance(where, dict) else where[last]
    match kind:
        case "key" | "object":
            where[last] = {word: f"about {word}"}
        case "list":
            where[last] = [word]
        case _ if isinstance(before, str) and "\n" in before:  # a document: its first name that is a value
            first, _, rest = before.partition(":")
            where[last] = f"{first}_{word}:{rest}"
        case _:
            where[last] = word
    return request


class Planted(NamedTuple):
    """A word that an operation has stored."""

    place: str
    word: str
    home: Path
    memory: Memory
    request: dict[str, Any]
    answer: Any
    made: list[Any]

    def list_traces(self) -> list[str]:
        return [f"{self.place} in {name}" for name, data in remains(self.home).items() if self.word.encode() in data]

    def settle(self) -> list[str]:
        """Run the jobs that are due, as an idle server does, and return the traces that are left."""
        transport = self.memory._transport
        assert isinstance(transport, LocalTransport)
        transport.engine.worker.run_due("default")
        return self.list_traces()


def plant(
    memory: Memory, operation: Operation, change: dict[str, Any], path: Path_, kind: str, word: str
) -> tuple[dict[str, Any], Any, list[Any]]:
    """Carry out the example of an operation with a word at a place. Return the request, the answer, and what the example builds
    on."""
    made: list[Any] = []
    for name, data in operation.example.given:
        known = {one: value for one, value in change.items() if one in data}
        made.append(memory.call(name, filled({**data, **known}, made)))
    request = put(filled({**operation.example.request, **change}, made), path, kind, word)
    request.pop("dry_run", None)
    return request, plain(memory.call(operation.name, request, key=f"key of {word}")), made


def plant_everywhere(folder: Path, operation: Operation, change: dict[str, Any]) -> Iterator[Planted]:
    """Carry out an operation in a memory of its own for each of its places that takes a word and stores it."""
    for number, (place, path, kind) in enumerate(places(operation, {**operation.example.request, **change})):
        word, home = canary(number), folder / str(number)
        with Memory(home, worker=False) as memory:
            try:
                planted = Planted(place, word, home, memory, *plant(memory, operation, change, path, kind, word))
            except MemwellError:
                continue  # this place does not take any text
            if planted.list_traces():
                yield planted


@pytest.mark.every_engine
@pytest.mark.parametrize(
    ("name", "deletion"),
    [(name, number) for name in MADE if name not in WORK_ON_OTHERS for number in range(len(list_deletions(name)))],
)
def test_what_is_deleted_is_in_no_file(tmp_path: Path, name: str, deletion: int) -> None:
    """G9: an idle server deletes it from every table, index and file, and from the write-ahead log."""
    delete, fields = list_deletions(name)[deletion]
    left: list[str] = []
    for planted in plant_everywhere(tmp_path, OPERATIONS[name], {}):
        if planted.place == OUTSIDE.get(delete):
            continue
        request = {} if name == "runs.repeat" else planted.request
        named = {one: find_field(one, request, planted.answer, planted.made) for one in fields}
        planted.memory.call(delete, named, key=f"deletes {planted.word}")
        if name.startswith("runs."):  # what a run wrote stays where it is
            for bank in list(planted.memory.banks.list()):
                planted.memory.call("banks.delete", {"bank": bank.id})
        left += planted.settle()
    assert left == []


@pytest.mark.every_engine
@pytest.mark.parametrize("name", [name for name in MADE if owner_field(OPERATIONS[name]) is not None])
def test_what_belongs_to_a_forgotten_user_is_in_no_file(tmp_path: Path, name: str) -> None:
    """G9: so are the words of a user in every request that names one; the programs and settings of others stay."""
    left: list[str] = []
    field = owner_field(OPERATIONS[name])
    assert field is not None
    change: dict[str, Any] = {field: USER}
    metadata = OPERATIONS[name].example.request.get("metadata", {})
    if "userId" in metadata:  # it names the user, too
        change["metadata"] = {**metadata, "userId": USER}
    for planted in plant_everywhere(tmp_path, OPERATIONS[name], change):
        if planted.place.startswith(NOT_OF_A_USER) or planted.place in NAMES_OF_OTHERS:
            continue
        planted.memory.call("users.forget", {"user": planted.request[field]}, key=f"forgets {planted.word}")
        left += planted.settle()
    assert left == []


def test_there_are_as_many_places_as_the_independent_test_had(tmp_path: Path) -> None:
    """The walk finds at least the 106 places in which an independent test hid its words."""
    found = [
        f"{name} {planted.place}"
        for name in MADE
        if name not in WORK_ON_OTHERS
        for planted in plant_everywhere(tmp_path / name, OPERATIONS[name], {})
    ]
    assert len(found) >= 106
