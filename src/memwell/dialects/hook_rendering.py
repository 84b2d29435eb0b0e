"""From a hook's template to a prompt: checked when it is saved, rendered in one pass when it is asked for (C18, B4.7)."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..context import template
from ..context.recalled import NAMESPACE, Recalled
from ..context.template import BARE, Expression, Template
from ..errors import Invalid, TooLarge
from ..model import check
from .hook_context import KNOWN, MEMORY, Asked, known

MAX_TEMPLATE = 256 * 1024


class Prompt(NamedTuple):
    """A rendered template, what its variables stood for, and what is withheld from it (C24)."""

    text: str
    variables: dict[str, str]
    warnings: list[str]


def checked(text: str) -> Template:
    """A template that can be rendered whatever a request brings, or an error that says what to change, and where."""
    if len(text) > MAX_TEMPLATE:
        raise TooLarge(
            f"`markdown_template` has at most {MAX_TEMPLATE // 1024} Ki characters: make it shorter.",
            field="markdown_template",
        )
    parsed = template.parse(check.content(text, field="markdown_template"))
    for expression in template.names(parsed):
        _check_known(expression)
    _rendered(parsed, {}, Recalled(lambda name: (None, None)))
    return parsed


def prompt(parsed: Template, asked: Asked, memory: Callable[[], str], recalled: Recalled) -> Prompt:
    """The prompt for a request. The log of a session, and what is recalled, are read only if the template shows them."""
    variables = asked.variables()
    if MEMORY in _used(parsed):
        variables[MEMORY] = memory()
    return Prompt(_rendered(parsed, variables, recalled), variables, recalled.warnings)


def _rendered(parsed: Template, variables: Mapping[str, str], recalled: Recalled) -> str:
    """What no request has said is empty, and so is what nothing is remembered of."""
    values = {name: variables.get(name, "") for name in _used(parsed)}
    lookup = {BARE: values, NAMESPACE: recalled}
    return template.render(parsed, lookup, missing="empty", on_one_line=(NAMESPACE,)).text


def _used(parsed: Template) -> set[str]:
    return {expression.source for expression in template.names(parsed)}


def _check_known(expression: Expression) -> None:
    if expression.namespace == NAMESPACE:
        return
    if expression.namespace == BARE and expression.path == (expression.source,) and known(expression.source):
        return
    line, column = expression.line, expression.column
    missing = "" if expression.source != NAMESPACE else f" Name what is remembered behind it: `{NAMESPACE}.<name>`."
    raise Invalid(
        f"Template, line {line}, column {column}: there is no variable {reprlib.repr(expression.source)}.{missing} "
        f"Known: {', '.join(f'`{name}`' for name in KNOWN)}.",
        field="markdown_template",
        line=line,
        column=column,
    )
