"""Secrets in values: which fields look like passwords, keys or card numbers. What they say is never repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..model.schema import Problem
from ..model.value import masked

MAX_LOOKED_AT = 64 * 1024
"""Characters in which secrets are looked for, where there may be many values."""
_FEW_DIGITS = 1000
"""A number below it is no code, whatever it is called."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PASSWORD = re.compile(r"\b(?:password|passwd|passphrase|passcode)s?\d*$")
_ONLY = frozenset({"value", "text", "plain", "raw", "current", "old", "new"})
"""Names that say no more than the one above them."""


def secrets_in(data: Any, most: int = MAX_LOOKED_AT) -> list[Problem]:
    """What looks like a secret in a value, and where. What is longer than can be looked at may hold one."""
    from ..distill.suspicion.suspect import secret_in  # here, since what it knows takes a while to load

    found: list[Problem] = []
    left = most
    for path, name, said in _texts(data, "", ""):
        left -= len(said)
        if left < 0:
            return [*found, Problem("", "it is too large to be looked through for secrets")]
        kind = secret_in(f"{name}: {said}" if name else said)
        if kind is not None:
            found.append(Problem(path, f"it looks like a secret ({kind})"))
    return found


def _texts(value: Any, path: str, name: str) -> Iterator[tuple[str, str, str]]:
    """What a value says, field by field: where, under which name, as somebody would say it, and what."""
    match value:
        case dict():
            for key, item in value.items():
                yield from _texts_of(str(key), item, path, name)
        case list():
            for number, item in enumerate(value):
                yield from _texts(item, f"{path}[{number}]", name)
        case bool():
            return
        case int() if abs(value) < _FEW_DIGITS:
            return
        case str() | int():
            yield path, name, str(value)


def _texts_of(key: str, item: Any, path: str, above: str) -> Iterator[tuple[str, str, str]]:
    shown = masked(key)
    if shown != key:
        yield f"{path}.{shown}" if path else shown, "", key
    yield from _texts(item, f"{path}.{shown}" if path else shown, _spoken(key, above))


def _spoken(key: str, above: str) -> str:
    """A name as somebody would say it; where it says nothing, the one above it."""
    name = _HUMP.sub(" ", key).replace("_", " ").replace("-", " ").lower()
    if name in _ONLY and above:
        return above
    return "password" if _PASSWORD.search(name) else name
