"""Substitutions: `{{…}}` in the texts of a document, the names that they may use, and their values in a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, NamedTuple

from ..clock import to_datetime
from ..context import template as templates
from ..context.template import ARTIFACTS, BARE, NAMESPACE, STORED, Expression, Words, build_file_values
from ..errors import Invalid
from ..model.collection import escape_characters
from ..records.apps import ARTIFACT
from ..text.moments import build_time_formatter
from ..text.yaml import Path
from .run_rows import RunInput
from .source import Problems

if TYPE_CHECKING:
    from .run import RunCall

MAX_EXPRESSIONS = 20_000
"""The most expressions in all templates of a document."""
_NAMES: dict[str, tuple[str, ...]] = {
    "agent": ("input", "name", "id"),
    "organization": ("name",),
    "step": ("input", "output"),
}
"""The texts under each namespace. Metadata and memory may contain any name."""
_FILES = (
    f"is not known: the files of the session are `artifacts.text` (the text of the active ones), and `artifacts[0]` with "
    f"{', '.join(f'`{name}`' for name in ARTIFACT)}."
)
_TIME_NAMES = build_time_formatter(to_datetime(0))
_SINGLE = re.compile(r"(?<!\{)\{(input|(?:agent|artifacts|organization|metadata|memory|step)\.[\w.\[\]-]+)\}(?!\})")


class TemplateChecker:
    """Checks the templates of one document, and collects the names of memory that they use."""

    def __init__(self, problems: Problems, *, steps: bool) -> None:
        self.recalled: dict[str, Path] = {}
        self._problems, self._steps = problems, steps
        self._left = MAX_EXPRESSIONS
        self._known: dict[str, str | None] = {}

    def check(self, text: str, path: Path) -> Sequence[Expression]:
        """Add the problems of a text, and return its other expressions, each once."""
        self._left -= text.count("{{")
        if self._left < 0:
            self._problems.add(path, f"there are more than {MAX_EXPRESSIONS} substitutions in the document.")
            return ()
        try:
            found = templates.list_expressions(templates.parse(text))
        except Invalid as error:
            self._problems.add(path, error.message)
            return ()
        good = []
        for one in {expression.source: expression for expression in found}.values():
            if one.source not in self._known:
                self._known[one.source] = self._find_problem(one)
            reason = self._known[one.source]
            if reason is not None:
                self._problems.add(path, f"`{{{{{one.source}}}}}` {reason}")
                continue
            good.append(one)
            if one.namespace == NAMESPACE:
                self.recalled.setdefault(str(one.path[0]), path)
        return good

    def check_braces(self, text: str, path: Path) -> None:
        """Report a name between single braces, which a model would be sent as it is."""
        found = _SINGLE.search(text)
        if found is not None:
            self._problems.add(path, f"`{found[0]}` is sent as it is: write `{{{found[0]}}}`.")

    def _find_problem(self, one: Expression) -> str | None:
        if one.namespace == "" and one.path == ("input",):
            return None
        try:
            if _TIME_NAMES(one.source) is not None:
                return None
        except Invalid as error:
            return f"is not a time: {error.message}"
        if not one.path:
            return f"is neither a name nor a time. Known are {self._list_known()}."
        if one.namespace == "input" or (one.namespace == "" and one.path[0] == "input"):
            return "does not exist: the input is a text without fields."
        if one.namespace in ("metadata", NAMESPACE):
            return None
        if ARTIFACTS in (one.namespace, one.path[0]):
            return _find_file_problem(one)
        if one.namespace == "step" and not self._steps:
            return "is not known: in a workflow of tasks, use an expression such as `=$output.<task>.text`."
        if one.namespace not in _NAMES:
            return f"is not known: there is no `{one.namespace or one.path[0]}`. Known are {self._list_known()}."
        names, path = _NAMES[one.namespace], one.path[1:] if one.namespace == "step" else one.path
        if not path or path[0] not in names:
            owner = "a step" if one.namespace == "step" else f"`{one.namespace}`"
            return f"is not known: {owner} has {', '.join(f'`{name}`' for name in names)}."
        return None if len(path) == 1 else f"does not exist: `{path[0]}` is a text without fields."

    def _list_known(self) -> str:
        step = " `step.…`," if self._steps else ""
        return f"`input`, `agent.…`, `organization.…`, `metadata.…`, `memory.…`,{step} and times such as `1 week ago`"


def _find_file_problem(one: Expression) -> str | None:
    """Return the problem of an expression about the files of the session."""
    if one.namespace == ARTIFACTS:
        return None if one.path == ("text",) else _FILES
    good = len(one.path) == 1 or (
        isinstance(one.path[1], int) and one.path[2:] in ((), *((name,) for name in ARTIFACT))
    )
    return None if one.namespace == BARE and good else _FILES


class Values(NamedTuple):
    """The values that the templates of a step can use."""

    namespaces: Mapping[str, Mapping[str, Any]]
    now: datetime
    zone: tzinfo

    def render(self, text: str, *, prompt: bool = False) -> str:
        """Render a template. In a prompt, stored values are put on one line (C20)."""
        if "{{" not in text:
            return text
        return templates.render(
            templates.parse(text),
            self.namespaces,
            missing="empty",
            times=build_time_formatter(self.now, self.zone),
            on_one_line=STORED if prompt else (),
        ).text

    def render_address(self, text: str, field: str) -> str:
        """Render a template of an address. Different values never make the same address, because it could be shared by several
        users, and their memory with it (C17): none may be empty, and what separates them is escaped in them."""
        if "{{" not in text:
            return text
        separators = find_separators(text, field)
        parts = []
        for piece in templates.parse(text).pieces:
            part = piece.text if isinstance(piece, Words) else self.render("{{" + piece.source + "}}")
            if isinstance(piece, Expression):
                if not part.strip():
                    raise Invalid(
                        f"The {field} {text!r} is incomplete: `{{{{{piece.source}}}}}` is empty.", field=field
                    )
                part = escape_characters(part, f"%{separators}") if separators else part
            parts.append(part)
        return "".join(parts)


def find_separators(text: str, field: str) -> str:
    """Return the characters that separate the substitutions of an address, such as `/`. Raise if there is none between two."""
    separators, between = "", None
    for piece in templates.parse(text).pieces:
        if isinstance(piece, Words):
            between = None if between is None else between + piece.text
            continue
        if between is not None:
            found = next((one for one in between if not one.isalnum() and one != "%"), None)
            if found is None:
                raise Invalid(
                    f"The {field} {text!r} cannot tell its parts apart: write a character such as `/` before "
                    f"`{{{{{piece.source}}}}}`.",
                    field=field,
                )
            separators += found
        between = ""
    return separators


def build_values(
    call: RunCall, given: RunInput, agent: Mapping[str, str], text: str, now: datetime, **namespaces: Mapping[str, Any]
) -> Values:
    """Return the values of a step or task whose input is a text."""
    owner = {"owner": given.owner, "thread": call.scope.thread}  # metadata cannot override these
    return Values(
        {
            **build_file_values(call.fetch_files, {"input": text}),
            "agent": {"input": given.text, **agent},
            "metadata": {**given.metadata, **{name: value for name, value in owner.items() if value is not None}},
            "organization": {"name": call.principal.tenant},
            **namespaces,
        },
        now,
        call.engine.zone,
    )
