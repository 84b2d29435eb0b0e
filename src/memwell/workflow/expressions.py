"""The templates of a document, checked before anything runs: names that there are not, and paths that lead nowhere."""

from __future__ import annotations

from collections.abc import Container

from ..clock import to_datetime
from ..context import template as templates
from ..context.moments import times
from ..context.template import Expression
from ..errors import Invalid
from ..model.yaml import Path
from .problems import Problems

MAX_EXPRESSIONS = 20_000
"""In all templates of a document."""
_NAMES = {"agent": ("input", "name", "id"), "organization": ("name",), "step": ("input", "output")}
"""What is known under each name: texts, inside of which there is nothing. Metadata may hold anything."""
_KNOWN = "`input`, `agent.…`, `organization.…`, `metadata.…`, `memory.…`, `step.…`, and times such as `1 week ago`"
_TIMES = times(to_datetime(0))


class Expressions:
    """The templates of one document. Which steps there are is known when all of it was read."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._left = MAX_EXPRESSIONS
        self._answers: dict[str, str | None] = {}
        self._steps: dict[str, tuple[Path, str]] = {}

    def check(self, text: str, path: Path) -> None:
        """Note what is wrong with a template."""
        self._left -= text.count("{{")
        if self._left < 0:
            self._problems.add(path, f"there are more than {MAX_EXPRESSIONS} substitutions in the document.")
            return
        try:
            found = templates.names(templates.parse(text))
        except Invalid as error:
            self._problems.add(path, error.message)
            return
        for one in {expression.source: expression for expression in found}.values():
            if one.source not in self._answers:
                self._answers[one.source] = _wrong(one)
            reason = self._answers[one.source]
            if reason is not None:
                self._problems.add(path, f"`{{{{{one.source}}}}}` {reason}")
            elif one.namespace == "step":
                self._steps.setdefault(str(one.path[0]), (path, one.source))

    def check_steps(self, known: Container[str]) -> None:
        """Note the steps that are named and that there are not."""
        for name, (path, source) in self._steps.items():
            if name not in known:
                self._problems.add(path, f"`{{{{{source}}}}}`: there is no step `{name}`.")


def _wrong(one: Expression) -> str | None:
    """Why an expression can never be anything, if so."""
    if one.namespace == "" and one.path == ("input",):
        return None
    try:
        if _TIMES(one.source) is not None:
            return None
    except Invalid as error:
        return f"is no time: {error.message}"
    if not one.path:
        return f"is neither a name nor a time. Known are {_KNOWN}."
    if one.namespace == "input" or (one.namespace == "" and one.path[0] == "input"):
        return "leads nowhere: the input is a text, and nothing is inside of it."
    if not one.namespace:
        return f"is not known. Known are {_KNOWN}."
    return _wrong_path(one)


def _wrong_path(one: Expression) -> str | None:
    if one.namespace in ("metadata", "memory"):
        return None
    if one.namespace not in _NAMES:
        return f"is not known: there is no `{one.namespace}`. Known are {_KNOWN}."
    names, path = _NAMES[one.namespace], one.path[1:] if one.namespace == "step" else one.path
    if not path or path[0] not in names:
        owner = "a step" if one.namespace == "step" else f"`{one.namespace}`"
        return f"is not known: {owner} has {', '.join(f'`{name}`' for name in names)}."
    return None if len(path) == 1 else f"leads nowhere: `{path[0]}` is a text, and nothing is inside of it."
