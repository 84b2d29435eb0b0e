"""A command for every operation, made from the registry: names and content are arguments, the rest are options."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET

from ...operation import Operation, advice
from ...registry import OPERATIONS
from ...workflow.executing import Executed
from ...workflow.run_operations import Run
from .given import CLEARED, FROM_FILE, JSON_ADVICE, Reader, bytes_given, clearable, document_given, json_given, option
from .known import readable
from .output import Json, Yes, brief, show
from .target import Target
from .telling import confirm, told
from .times import moment

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
_PLAIN = (str, int, float, bool)
FILE_ADVICE = "The file, as @PATH, at most 25 MiB; or its bytes as Base64."
MAX_ASKED = 200
"""How much of each name a question repeats."""
NO = 1
"""The exit code of what was asked whether something is valid, and it is not; and of what was to be run, and failed."""


def add_commands(app: typer.Typer, also: Mapping[str, Callable[..., None]]) -> None:
    """A command for every operation; `also` are commands by hand, such as `workflow run`."""
    groups: dict[str, typer.Typer] = {}
    for operation in OPERATIONS.values():
        noun, about = NOUNS[operation.group]
        if noun not in groups:
            groups[noun] = typer.Typer(no_args_is_help=True, help=about)
            app.add_typer(groups[noun], name=noun)
        groups[noun].command(operation.command, help=operation.summary)(_command(operation))
    for name, command in also.items():
        noun, _, verb = name.partition(" ")
        groups[noun].command(verb)(command)


def _command(operation: Operation) -> Callable[..., None]:
    hints = typing.get_type_hints(operation.request, include_extras=True)
    parameters = [_keyword("invocation", typer.Context, ...)]
    read: dict[str, Reader] = {}
    order = positional(operation)
    fields = msgspec.structs.fields(operation.request)
    for field in sorted(fields, key=lambda field: order.index(field.name) if field.name in order else len(order)):
        kind = _plain(hints[field.name])
        if kind not in _PLAIN or field.default is UNSET:
            read[field.name] = _reader(kind, hints[field.name])
        help_text = _help(operation, field, read.get(field.name))
        parameters.append(_parameter(operation, field, str if field.name in read else kind, help_text))
    if operation.effect == "erase":
        parameters.append(_keyword("yes", Yes, False))
    parameters.append(_keyword("as_json", Json, False))

    def command(invocation: typer.Context, as_json: bool, yes: bool = True, **fields: Any) -> None:
        target: Target = invocation.obj
        with told({"accept_breaking": option("accept_breaking")}):
            given = {name: value for name, value in fields.items() if value is not None}
            confirm(_question(operation, given), yes or given.get("dry_run") is True)
            given = _named(given, operation)
            data = {name: read[name](name, value) if name in read else value for name, value in given.items()}
            with target.memory() as memory:
                answer = memory.call(operation.name, data)
                show(answer, as_json, readable(answer))
            if _is_no(operation, answer):
                raise typer.Exit(NO)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _question(operation: Operation, given: Mapping[str, Any]) -> str:
    """What is to be done, to what, and whether it shall be: "Delete a memory store with all its content: shop, cart. Go on?"."""
    first, _, further = operation.summary.rstrip(".").partition(". ")
    bare = [str(given[name]) for name in operation.path_fields]
    named = [f"{option(name)} {value}" for name, value in given.items() if name not in operation.path_fields]
    what = ", ".join(brief(one, MAX_ASKED) for one in (*bare, *named))
    return ". ".join(filter(None, (f"{first}: {what}" if what else first, further, "Go on?")))


def _named(given: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """What was given; a file that is not called anything else has the name that it has on the disk."""
    content = given.get(operation.carries or "")
    if isinstance(content, str) and content.startswith(FROM_FILE):
        given.setdefault("filename", Path(content[len(FROM_FILE) :]).name)
    return given


def positional(operation: Operation) -> list[str]:
    """The fields that are given without a name: where it is, and what is said."""
    content = [name for name in operation.request.__struct_fields__ if name == "content" and operation.writes]
    return [*operation.path_fields, *content]


def _is_no(operation: Operation, answer: Any) -> bool:
    """Whether something is not valid, or was run and has failed. One that still runs, or is only read, has not."""
    if isinstance(answer, Run | Executed):
        return operation.writes and answer.status not in ("done", "running")
    return getattr(answer, "valid", True) is False


def _help(operation: Operation, field: msgspec.structs.FieldInfo, read: Reader | None) -> str:
    """What a field is for, and how it is given if it is no plain text."""
    if field.name == operation.carries:
        return FILE_ADVICE
    how = JSON_ADVICE if read is json_given else CLEARED if field.default is UNSET else ""
    return f"{advice(operation.request, field.name)} {how}".strip()


def _parameter(operation: Operation, field: msgspec.structs.FieldInfo, kind: Any, text: str) -> inspect.Parameter:
    required = field.required and not (operation.carries and field.name == "filename")
    if field.name in positional(operation):
        argument = typer.Argument(help=text, metavar=field.name.upper(), show_default=False)
        if field.required:
            return _keyword(field.name, Annotated[kind, argument], ...)
        return _keyword(field.name, Annotated[kind | None, argument], None)
    name = field.name.replace("_", "-")
    spelled = f"--{name}/--no-{name}" if kind is bool else f"--{name}"
    option = typer.Option(spelled, help=text, show_default=False)
    if required:
        return _keyword(field.name, Annotated[kind, option], ...)
    return _keyword(field.name, Annotated[kind | None, option], None)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    if default is ...:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _plain(hint: Any) -> Any:
    """The type of a field that is given as it stands, as a time or as bytes; None if it is given as JSON."""
    if typing.get_origin(hint) is Annotated:
        return _plain(typing.get_args(hint)[0])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _plain(options[0]) if len(options) == 1 else None
    if typing.get_origin(hint) is typing.Literal:
        return str
    return hint if hint in (*_PLAIN, datetime, bytes) else None


def _reader(kind: Any, hint: Any) -> Reader:
    """How what is given for a field is read."""
    if kind in _PLAIN:
        return clearable(kind)
    if kind is datetime:
        return moment
    if kind is bytes:
        return bytes_given
    return document_given if _may_be_text(hint) else json_given


def _may_be_text(hint: Any) -> bool:
    """Whether a field is a text or an object, as a workflow is."""
    options = typing.get_args(typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint)
    return str in options and any(typing.get_origin(one) is dict for one in options)
