"""What the templates of a step are filled with (S1.16, S1.17, C17, C18)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ..banks.banks import check_key
from ..context import template as templates
from ..context.template import BARE, NAMESPACE
from ..errors import Invalid
from ..text.moments import moment, times

KEYS = ("key",)
PROMPTS = ("prompt_template", "system_template")
"""What a model reads: stored values stand there on one line (C20)."""


class Values(NamedTuple):
    """What is known while a step runs."""

    input: str
    agent: Mapping[str, str]
    metadata: Mapping[str, Any]
    steps: Mapping[str, Mapping[str, str]]
    organization: Mapping[str, str]
    now: datetime
    memory: Mapping[str, Any] = {}

    def lookup(self) -> dict[str, Mapping[str, Any]]:
        return {
            BARE: {"input": self.input},
            "agent": self.agent,
            "metadata": self.metadata,
            "step": self.steps,
            "organization": self.organization,
            NAMESPACE: self.memory,
        }


def filled(fields: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The fields of a step with their templates rendered. A key must not lose any part of itself."""
    found = {name: _filled(value, values, name in PROMPTS) for name, value in fields.items()}
    for name in KEYS:
        if isinstance(fields.get(name), str):
            _check_key(fields[name], found[name], values)
    return found


def rendered(text: str, values: Values, *, prompt: bool = False) -> str:
    if "{{" not in text:
        return text
    on_one_line = (NAMESPACE,) if prompt else ()
    parsed, lookup = templates.parse(text), values.lookup()
    return templates.render(parsed, lookup, missing="empty", times=times(values.now), on_one_line=on_one_line).text


def instant(text: str | None, field: str, now: datetime) -> datetime | None:
    """A time field: an ISO 8601 time, or an expression such as `1 week ago`; a blank one is none."""
    if text is None or not text.strip():
        return None
    found = moment(text, now)
    if found is None:
        raise Invalid(
            f"`{field}` is not a time: {text[:50]!r}. Give an ISO 8601 time, or `{{{{1 week ago}}}}`.", field=field
        )
    return found


def _filled(value: Any, values: Values, prompt: bool = False) -> Any:
    match value:
        case str():
            return rendered(value, values, prompt=prompt)
        case dict():
            return {name: _filled(one, values) for name, one in value.items()}
        case list():
            return [_filled(one, values) for one in value]
    return value


def _check_key(template: str, key: str, values: Values) -> None:
    """Nobody's memory may end up under a key that everybody shares (C17)."""
    empty = [
        one.source
        for one in templates.list_expressions(templates.parse(template))
        if not _value(one.source, values).strip()
    ]
    if empty:
        raise Invalid(f"The key {template!r} is incomplete: `{{{{{empty[0]}}}}}` is empty.", field="key")
    check_key(key)


def _value(source: str, values: Values) -> str:
    return rendered("{{" + source + "}}", values)
