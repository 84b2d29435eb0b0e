"""What is wrong with the syntax of an expression, in words and signs instead of the names that a parser has for them."""

from __future__ import annotations

import re
from typing import NamedTuple

_SIGNS = {
    "Ampersand": "&",
    "At": "@",
    "Caret": "^",
    "Colon": ":",
    "ColonEqual": ":=",
    "Comma": ",",
    "Dot": ".",
    "DotDot": "..",
    "Equal": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "Hash": "#",
    "LeftBrace": "{",
    "LeftBracket": "[",
    "LeftParen": "(",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "NotEqual": "!=",
    "Null": "null",
    "Percent": "%",
    "Pipe": "|",
    "Plus": "+",
    "Question": "?",
    "QuestionColon": "?:",
    "QuestionQuestion": "??",
    "RightBrace": "}",
    "RightBracket": "]",
    "RightParen": ")",
    "Semicolon": ";",
    "Slash": "/",
    "Star": "*",
    "StarStar": "**",
    "TildeArrow": "~>",
}
_SIGN = re.compile(
    r"\b(?P<kind>Identifier|Variable|Function|String|Number)\((?:\"(?P<text>[^\"]*)\"|(?P<bare>[^)]*))\)"
    rf"|\b(?P<sign>{'|'.join(_SIGNS)})\b"
)
_PARSER = "Parse error: "
_WRAPPERS = (_PARSER, "Invalid syntax: ", "Invalid number: ", "Argument error: ", "Syntax error: ")
_CODE = re.compile(r"^[A-Z]\d{4}: ")
_AT_THE_END = ("S0101", "S0105", "S0106", "S0203", "S0207")


class Problem(NamedTuple):
    """What is wrong, and at which character if that is known; the `=` is character 0."""

    message: str
    column: int | None = None


def told(reason: str, source: str) -> Problem:
    """The problem that a parser gave this reason for."""
    signs: list[str] = []

    def written(found: re.Match[str]) -> str:
        signs.append(_written(found))
        return f"`{signs[-1]}`"

    words = _SIGN.sub(written, _unwrapped(reason))
    return Problem(_sentence(words), _column(reason, source, signs))


def reason_of(failure: str, source: str) -> str:
    """Why an expression failed, in words, without the code that they begin with."""
    return told(failure, source).message if failure.startswith(_PARSER) else _sentence(_unwrapped(failure))


def _unwrapped(reason: str) -> str:
    for wrapper in _WRAPPERS:
        reason = _CODE.sub("", reason.removeprefix(wrapper))
    return _CODE.sub("", reason).removeprefix("Syntax error: ")


def _written(found: re.Match[str]) -> str:
    """A sign or a name as it stands in the expression."""
    if found["sign"]:
        return _SIGNS[found["sign"]]
    text = found["text"] or found["bare"] or ""
    match found["kind"]:
        case "Number":
            return text.removesuffix(".0")
        case "Variable":
            return f"${text}"
    return text


def _sentence(words: str) -> str:
    words = " ".join(words.split())
    if not words:
        return "It cannot be read."
    if words.startswith("`") and words.endswith("`"):
        words = f"{words} is not expected there"
    return words if words[-1] in ".!?" else f"{words}."


def _column(reason: str, source: str, signs: list[str]) -> int | None:
    """Where it is, if it can be nowhere else: at the end, or where the sign that is complained of stands, if it stands once."""
    if any(code in reason for code in _AT_THE_END):
        return len(source)
    if "S0204" in reason:
        signs = [reason.rstrip()[-1:]]
    if signs and signs[-1] and source.count(signs[-1], 1) == 1:
        return source.index(signs[-1], 1)
    return None
