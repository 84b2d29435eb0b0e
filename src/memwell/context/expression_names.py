"""The variables and functions that an expression names, found by its tokens: `$output.reply.text` is a path from `output`.

The parser gives no syntax tree. What these tokens leave in doubt is not listed, so that no valid expression is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FUNCTION = re.compile(
    "abs|append|assert|average|base64decode|base64encode|boolean|ceil|clone|contains|count|decodeUrl|decodeUrlComponent|distinct|"
    "each|encodeUrl|encodeUrlComponent|error|exists|filter|floor|formatBase|formatInteger|formatNumber|fromMillis|join|keys|"
    "length|lookup|lowercase|map|match|max|merge|millis|min|not|now|number|pad|parseInteger|power|random|reduce|replace|reverse|"
    "round|shuffle|sift|single|sort|split|spread|sqrt|string|substring|substringAfter|substringBefore|sum|toMillis|trim|type|"
    "uppercase|zip"
)
"""The functions of JSONata, without `$eval`."""

_TOKEN = re.compile(
    r"""(?P<space>\s+|/\*.*?\*/)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |`(?P<quoted>[^`]*)`
    |\$(?P<variable>[^\W\d]\w*)
    |(?P<name>[^\W\d]\w*|λ)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<mark>:=|\.\.|.)""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\n]|\\.)+/[a-z]*")
_ENDS = frozenset(")]}$*%")
"""Marks after which a slash divides, and does not begin a pattern."""
_WORDS = frozenset(("and", "or", "in"))


class Variable(NamedTuple):
    """A variable that the expression does not bind itself, and the names after it: `context`, `memory`, `profile`. `asked` is
    true if the expression asks by `$exists` whether it has a value."""

    path: tuple[str, ...]
    asked: bool = False
    column: int = 0


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


def list_variables(source: str) -> list[Variable]:
    """List the variables and functions that an expression uses and does not bind. The `=` is column 0."""
    tokens = list(_read_tokens(source))
    bound = set(_list_bound(tokens))
    found = []
    for number, token in enumerate(tokens):
        if token.kind == "variable" and token.text not in bound:
            before = tuple(one.text for one in tokens[max(0, number - 2) : number])
            path = (token.text, *_read_path(tokens, number + 1))
            found.append(Variable(path, before == ("exists", "("), token.column))
    return found


def _read_tokens(source: str) -> Iterator[_Token]:
    at, before = 1, _Token("mark", "(", 0)
    while at < len(source):
        match = _TOKEN.match(source, at)
        if source[at] == "/" and match is not None and match["space"] is None and _begins_value(before):
            match = _REGEX.match(source, at) or match
            if match.re is _REGEX:
                before, at = _Token("text", "", at), match.end()
                continue
        if match is None:
            return
        kind = match.lastgroup or "mark"
        if kind != "space":
            before = _Token(kind, match[kind], at)
            yield before
        at = match.end()


def _begins_value(before: _Token) -> bool:
    """Return True if a value may follow a token, and not an operator."""
    if before.kind == "mark":
        return before.text not in _ENDS
    return before.kind == "name" and before.text in _WORDS


def _list_bound(tokens: Sequence[_Token]) -> Iterator[str]:
    """List the variables that an expression binds: by `:=`, `@` or `#`, and as parameters of its functions."""
    inside = False
    for number, token in enumerate(tokens):
        before = tokens[number - 1].text if number else ""
        after = tokens[number + 1].text if number + 1 < len(tokens) else ""
        if token.kind == "name" and token.text in ("function", "λ") and after == "(":
            inside = True
        elif inside and token.text == ")":
            inside = False
        elif token.kind == "variable" and (inside or after == ":=" or before in ("@", "#")):
            yield token.text


def _read_path(tokens: Sequence[_Token], at: int) -> Iterator[str]:
    while at + 1 < len(tokens) and tokens[at].text == "." and tokens[at + 1].kind in ("name", "quoted", "text"):
        name = tokens[at + 1]
        yield name.text[1:-1] if name.kind == "text" else name.text
        at += 2
