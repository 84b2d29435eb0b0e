"""Secrets in values: which fields look like passwords, keys or card numbers. What they say is never repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..text.hidden import visible
from .schema_tree import Problem
from .values import At, mask_name, render_path

MAX_LOOKED_AT = 64 * 1024
"""Characters in which secrets are looked for, where there may be many values."""
MAX_TEXTS = 10_000
"""Different texts that are looked at: each takes some fifty microseconds, and who writes waits for it."""
MAX_FOUND = 20
MAX_NAME = 64
"""Characters of a name that are looked at with each of the values under it."""
_FEW_DIGITS = 1000
"""A number below it is no code, whatever it is called."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PASSWORD = re.compile(r"\b(?:password|passwd|passphrase|passcode)s?\d*$|^pwd$")
_CODE = re.compile(r"\b(?:(?:auth(?:entication)?|access|2fa|mfa|two factor) codes?|2fa|mfa|totp)$")
_PHRASE = re.compile(r"\b(?:passphrase|pass phrase)s?\d*$")
PHRASE = "passphrase"
MAX_PHRASE = 6
"""Words; more of them are a sentence about one."""
PIN = 4
_PERHAPS = frozenset({"pass", "secret"})
"""A plain word under such a name is a ticket or a surprise."""
_ONLY = frozenset({"value", "text", "plain", "raw", "current", "old", "new"})
"""Names that say no more than the one above them."""


def secrets_in(data: Any, most: int = MAX_LOOKED_AT) -> list[Problem]:
    """What looks like a secret in a value, and where."""
    return find_secrets(data, most)[0]


def find_secrets(data: Any, most: int) -> tuple[list[Problem], int]:
    """What looks like a secret in a value, and where; some of it, if it is much. What is longer than can be looked at may hold
    one. And how many characters were looked at."""
    from ..screening.screen import find_secret  # here, since what it knows takes a while to load

    found: list[Problem] = []
    left = most
    kinds: dict[str, str | None] = {}
    for at, name, said in _texts(data):
        left -= len(said)
        told = visible(_to_sentence(name, said))
        if left < 0 or len(kinds) > MAX_TEXTS:
            return [*found, Problem("", "it is too large to be looked through for secrets")], most - max(left, 0)
        if told not in kinds:
            kinds[told] = find_secret(told)
        if (kind := kinds[told]) is not None:
            found.append(Problem(render_path(at), f"it looks like a secret ({kind})"))
            if len(found) == MAX_FOUND:
                break
    return found, most - left


def _to_sentence(name: str, said: str) -> str:
    """What a value says, in a sentence."""
    words = said.split()
    if name == PHRASE and len(words) <= MAX_PHRASE:  # several words are one secret
        return f"password: {'_'.join(words)}"
    if name in _PERHAPS and len(words) == 1 and any(map(str.isdigit, said)):
        return f"password: {said}"
    if name.endswith("pin code") and len(said) == PIN:  # a longer one is that of a place
        return f"pin: {said}"
    return f"{name}: {said}" if name else said


def _texts(value: Any, at: At | None = None, name: str = "") -> Iterator[tuple[At | None, str, str]]:
    """What a value says, field by field: where, under which name, as somebody would say it, and what."""
    match value:
        case dict():
            for key, item in value.items():
                inside = At(at, str(key))
                if mask_name(str(key)) != key:
                    yield inside, "", str(key)
                yield from _texts(item, inside, _to_spoken_name(str(key), name))
        case list():
            for number, item in enumerate(value):
                yield from _texts(item, At(at, number), name)
        case bool():
            return
        case int() | float() if abs(value) < _FEW_DIGITS:
            return
        case float() if value.is_integer():
            yield at, name, str(int(value))
        case str() | int() | float():
            yield at, name, str(value)


def _to_spoken_name(key: str, above: str) -> str:
    """A name as somebody would say it; where it says nothing, the one above it. What it ends with says most of it."""
    name = _HUMP.sub(" ", visible(key)[-MAX_NAME:]).replace("_", " ").replace("-", " ").lower()
    if name in _ONLY and above:
        return above
    if _CODE.search(name):
        return "verification code"
    if _PHRASE.search(name):
        return PHRASE
    return "password" if _PASSWORD.search(name) else name
