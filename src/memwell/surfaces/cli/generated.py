"""A command for every operation of the registry. Path fields and content are arguments, the other fields are options. If only one
other field is required, it is both."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer
from msgspec import NODEFAULT, UNSET
from typer.core import TyperGroup

from ... import typed
from ...core.operation import Operation, field_advice
from ...errors import Ambiguous, Invalid, NotFound
from ...model.field_readers import is_lifetime
from ...registry import OPERATIONS
from .inputs import (
    Parser,
    check_standard_input,
    file_name,
    option_name,
    parse_bytes,
    parse_content,
    parse_document,
    parse_json,
    parse_list,
    parse_metadata,
    parse_projections,
    parse_text,
    parse_time,
    parse_values,
)
from .output import (
    Json,
    Yes,
    confirm,
    report_errors,
    shorten,
)
from .printers import print_response

if TYPE_CHECKING:
    from msgspec.structs import FieldInfo

    from ...sdk._sync import Memory
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
ASKING = ("flows.end",)
"""Operations that ask for confirmation, beside those that erase."""
MAX_QUESTION_PART = 200
MAX_NAME = 255
NAMED = {
    "bank": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "workflow": re.compile(r"[0-9a-z]{26}"),
}
"""Fields that may also be a name, with the pattern of their ids."""
NEGATIVE = 1
"""The exit code if a check finds a problem or a run fails."""
CLEARING = "`''` clears it."
_CHOICE = re.compile(r"[\w./-]*\w")
_SENTENCE_END = re.compile(r"(?<=\.)\s+")
PLAIN = (str, int, float, bool)
REQUIRED_HERE = "Required, here"
ARGUMENT_SUFFIX = "_argument"
"""Suffix of the parameter for the argument, if a field is an argument and an option."""

PARSERS: Mapping[str, Parser] = {
    "metadata": parse_metadata,
    "projections": parse_projections,
    "template": parse_text,
    "markdown_template": parse_text,
    "matching_rules_yaml": parse_text,
    "compaction_prompt": parse_text,
    "content": parse_content,
    "message": parse_content,
    "input": parse_content,
}
"""Parsers of fields whose type does not determine one: paths or pairs instead of an object, texts that people keep in files, and
texts that other programs write. A message may begin with `@`, and may be the name of a file."""
HELP: Mapping[Parser | None, str] = {
    parse_json: "JSON, FILE, or `-` for standard input.",
    parse_metadata: "`name=text`, JSON (for numbers), FILE, or `-` for standard input. May be repeated.",
    parse_list: "`one,two`, JSON, `@FILE`, or `-` for standard input. May be repeated.",
    parse_projections: "`one,two.three`, JSON, `@FILE`, or `-` for standard input. May be repeated.",
    parse_document: "FILE, `-` for standard input, or the document itself.",
    parse_text: "FILE, `-` for standard input, or the text itself; `@@…`: a text that begins with `@`.",
    parse_content: "The text itself, even after `@`; `-`: standard input.",
    parse_bytes: "FILE, at most 25 MiB; `-` for standard input, with --filename; or its bytes as Base64.",
}
REPEATABLE = (parse_list, parse_metadata, parse_projections)
METAVARS: Mapping[Parser | None, str] = {
    parse_json: "JSON",
    parse_metadata: "JSON",
    parse_list: "LIST",
    parse_projections: "FIELDS",
    parse_document: "FILE",
    parse_time: "TIME",
}
SHORT_NAMES = {"metadata": "-m"}


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
        self.commands = _Commands({**operations, **self.commands})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. A group with a single command needs not name it: `memwell status`."""
        (name, *others) = self.commands
        is_help = any(one in ctx.help_option_names for one in args)
        return super().parse_args(ctx, args if others or name in args or is_help else [name, *args])


class _Commands(UserDict[str, Any]):
    """Commands by name. Those of operations are built on access, because building all of them takes longer than most commands."""

    def __getitem__(self, name: str) -> Any:
        command = self.data[name]
        if isinstance(command, Operation):
            single = typer.Typer(add_completion=False)
            single.command(command.command, help=command.summary)(_build_command(command))
            command = self.data[name] = typer.main.get_command(single)
        return command


def _build_command(operation: Operation) -> Callable[..., None]:
    fields = list_fields(operation)
    parameters = [_keyword("invocation", typer.Context), *(one for field in fields for one in field.parameters)]
    if operation.effect == "erase" or operation.name in ASKING:
        parameters.append(_keyword("yes", Yes, False))
    parameters.append(_keyword("as_json", Json, False))

    def command(invocation: typer.Context, as_json: bool, yes: bool = True, **options: Any) -> None:
        target: Target = invocation.obj
        given, arguments = _resolve_main_field(operation, options, invocation)
        values = {one.name: value for one in fields if (value := given[one.name]) not in (None, [], one.default)}
        labels: dict[str, str] = {}
        with report_errors(labels):
            confirm(_build_question(operation, values), yes or options.get("dry_run") is True)
            data = _build_request(operation, fields, values, arguments)
            # An error message may quote a choice or a value that is spelled like the name of a field.
            words = {*_list_words(data.values()), *(choice for field in fields for choice in field.choices)}
            labels |= {one.name: _label(one.name, arguments) for one in fields if one.name not in words}
            with target.memory() as memory:
                data |= {name: find_id(memory, name, data[name]) for name in NAMED if name in operation.path_fields}
                answer = memory.call(operation.name, data)
                print_response(answer, as_json)
            if _is_negative(operation, answer):
                raise typer.Exit(NEGATIVE)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def find_id(memory: Memory, noun: str, value: str) -> str:
    """Return the id of a bank or a workflow that is given by its id or its name."""
    if NAMED[noun].fullmatch(value) or not 0 < len(value) <= MAX_NAME:
        return value
    if noun == "bank":
        found = [one.id for one in memory.banks.list(name=value, limit=2)]
    else:
        found = [one.id for one in memory.workflows.list() if one.name == value]
    if not found:
        raise NotFound(f"There is no {noun} {shorten(value, MAX_QUESTION_PART)!r}: `memwell {noun} list` lists them.")
    if len(found) > 1:
        raise Ambiguous(f"Several {noun}s are called {value!r}: give an id, such as {found[0]}.")
    return found[0]


# -- fields as arguments and options


class CommandField(NamedTuple):
    """A field of a request on the command line. One that is both an argument and an option has two parameters."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    parse: Parser | None
    """None if the value needs no parsing."""
    default: Any
    choices: tuple[str, ...]


def list_positional(operation: Operation) -> list[str]:
    """The fields that are arguments: those of the path, and the content."""
    content = [name for name in operation.request.__struct_fields__ if name == "content" and operation.writes]
    return [*operation.path_fields, *content]


def _find_main_field(operation: Operation) -> str | None:
    """Return the field that is both an argument and an option: the only required one beside the path, or else the query, unless
    the content is an argument."""
    if len(list_positional(operation)) > len(operation.path_fields):
        return None
    fields = [one for one in msgspec.structs.fields(operation.request) if one.name not in operation.path_fields]
    required = [one.name for one in fields if one.required]
    optional = [one.name for one in fields if one.name == "query"]
    return required[0] if len(required) == 1 else next(iter(optional if not required else ()), None)


def list_fields(operation: Operation) -> list[CommandField]:
    """The fields of a request, arguments first."""
    hints = typing.get_type_hints(operation.request, include_extras=True)
    order = [*list_positional(operation), _find_main_field(operation)]
    fields = sorted(
        msgspec.structs.fields(operation.request),
        key=lambda one: order.index(one.name) if one.name in order else len(order),
    )
    shown: set[str] = set()
    return [_to_command_field(operation, field, hints[field.name], shown) for field in fields]


def _to_command_field(operation: Operation, field: FieldInfo, hint: Any, shown: set[str]) -> CommandField:
    lasts = is_lifetime(hint)
    plain = str if lasts else _plain_type(hint)
    parse = _choose_parser(field, plain, hint)
    # Choices are texts here: the check of the request explains them better than Typer does.
    kind: Any = plain if parse is None and plain in PLAIN else str
    choices = typing.get_args(plain)
    name = option_name(field.name)
    names = f"{name}/--no-{name[2:]}" if kind is bool else name
    metavar = f"[{'|'.join(choices)}]" if choices else "LIFETIME" if lasts else METAVARS.get(parse)
    advice = _describe(operation, field.name)
    clearing = CLEARING if field.default is UNSET and not lasts and field.name != operation.carries else ""
    text = _drop_repeated(" ".join(filter(None, (advice, HELP.get(parse), clearing))), choices, shown)
    is_argument, is_main = field.name in list_positional(operation), field.name == _find_main_field(operation)
    # Neither parameter of the main field is required by itself: `_resolve_main_field` checks that one of them is given.
    required = field.required and not is_main and not (operation.carries and field.name == "filename")
    is_plain = parse is None and field.default not in (NODEFAULT, UNSET, "")
    default = field.default if is_plain and not is_argument else None
    default = str(default) if lasts and default is not None else default
    parameters = []
    if is_argument or is_main:
        about = f"{text} {REQUIRED_HERE if field.required else 'Here'} or as {name}.".strip() if is_main else text
        argument = typer.Argument(help=about, metavar=field.name.upper(), show_default=False)
        suffix = ARGUMENT_SUFFIX if is_main else ""
        parameters.append(_build_parameter(field.name + suffix, kind, argument, required, None))
    if not is_argument:
        kind = list[kind] if parse in REPEATABLE and not is_main else kind
        short = [SHORT_NAMES[field.name]] if field.name in SHORT_NAMES else []
        option = typer.Option(
            names, *short, help=text, metavar=metavar, show_default=default is not None, hidden=is_main
        )
        parameters.append(_build_parameter(field.name, kind, option, required, default))
    return CommandField(field.name, tuple(parameters), parse, default, choices)


def _describe(operation: Operation, field: str) -> str:
    if field in NAMED and field in operation.path_fields:
        return f"The {field}'s id or name."
    return "" if field == operation.carries else field_advice(operation.request, field)


def _drop_repeated(text: str, choices: tuple[str, ...], shown: set[str]) -> str:
    """Drop what the help of the command shows already: sentences, and what follows a colon. Something always stays."""
    sentences = _SENTENCE_END.split(text)
    kept = [_drop_explanation(one, choices, shown) for one in sentences if one not in shown]
    shown |= set(sentences)
    return " ".join(filter(None, kept)) or sentences[0]


def _drop_explanation(sentence: str, choices: tuple[str, ...], shown: set[str]) -> str:
    """Drop what follows the last colon if it only lists the choices, or was shown already."""
    head, colon, tail = sentence.rpartition(": ")
    words = set(_CHOICE.findall(tail)) - {"or", "and"}
    if (choices and words == set(choices)) or (colon and tail in shown):
        return head + "." * bool(head)
    if colon:
        shown.add(tail)
    return sentence


def _build_parameter(name: str, kind: Any, declared: Any, required: bool, default: Any) -> inspect.Parameter:
    if required:
        return _keyword(name, Annotated[kind, declared])
    return _keyword(name, Annotated[kind | None, declared], default)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _plain_type(hint: Any) -> Any:
    """Return the type of a field that is a text, number, flag, time or bytes; None for a field that is JSON."""
    options = [one for one in _union_members(hint) if one is not type(None)]
    if len(options) != 1:
        return None
    is_plain = typing.get_origin(options[0]) is typing.Literal or options[0] in (*PLAIN, datetime, bytes)
    return options[0] if is_plain else None


def _choose_parser(field: FieldInfo, kind: Any, hint: Any) -> Parser | None:
    if field.name in PARSERS and kind in (str, None):
        return PARSERS[field.name]
    if kind is datetime:
        return parse_time
    if kind is bytes:
        return parse_bytes
    if kind is not None:
        return _build_clearing_parser(kind) if field.default is UNSET else None
    members = _union_members(hint)
    items = [typing.get_args(one)[0] for one in members if typing.get_origin(one) is list]
    if any(_plain_type(item) not in (None, datetime, bytes) for item in items):
        return parse_list
    is_document = str in members and any(typing.get_origin(one) is dict for one in members)
    return parse_document if is_document else parse_json


def _build_clearing_parser(kind: type) -> Parser:
    """Build the parser of a field that an empty text clears. Over HTTP, null clears it."""

    def parse(name: str, value: str) -> Any:
        if not value:
            return None
        try:
            return typed.convert(value, kind, strict=False)
        except msgspec.ValidationError:
            raise Invalid(f"{name} must be a number, not {value[:100]!r}. {CLEARING}") from None

    return parse


def _union_members(hint: Any) -> list[Any]:
    """The types of a union, without annotations."""
    if typing.get_origin(hint) is Annotated:
        return _union_members(typing.get_args(hint)[0])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return [member for one in typing.get_args(hint) for member in _union_members(one)]
    return [hint]


# -- the request and its answer


class FieldError(typer.BadParameter):
    """A usage error that names both the argument and the option. Typer's own message names only one."""

    def format_message(self) -> str:
        return self.message


def _resolve_main_field(
    operation: Operation, values: Mapping[str, Any], invocation: typer.Context
) -> tuple[Mapping[str, Any], Collection[str]]:
    """Return the values by field, and the fields that were given as arguments."""
    arguments, name = list_positional(operation), _find_main_field(operation)
    if name is None:
        return values, arguments
    argument, option = values[name + ARGUMENT_SUFFIX], option_name(name)
    is_required = any(one.name == name and one.required for one in msgspec.structs.fields(operation.request))
    if is_required and argument is None and values[name] is None:
        raise FieldError(f"Missing argument '{name.upper()}' (or {option}).", invocation)
    if argument is not None and values[name] is not None:
        raise FieldError(f"{name.upper()} and {option} are the same: give one of them.", invocation)
    return (values, arguments) if argument is None else ({**values, name: argument}, [*arguments, name])


def _label(field: str, arguments: Collection[str]) -> str:
    """A field as it was given: as an argument or as an option."""
    return field.upper() if field in arguments else option_name(field)


def _list_words(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from map(str, value)
            yield from _list_words(value.values())
        elif isinstance(value, list):
            yield from _list_words(value)


def _build_question(operation: Operation, values: Mapping[str, Any]) -> str:
    """The question before an erasure: "Delete a memory store with all its content: shop, cart. Continue?"."""
    first, _, further = operation.summary.rstrip(".").partition(". ")
    parts = [str(values[name]) for name in operation.path_fields]
    parts += [
        f"{option_name(name)} {each}"
        for name, value in values.items()
        if name not in operation.path_fields
        for each in (value if isinstance(value, list) else [value])
    ]
    details = ", ".join(shorten(part, MAX_QUESTION_PART) for part in parts)
    return ". ".join(filter(None, (f"{first}: {details}" if details else first, further, "Continue?")))


def _build_request(
    operation: Operation, fields: list[CommandField], values: Mapping[str, Any], arguments: Collection[str]
) -> dict[str, Any]:
    parsers = {field.name: field.parse for field in fields if field.parse is not None}
    check_standard_input(values[name] for name in parsers if name in values)
    data = dict(values)
    content = data.get(operation.carries or "")
    if isinstance(content, str) and "filename" not in data and (name := file_name(content)):
        data["filename"] = name
    return {
        name: parse_values(parsers[name], _label(name, arguments), value) if name in parsers else value
        for name, value in data.items()
    }


def _is_negative(operation: Operation, answer: Any) -> bool:
    """Return True if the answer reports a problem or a conflict, or if a run that this command started has failed."""
    match type(answer).__name__:
        case "Run" | "Executed" if operation.name != "runs.cancel":
            return operation.writes and answer.status not in ("done", "running")
        case "ImportedApp":
            return any(part.action == "conflict" for part in answer.parts)
        case "Breaking":
            return bool(answer.breaking > 0)
    return getattr(answer, "valid", True) is False
