"""A command for every operation, made from the registry: names and content are arguments, the rest are options. If there is one
more field that must be given, it is both."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from ...core.operation import Operation
from ...errors import Invalid
from ...records.validation import Breaking
from ...registry import OPERATIONS
from ...workflows.app_execution import Executed
from ...workflows.app_transfer import Imported
from ...workflows.run_operations import Run
from .fields import (
    FROM_FILE,
    NAMELESS,
    STANDARD_INPUT,
    Taken,
    keyword,
    label,
    option,
    positional,
    read_given,
    require_one_input,
    settled,
    spelled,
    taken,
)
from .messages import confirm, told, warn, warnings_of, without_warnings
from .output import Json, Yes, brief, print_json, print_value
from .printers import readable
from .target import Target

NOUNS = {
    "users": ("user", "People: what was said, what is known of them, and the records that are set."),
    "flows": ("flow", "Flows and their sessions: turns, semantic memories, retention."),
    "log": ("log", "Logs of agents: the entries of a session, in the order they were recorded."),
    "hooks": ("hook", "Prompts that agents fetch by a rule, filled with memory."),
    "banks": ("bank", "Memory banks: keyed notes and conversations that are summarised as they grow."),
    "apps": ("app", "Apps: what answers a message, their sessions, files and metadata."),
    "stores": ("store", "Memory stores of an app, and the content in them."),
    "definitions": ("definition", "Memory definitions: the working memory of a model, held to a schema."),
    "workflows": ("workflow", "Workflows in YAML or JSON: check them, keep them, run them."),
    "runs": ("runs", "Runs of workflows: begin, follow, read and repeat them."),
    "jobs": ("job", "Background work: distilling, erasing, embedding."),
    "tenants": ("tenant", "Tenants: memories that know nothing of each other."),
    "keys": ("key", "API keys: make, list and revoke them."),
    "events": ("event", "What was written, when and by whom."),
    "status": ("status", "How the memory is doing."),
}
"""What a group of commands is called, and what it is about."""
MAX_ASKED = 200
"""How much of each name a question repeats."""
NO = 1
"""The exit code of what was asked whether something is valid or fits, and is not or does not; and of what was run and failed."""

__all__ = ["NOUNS", "add_commands", "positional"]


def add_commands(app: typer.Typer, also: Mapping[str, Callable[..., None]]) -> None:
    """A command for every operation; `also` are commands by hand, such as `workflow run`."""
    groups: dict[str, typer.Typer] = {}
    for group in dict.fromkeys(operation.group for operation in OPERATIONS.values()):
        noun, about = NOUNS[group]
        groups[noun] = typer.Typer(cls=_Group, no_args_is_help=True, help=about)
        app.add_typer(groups[noun], name=noun)
    for name, command in also.items():
        noun, _, verb = name.partition(" ")
        groups[noun].command(verb)(command)


class _Group(TyperGroup):
    """The commands of the operations of a noun, and those by hand."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        operations = {one.command: one for one in OPERATIONS.values() if NOUNS[one.group][0] == self.name}
        self.commands = _Commands(operations, self.commands)


class _Commands(MutableMapping[str, Any]):
    """Commands by name. One of an operation is made when it is asked for: making all of them takes longer than most do."""

    def __init__(self, operations: Mapping[str, Operation], made: Mapping[str, Any]) -> None:
        self._operations = operations
        self._made = dict(made)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(self._operations[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._operations, **self._made})

    def __len__(self) -> int:
        return len({**self._operations, **self._made})


def _made(operation: Operation) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(operation.command, help=operation.summary)(_command(operation))
    return typer.main.get_command(alone)


def _command(operation: Operation) -> Callable[..., None]:
    fields = taken(operation)
    parameters = [keyword("invocation", typer.Context), *(one for field in fields for one in field.parameters)]
    if operation.effect == "erase":
        parameters.append(keyword("yes", Yes, False))
    parameters.append(keyword("as_json", Json, False))

    def command(invocation: typer.Context, as_json: bool, yes: bool = True, **said: Any) -> None:
        target: Target = invocation.obj
        meant = settled(operation, said, invocation)
        given = _given(fields, meant.values)
        names: dict[str, str] = {}
        with told(names):
            confirm(_question(operation, given), yes or said.get("dry_run") is True)
            data = _read(operation, fields, given, meant.bare)
            names |= spelled(fields, data, meant.bare)
            with target.memory() as memory:
                answer = memory.call(operation.name, data)
                _show(answer, as_json)
            if _is_no(operation, answer):
                raise typer.Exit(NO)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _given(fields: list[Taken], values: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody has given, and not only left as it is."""
    return {one.name: value for one in fields if (value := values[one.name]) not in (None, [], one.default)}


def _question(operation: Operation, given: Mapping[str, Any]) -> str:
    """What is to be done, to what, and whether it shall be: "Delete a memory store with all its content: shop, cart. Go on?"."""
    first, _, further = operation.summary.rstrip(".").partition(". ")
    bare = [str(given[name]) for name in operation.path_fields]
    named = [
        f"{option(name)} {each}"
        for name, value in given.items()
        if name not in operation.path_fields
        for each in (value if isinstance(value, list) else [value])
    ]
    what = ", ".join(brief(one, MAX_ASKED) for one in (*bare, *named))
    return ". ".join(filter(None, (f"{first}: {what}" if what else first, further, "Go on?")))


def _read(operation: Operation, fields: list[Taken], given: Mapping[str, Any], bare: Collection[str]) -> dict[str, Any]:
    """The request: what was given, read as it is meant."""
    readers = {field.name: field.read for field in fields if field.read is not None}
    require_one_input(given[name] for name in readers if name in given)
    named = _named(dict(given), operation)
    return {
        name: read_given(readers[name], label(name, bare), value) if name in readers else value
        for name, value in named.items()
    }


def _named(given: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """What was given; a file that is not called anything else has the name that it has on the disk."""
    content = given.get(operation.carries or "")
    if isinstance(content, str) and content.startswith(FROM_FILE) and "filename" not in given:
        path = content[len(FROM_FILE) :]
        if path == STANDARD_INPUT:
            raise Invalid(NAMELESS)
        given["filename"] = Path(path).name
    return given


def _show(answer: Any, as_json: bool) -> None:
    """JSON has everything in it; for people, what is warned of stands apart from the answer."""
    if as_json:
        return print_json(answer)
    printed = readable(answer)
    if printed is not None:
        printed()
    else:
        print_value(without_warnings(answer))
    return warn(warnings_of(answer))


def _is_no(operation: Operation, answer: Any) -> bool:
    """Whether something is not valid, would conflict or break, or was run and has failed. One that still runs, or is only read,
    has not."""
    if isinstance(answer, Run | Executed):
        return operation.writes and answer.status not in ("done", "running")
    if isinstance(answer, Imported):
        return any(part.action == "conflict" for part in answer.parts)
    if isinstance(answer, Breaking):
        return answer.breaking > 0
    return getattr(answer, "valid", True) is False
