"""A command for every operation, made from the registry: path fields and content are arguments, the other fields are options. A
single other required field is both."""

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
from ...workflows.app_transfer import Imported
from ...workflows.run_operations import Executed, Run
from .fields import (
    FROM_FILE,
    MISSING_FILENAME,
    STANDARD_INPUT,
    CommandField,
    check_standard_input,
    keyword,
    label,
    list_fields,
    map_labels,
    option_name,
    parse_values,
    resolve_main_field,
)
from .output import (
    Json,
    Yes,
    confirm,
    drop_warnings,
    list_warnings,
    print_json,
    print_value,
    print_warnings,
    report_errors,
    shorten,
)
from .printers import find_printer
from .target import Target

NOUNS = {
    "users": ("user", "Users: conversations, memories and records."),
    "flows": ("flow", "Flows and their sessions: turns, memories, retention."),
    "log": ("log", "Agent logs: the entries of a session in the order of recording."),
    "hooks": ("hook", "Prompts that agents fetch by a rule, filled with memory."),
    "banks": ("bank", "Memory banks: keyed notes, and conversations that are summarised as they grow."),
    "apps": ("app", "Apps, their sessions, files and metadata."),
    "stores": ("store", "Memory stores of an app, and their content."),
    "definitions": ("definition", "Memory definitions: the working memory of a model, with a schema."),
    "workflows": ("workflow", "Workflows in YAML or JSON: validate, store and run them."),
    "runs": ("runs", "Runs of workflows: begin, follow, read and repeat them."),
    "jobs": ("job", "Background jobs: consolidation, erasure, embedding."),
    "tenants": ("tenant", "Tenants: memories that are isolated from each other."),
    "keys": ("key", "API keys: create, list and revoke them."),
    "events": ("event", "The log of writes: what, when and by whom."),
    "status": ("status", "The state of the memory."),
}
"""The name and the help of each group of commands."""
MAX_QUESTION_PART = 200
NEGATIVE = 1
"""The exit code if a check says no, or a run has failed."""


def add_commands(app: typer.Typer, manual: Mapping[str, Callable[..., None]]) -> None:
    """Add a command for every operation, and the manual ones, such as `workflow run`."""
    groups: dict[str, typer.Typer] = {}
    for group in dict.fromkeys(operation.group for operation in OPERATIONS.values()):
        noun, about = NOUNS[group]
        groups[noun] = typer.Typer(cls=_Group, no_args_is_help=True, help=about)
        app.add_typer(groups[noun], name=noun)
    for name, command in manual.items():
        noun, _, verb = name.partition(" ")
        groups[noun].command(verb)(command)


class _Group(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        operations = {one.command: one for one in OPERATIONS.values() if NOUNS[one.group][0] == self.name}
        self.commands = _Commands(operations, self.commands)


class _Commands(MutableMapping[str, Any]):
    """Commands by name. Those of operations are built on access, because building all of them takes longer than most commands."""

    def __init__(self, operations: Mapping[str, Operation], manual: Mapping[str, Any]) -> None:
        self._operations = operations
        self._commands = dict(manual)

    def __getitem__(self, name: str) -> Any:
        if name not in self._commands:
            operation = self._operations[name]
            single = typer.Typer(add_completion=False)
            single.command(operation.command, help=operation.summary)(_build_command(operation))
            self._commands[name] = typer.main.get_command(single)
        return self._commands[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._commands[name] = command

    def __delitem__(self, name: str) -> None:
        del self._commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._operations, **self._commands})

    def __len__(self) -> int:
        return len({**self._operations, **self._commands})


def _build_command(operation: Operation) -> Callable[..., None]:
    fields = list_fields(operation)
    parameters = [keyword("invocation", typer.Context), *(one for field in fields for one in field.parameters)]
    if operation.effect == "erase":
        parameters.append(keyword("yes", Yes, False))
    parameters.append(keyword("as_json", Json, False))

    def command(invocation: typer.Context, as_json: bool, yes: bool = True, **options: Any) -> None:
        target: Target = invocation.obj
        values, arguments = resolve_main_field(operation, options, invocation)
        values = {one.name: value for one in fields if (value := values[one.name]) not in (None, [], one.default)}
        labels: dict[str, str] = {}
        with report_errors(labels):
            confirm(_build_question(operation, values), yes or options.get("dry_run") is True)
            data = _build_request(operation, fields, values, arguments)
            labels |= map_labels(fields, data, arguments)
            with target.memory() as memory:
                answer = memory.call(operation.name, data)
                _print(answer, as_json)
            if _is_negative(operation, answer):
                raise typer.Exit(NEGATIVE)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _build_question(operation: Operation, values: Mapping[str, Any]) -> str:
    """The question before an erasure: "Delete a memory store with all its content: shop, cart. Continue?"."""
    first, _, further = operation.summary.rstrip(".").partition(". ")
    arguments = [str(values[name]) for name in operation.path_fields]
    options = [
        f"{option_name(name)} {each}"
        for name, value in values.items()
        if name not in operation.path_fields
        for each in (value if isinstance(value, list) else [value])
    ]
    what = ", ".join(shorten(one, MAX_QUESTION_PART) for one in (*arguments, *options))
    return ". ".join(filter(None, (f"{first}: {what}" if what else first, further, "Continue?")))


def _build_request(
    operation: Operation, fields: list[CommandField], values: Mapping[str, Any], arguments: Collection[str]
) -> dict[str, Any]:
    parsers = {field.name: field.parse for field in fields if field.parse is not None}
    check_standard_input(values[name] for name in parsers if name in values)
    data = dict(values)
    content = data.get(operation.carries or "")
    if isinstance(content, str) and content.startswith(FROM_FILE) and "filename" not in data:
        path = content[len(FROM_FILE) :]
        if path == STANDARD_INPUT:
            raise Invalid(MISSING_FILENAME)
        data["filename"] = Path(path).name
    return {
        name: parse_values(parsers[name], label(name, arguments), value) if name in parsers else value
        for name, value in data.items()
    }


def _print(answer: Any, as_json: bool) -> None:
    if as_json:
        return print_json(answer)  # with its warnings
    printer = find_printer(answer)
    if printer is not None:
        printer()
    else:
        print_value(drop_warnings(answer))
    return print_warnings(list_warnings(answer))


def _is_negative(operation: Operation, answer: Any) -> bool:
    """True if something is invalid, conflicts or breaks, or if a run that this command started has failed."""
    if isinstance(answer, Run | Executed):
        return operation.writes and answer.status not in ("done", "running")
    if isinstance(answer, Imported):
        return any(part.action == "conflict" for part in answer.parts)
    if isinstance(answer, Breaking):
        return answer.breaking > 0
    return getattr(answer, "valid", True) is False
