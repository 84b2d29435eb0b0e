"""What is known of an owner under memory definitions: found by its scope, checked and counted before it is shown (C24)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from ..context.working_memory import Section
from ..documents import Document
from ..errors import NotFound, TooLarge
from ..model.contract import Definition
from ..record_lists import MAX_BYTES
from ..records import Record, read
from ..space import Space
from .definitions import every, find, held_to
from .held import filled, misfits, refused
from .places import user_records

NO_ROOM = f"what is shown together has at most {MAX_BYTES // 1024**2} MiB: bind fewer definitions at once"


class Whose(NamedTuple):
    """Whose memory, and which workflow, thread and run it is asked for."""

    owner: str
    workflow: str | None = None
    thread: str | None = None
    run: str | None = None


class Loaded(NamedTuple):
    """The active record, if it may be shown; why it is withheld, if so; and the address that was looked at, since a warning says
    something of what is there, too. `reachable`: whether what its scope needs was given."""

    record: Record | None = None
    warning: str | None = None
    address_id: int | None = None
    reachable: bool = True


class Gathered(NamedTuple):
    """What is known under one definition: as it is shown, and what that comes from. `writable`: whether a model may write it.
    It may not if there is nowhere to write to, nor what it is not shown for want of room."""

    section: Section
    loaded: Loaded
    writable: bool = True

    @property
    def record(self) -> Record | None:
        return self.loaded.record

    @property
    def warning(self) -> str | None:
        return self.loaded.warning


def bound_to(space: Space, names: Sequence[str] | None) -> list[tuple[Document, Definition]]:
    """Definitions by id or slug, in the order in which they are named; all global ones if none are (S3.39)."""
    if names is None:
        found = [pair for pair in every(space) if pair[1].scope == "global"]
        return sorted(found, key=lambda pair: pair[0].name)
    chosen = {name: find(space, name) for name in dict.fromkeys(names)}
    missing = [name for name, pair in chosen.items() if pair is None]
    if missing:
        raise NotFound(f"Unable to find memory definition(s): {', '.join(missing)}.", definitions=missing)
    return list({pair[0].id: pair for pair in chosen.values() if pair is not None}.values())


def gathered(
    space: Space, pairs: Iterable[tuple[Document, Definition]], whose: Whose, *, strict: bool = False
) -> list[Gathered]:
    """What is known of an owner under some definitions, in their order. As soon as one has no room, those behind it are not even
    read: all of them are withheld."""
    found = []
    room = MAX_BYTES
    for document, definition in pairs:
        one = _gathered(space, document, definition, whose, strict) if room >= 0 else None
        room -= len(document.body) + (0 if one is None else _size(one.section))
        if one is None or room < 0:
            room = -1
            one = _without_room(document, definition, one, strict)
        found.append(one)
    return found


def loaded(space: Space, document: Document, definition: Definition, whose: Whose, *, strict: bool = False) -> Loaded:
    """The active record for an owner and a scope; one that does not fit any more is withheld (C24)."""
    path = path_of(definition, whose)
    if path is None:
        missing = f"no {definition.scope} was given, to which this memory belongs"
        return Loaded(warning=missing, reachable=False)
    record = read(space, user_records(whose.owner), path)
    if record is None:
        return Loaded()
    problems = misfits(record.value, held_to(document.id, definition), space)
    if not problems:
        return Loaded(record, address_id=record.address_id)
    error = refused(problems, f"The stored value of {definition.slug!r}")
    if strict:
        raise error
    return Loaded(warning=error.message, address_id=record.address_id)


def path_of(definition: Definition, whose: Whose) -> str | None:
    """Where a record is among those of its owner; None if what its scope needs was not given."""
    if definition.scope == "global":
        return definition.slug
    given = getattr(whose, definition.scope)
    return None if given is None else f"{definition.slug}@{definition.scope}/{given}"


def withheld(name: str, reason: str) -> str:
    """A warning in a sentence, where there is nothing but a text to say it in."""
    return f"`{name}` is withheld: {reason}"


def _gathered(space: Space, document: Document, definition: Definition, whose: Whose, strict: bool) -> Gathered:
    known = loaded(space, document, definition, whose, strict=strict)
    value = None if known.record is None else filled(known.record.value, held_to(document.id, definition))
    merges = definition.update_mode == "merge"
    section = Section(definition.slug, document.name, definition.schema, value, merges)
    return Gathered(section, known, known.reachable)


def _without_room(document: Document, definition: Definition, one: Gathered | None, strict: bool) -> Gathered:
    if strict:
        raise TooLarge(f"`{definition.slug}` has no room: {NO_ROOM}.", limit=MAX_BYTES)
    section = Section(definition.slug, document.name, definition.schema, None)
    address_id = None if one is None else one.loaded.address_id
    return Gathered(section, Loaded(warning=NO_ROOM, address_id=address_id), writable=False)


def _size(found: Section) -> int:
    """What is shown: the value, with what defaults make of it."""
    return 0 if found.value is None else len(msgspec.json.encode(found.value))
