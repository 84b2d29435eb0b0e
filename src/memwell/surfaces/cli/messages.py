"""What answers warn of, which people are told besides the answer: it is on standard error, and in JSON where it always was."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
import typer

from ...errors import Invalid, MemwellError
from .fields import forget_document
from .output import problem_lines, shown

FIELD = "warnings"
NAMES = ("technical_name", "slug", "name", "id")
"""The fields by which something in a list is told apart, the most telling first."""


def warnings_of(answer: Any, where: str = "") -> Iterator[str]:
    """What an answer warns of, and each of the things in it; never what only looks like it in somebody's values."""
    if isinstance(answer, list):
        for one in answer:
            yield from warnings_of(one, _name(one))
    elif isinstance(answer, dict):
        for name, one in answer.items():
            yield from warnings_of(one, str(name))
    elif isinstance(answer, msgspec.Struct):
        for field in answer.__struct_fields__:
            value = getattr(answer, field)
            yield from _sentences(value, where) if field == FIELD else warnings_of(value)


def without_warnings(answer: Any) -> Any:
    """An answer as plain values, without what it warns of."""
    plain = msgspec.to_builtins(answer, builtin_types=(datetime,))
    _strip(answer, plain)
    return plain


def _sentences(value: Any, where: str) -> Iterator[str]:
    """Texts, what is wrong with places in a value or with what a slug names, or a mapping of slugs to such lists."""
    if isinstance(value, dict):
        for slug, several in value.items():
            yield from _sentences(several, slug)
        return
    for one in value or ():
        if isinstance(one, str):
            yield _said(where, one)
        else:
            at = getattr(one, "path", None) or getattr(one, "slug", "")
            yield _said(".".join(filter(None, (where, at))), one.reason)


def _said(where: str, reason: str) -> str:
    return f"`{where}`: {reason}" if where else reason


def _name(one: Any) -> str:
    return next((str(found) for name in NAMES if (found := getattr(one, name, None))), "")


def _strip(answer: Any, plain: Any) -> None:
    """What is nothing but its default is not among the plain values."""
    if isinstance(answer, list) and isinstance(plain, list):
        for one, same in zip(answer, plain, strict=True):
            _strip(one, same)
    elif isinstance(plain, dict):
        fields = answer.__struct_fields__ if isinstance(answer, msgspec.Struct) else ()
        if FIELD in fields:
            plain.pop(FIELD, None)
        for name in plain:
            _strip(getattr(answer, name) if name in fields else answer[name], plain[name])


# -- What commands say on standard error: what went wrong, what is to be known besides the answer, and what they ask first.


_HEAD = re.compile(r"(?:`[^`]*`: )*.*?(?=: |$)", re.DOTALL)
"""A sentence up to its first colon, but for those after names in front of it."""
_QUOTED = re.compile(r"`(\w+)`")
_NO_FILE = 74
UNREAD = 141
"""The exit code of a command whose reader has gone, as shells tell it of all others: 128 and the number of SIGPIPE."""


@contextmanager
def told(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors as one sentence, or one line per problem, and an exit code. `names` are those that fields have here."""
    forget_document()
    try:
        yield
        typer.echo(nl=False)  # what is still held back would fail when nobody can tell of it any more
    except MemwellError as error:
        _tell(error, names or {})
        raise typer.Exit(error.exit_code) from error
    except UnicodeDecodeError as error:
        typer.echo("Error: What was given is not a text in UTF-8.", err=True)
        raise typer.Exit(Invalid.exit_code) from error
    except BrokenPipeError as error:
        leave_unread()
        raise typer.Exit(UNREAD) from error
    except OSError as error:
        typer.echo(shown(f"Error: {error.filename or 'A file'} cannot be used: {error.strerror}."), err=True)
        raise typer.Exit(_NO_FILE) from error


def leave_unread() -> None:
    """Whoever read the output has enough of it: the rest goes nowhere, without a word, also at the end of the process."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tell(error: MemwellError, names: Mapping[str, str]) -> None:
    message = _renamed(error, names)
    problems = error.details.get("problems")
    typer.echo(f"Error: {shown(_head(message) + '.' if problems else message)}", err=True)
    for line in problem_lines(problems or ()):
        typer.echo(line, err=True)
    if not problems and error.details.get("breaking"):
        _print_breaking(error.details["breaking"], error.details.get("examples", []))
    if trace := error.details.get("trace"):
        typer.echo(f"\n{shown(trace)}", err=True, nl=False)


def _renamed(error: MemwellError, names: Mapping[str, str]) -> str:
    """What went wrong, with the fields of the request as they are called here. A sentence about something else may have the same
    words in it: those of a function, or of a definition that somebody has made."""
    root = re.match(r"\w*", str(error.details.get("field", "")))
    is_about_request = not error.details or "breaking" in error.details or (root is not None and root[0] in names)
    if not is_about_request:
        return error.message
    return _QUOTED.sub(lambda found: names.get(found[1], found[0]), error.message)


def _head(message: str) -> str:
    """A message without the problems that it names, which follow line by line; what it is about stays before it."""
    found = _HEAD.match(message)
    return (found[0] if found else message).rstrip(".")


def _print_breaking(count: int, examples: Sequence[Mapping[str, Any]]) -> None:
    """The records that a schema would break: whose, where, and why."""
    for one in examples:
        first, *others = one["problems"] or [{}]
        scope = "" if one["scope"] == "global" else f" ({one['scope']})"
        more = f" (and {len(others)} more)" if others else ""
        parts = (one["owner"] + scope, first.get("path"), first.get("reason"))
        typer.echo(shown(": ".join(part for part in parts if part) + more), err=True)
    if count > len(examples):
        typer.echo(f"… and {count - len(examples)} more", err=True)


def warn(warnings: Iterable[str]) -> None:
    """What is to be known besides the answer, each once."""
    for one in dict.fromkeys(warnings):
        typer.echo(f"Warning: {shown(one)}", err=True)


def confirm(question: str, yes: bool) -> None:
    """Ask, unless the answer was given beforehand; whatever is no yes is a no.

    It is asked by hand, since `typer.confirm` writes to the standard output even if it is told not to.
    """
    if yes:
        return
    typer.echo(f"{shown(question)} [y/N]: ", nl=False, err=True)
    answer = sys.stdin.readline() if sys.stdin else ""  # a process may be started without any
    if not (sys.stdin and sys.stdin.isatty()):
        typer.echo(err=True)
    if not answer:
        typer.echo("Nobody is here to answer: `--yes` goes on without asking.", err=True)
    if answer.strip().lower() not in ("y", "yes"):
        raise typer.Abort
