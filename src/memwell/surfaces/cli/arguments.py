"""What is given without a name: where something is, what is said, and the one field that a command needs besides."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
import typer

from ...operation import Operation
from .given import option

BARE = "_argument"
"""How the parameter ends that takes a field without its name, beside its option."""


def positional(operation: Operation) -> list[str]:
    """The fields that are given without a name: where it is, and what is said."""
    content = [name for name in operation.request.__struct_fields__ if name == "content" and operation.writes]
    return [*operation.path_fields, *content]


def needed(operation: Operation) -> str | None:
    """The field that may be given without its name as well, since there is no other that must be given. What is said has no name
    already, and a word beside it would be taken for the rest of it."""
    places = operation.path_fields
    if len(positional(operation)) > len(places):
        return None
    required = [one.name for one in msgspec.structs.fields(operation.request) if one.required]
    others = [name for name in required if name not in places]
    return others[0] if len(others) == 1 else None


def label(name: str, bare: Collection[str]) -> str:
    """A field as it is given here: as an argument, if it is one of those, else as an option."""
    return name.upper() if name in bare else option(name)


class Said(NamedTuple):
    """What was given, by field, and which of the fields have no name."""

    values: Mapping[str, Any]
    bare: Collection[str]


def settled(operation: Operation, said: Mapping[str, Any], invocation: typer.Context) -> Said:
    """What was given, in whichever way the needed field was."""
    bare, name = positional(operation), needed(operation)
    if name is None:
        return Said(said, bare)
    argument = said[name + BARE]
    if (argument is None) == (said[name] is None):
        raise Misused(_misused(name, twice=argument is not None), invocation)
    return Said(said, bare) if argument is None else Said({**said, name: argument}, [*bare, name])


def _misused(name: str, *, twice: bool) -> str:
    if twice:
        return f"{name.upper()} and {option(name)} are the same: give one of them."
    return f"Missing argument '{name.upper()}' (or {option(name)})."


class Misused(typer.BadParameter):
    """A command that was not given what it takes. It is told like what Typer finds out, whose words would name one way only."""

    def format_message(self) -> str:
        return self.message
