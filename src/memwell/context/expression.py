"""What is wrong with the syntax of an expression, in words and signs instead of the names that a parser has for them."""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from ..errors import Invalid, TooLarge, Unavailable
from .expression_child import FAILED, LARGE, NOTHING, SLOW
from .expression_pool import Answer, Pool, Stopped

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


# -- Expressions: strings that begin with `=` are JSONata, evaluated in processes of their own that can be stopped.
#
# Only what an author wrote is evaluated, and once. What an expression gives is data, whatever it looks like. Never call this on
# an event loop: it waits for another process.


TIMEOUT_S = 0.5
"""For all expressions of one call."""
MAX_SOURCE = 16 * 1024
MAX_SOURCES = 2_000
MAX_SCOPE = 4 * 1024 * 1024
MAX_RESULT = 1024 * 1024
"""Bytes of JSON, of all expressions of one call."""
MAX_DEPTH = 64
_MOST_CHECKED = 100
_SHOWN = 100
_WHOLE = 1e21  # below it JSON has whole numbers written as such


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()
"""What an expression gives that gives nothing: JSONata's undefined."""


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")


def problem_in(source: str) -> Problem | None:
    """What is wrong with the syntax of an expression."""
    return problems_in([source])[0]


def problems_in(sources: Sequence[str], *, lane: Hashable = None) -> list[Problem | None]:
    """The same for many at once, which is quicker than one after the other."""
    refusals = [_refused(source) for source in sources]
    found = [None if one is None else Problem(f"It {one.reason}", one.column) for one in refusals]
    good = [number for number, problem in enumerate(found) if problem is None]
    for start in range(0, len(good), _MOST_CHECKED):
        some = good[start : start + _MOST_CHECKED]
        for number, problem in zip(some, _checked([sources[number] for number in some], lane), strict=True):
            found[number] = problem
    return found


def evaluate(
    sources: Sequence[str],
    scope: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    lane: Hashable = None,
    now: int | None = None,
) -> list[Any]:
    """What each expression gives; `MISSING` if that is nothing. All are evaluated in one round trip.

    `scope` holds the variables: `{"input": …}` is `$input`. Callers with the same `lane` wait for each other and not for
    anybody else. `now` is the instant of `$now()` and `$millis()`, as a clock tells it.
    """
    if not sources:
        return []
    _check(sources)
    try:
        answers = _pool.ask(_request(sources, scope, timeout_s, now), timeout_s, lane)
    except Stopped as stopped:
        _fail(sources[min(stopped.answered, len(sources) - 1)], f"{stopped.reason} and was stopped.")
    found = [_result(answer, source, timeout_s) for answer, source in zip(answers, sources, strict=False)]
    if len(found) < len(sources):
        raise Unavailable("The process that evaluates expressions did not answer: try again in a moment.")
    return found


def resolved(
    template: Any,
    scope: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    lane: Hashable = None,
    now: int | None = None,
) -> Any:
    """What an author wrote, with each expression in it replaced by what it gives.

    What gives nothing is left away from an object, is None in a list, and None by itself.
    """
    sources = list(_expressions(template))
    found = iter(evaluate(sources, scope, timeout_s=timeout_s, lane=lane, now=now))
    whole = _filled(template, lambda: next(found))
    return None if whole is MISSING else whole


def close() -> None:
    """End all processes that evaluate. They are started again when they are needed."""
    _pool.close()


# -- what is asked ---------------------------------------------------------------------------------------------------------


class _Refusal(NamedTuple):
    """Why an expression is not even read, in words that follow its name."""

    reason: str
    column: int | None = None
    kind: type[Invalid] = Invalid


def _refused(source: str) -> _Refusal | None:
    if not is_expression(source):
        return _Refusal("does not begin with `=`.", 0)
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        return _Refusal("is not valid Unicode: it holds half of a surrogate pair.", error.start)
    return _Refusal(f"is longer than {MAX_SOURCE >> 10} KiB.", kind=TooLarge) if size > MAX_SOURCE else None


def _check(sources: Sequence[str]) -> None:
    if len(sources) > MAX_SOURCES:
        raise TooLarge(f"There are {len(sources)} expressions to evaluate at once: {MAX_SOURCES} are possible.")
    for source in sources:
        refusal = _refused(source)
        if refusal is not None:
            _fail(source, refusal.reason, refusal.kind)
    if sum(map(len, sources)) > MAX_SCOPE:
        raise TooLarge(f"The expressions to evaluate at once are longer than {MAX_SCOPE >> 20} MiB.")


def _request(sources: Sequence[str], scope: Mapping[str, Any], timeout_s: float, now: int | None) -> bytes:
    """With those variables only that an expression names: the others would be copied for nothing."""
    used = {name: value for name, value in scope.items() if any(f"${name}" in source for source in sources)}
    now_ms = time.time_ns() // 1_000_000 if now is None else now // 1000
    return _asked(sources, _encoded(used), timeout_s, now_ms, check=False)


def _asked(sources: Sequence[str], scope: bytes, timeout_s: float, now_ms: int, *, check: bool) -> bytes:
    return msgspec.json.encode(
        {
            "sources": [source[1:] for source in sources],
            "check": check,
            "time_s": timeout_s,
            "now_ms": now_ms,
            "most": MAX_RESULT,
            "scope": msgspec.Raw(scope),
        }
    )


def _encoded(scope: Mapping[str, Any]) -> bytes:
    try:
        encoded = msgspec.json.encode(scope)
    except RecursionError:
        raise TooLarge("What the expressions are given is nested too deeply.") from None
    except UnicodeEncodeError:
        raise Invalid("What the expressions are given is not valid Unicode.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"What the expressions are given is not JSON: {error}.") from error
    if len(encoded) > MAX_SCOPE:
        raise TooLarge(f"What the expressions are given is larger than {MAX_SCOPE >> 20} MiB as JSON.")
    return encoded


def _checked(sources: Sequence[str], lane: Hashable) -> list[Problem | None]:
    """Those behind one that was stopped are asked again, without it."""
    if not sources:
        return []
    try:
        answers = _pool.ask(_asked(sources, b"{}", TIMEOUT_S, 0, check=True), TIMEOUT_S, lane)
    except Stopped as stopped:
        at = min(stopped.answered, len(sources) - 1)
        return [
            *_checked(sources[:at], lane),
            Problem(f"It {stopped.reason} while it was read."),
            *_checked(sources[at + 1 :], lane),
        ]
    return [
        told(answer.said.decode(), source) if answer.kind == FAILED else None
        for answer, source in zip(answers, sources, strict=True)
    ]


# -- what comes back -------------------------------------------------------------------------------------------------------


def _result(answer: Answer, source: str, timeout_s: float) -> Any:
    if answer.kind == NOTHING:
        return MISSING
    if answer.kind == FAILED:
        _fail(source, f"failed: {reason_of(answer.said.decode(), source)}")
    if answer.kind == SLOW:
        _fail(source, f"took longer than {timeout_s:g} seconds and was stopped.")
    if answer.kind == LARGE:
        _fail(source, f"gave more than {MAX_RESULT >> 20} MiB of JSON.", TooLarge)
    try:
        found = _decode(answer.said)
        _check_depth(found, MAX_DEPTH)
    except RecursionError:
        _fail(source, f"gave something that is nested deeper than {MAX_DEPTH} levels.", TooLarge)
    except msgspec.DecodeError as error:
        _fail(source, f"gave something that is not JSON: {error}.")
    return found


def _number(text: str) -> int | float:
    found = float(text)
    return int(found) if found.is_integer() and abs(found) < _WHOLE else found


_decode = msgspec.json.Decoder(float_hook=_number).decode


def _check_depth(value: Any, left: int) -> None:
    if left < 0:
        raise RecursionError
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_depth(one, left - 1)


def _fail(source: str, reason: str, kind: type[Invalid] = Invalid) -> NoReturn:
    shown = source if len(source) <= _SHOWN else f"{source[:_SHOWN]}…"
    raise kind(f"The expression `{shown}` {reason}", expression=shown)


# -- templates -------------------------------------------------------------------------------------------------------------


def _expressions(template: Any) -> Iterator[str]:
    """In the order in which they are filled in."""
    match template:
        case dict():
            for one in template.values():
                yield from _expressions(one)
        case list() | tuple():
            for one in template:
                yield from _expressions(one)
        case str() if is_expression(template):
            yield template


def _filled(template: Any, following: Callable[[], Any]) -> Any:
    match template:
        case dict():
            pairs = [(name, _filled(one, following)) for name, one in template.items()]
            return {name: one for name, one in pairs if one is not MISSING}
        case list() | tuple():
            found = [_filled(one, following) for one in template]
            return [None if one is MISSING else one for one in found]
        case str() if is_expression(template):
            return following()
    return template


# -- the processes ---------------------------------------------------------------------------------------------------------

_pool = Pool()


def _start_anew() -> None:
    """After a fork: two processes that listen to the same one would get each other's answers."""
    global _pool
    _pool.let_go()
    _pool = Pool()


atexit.register(close)
os.register_at_fork(after_in_child=_start_anew)
