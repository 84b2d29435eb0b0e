"""Expressions: strings that begin with `=` are JSONata, evaluated in child processes that can be killed.

Only text that an author wrote is evaluated, and only once: the result is data, whatever it looks like. Never call this on an
event loop, since it waits for another process.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from ..errors import Invalid, TooLarge, Unavailable
from ..sandbox.process import Frame
from .expression_child import FAILED, LARGE, NOTHING, SLOW
from .expression_pool import Pool, Stopped

TIMEOUT_S = 0.5
"""For all expressions of one call."""
MAX_SOURCE = 16 * 1024
MAX_SOURCES = 2_000
MAX_SCOPE = 4 * 1024 * 1024
MAX_RESULT = 1024 * 1024
"""Bytes of JSON, of all expressions of one call."""
MAX_DEPTH = 64
_CHECK_BATCH = 100
_MAX_QUOTED = 100
_MAX_WHOLE = 1e21  # JSON writes whole numbers below it without an exponent

# The parser's names of tokens, which its errors contain.
_TOKENS = {
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
_TOKEN = re.compile(
    r"\b(?P<kind>Identifier|Variable|Function|String|Number)\((?:\"(?P<text>[^\"]*)\"|(?P<bare>[^)]*))\)"
    rf"|\b(?P<token>{'|'.join(_TOKENS)})\b"
)
_PARSER = "Parse error: "
_PREFIXES = (_PARSER, "Invalid syntax: ", "Invalid number: ", "Argument error: ", "Syntax error: ")
_CODE = re.compile(r"^[A-Z]\d{4}: ")
_AT_THE_END = ("S0101", "S0105", "S0106", "S0203", "S0207")


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()
"""The result of an expression without one: JSONata's undefined."""


class Problem(NamedTuple):
    """A syntax error, with its column if that is known. The `=` is column 0."""

    message: str
    column: int | None = None


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")


def find_problems(sources: Sequence[str]) -> list[Problem | None]:
    """The syntax error of each expression, in few round trips."""
    refusals = [_refuse(source) for source in sources]
    problems = [None if one is None else Problem(f"It {one.reason}", one.column) for one in refusals]
    readable = [number for number, problem in enumerate(problems) if problem is None]
    for start in range(0, len(readable), _CHECK_BATCH):
        batch = readable[start : start + _CHECK_BATCH]
        for number, problem in zip(batch, _check_syntax([sources[number] for number in batch]), strict=True):
            problems[number] = problem
    return problems


def evaluate(
    sources: Sequence[str],
    scope: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    lane: Hashable = None,
    now: int | None = None,
) -> list[Any]:
    """The result of each expression, or `MISSING`. All are evaluated in one round trip.

    `scope` has the variables: `{"input": …}` is `$input`. Callers with the same `lane` wait for each other and for nobody
    else. `now` is the time of `$now()` and `$millis()` in microseconds.
    """
    if not sources:
        return []
    if len(sources) > MAX_SOURCES:
        raise TooLarge(f"There are {len(sources)} expressions to evaluate at once; the limit is {MAX_SOURCES}.")
    for source in sources:
        if (refusal := _refuse(source)) is not None:
            _fail(source, refusal.reason, refusal.kind)
    if sum(map(len, sources)) > MAX_SCOPE:
        raise TooLarge(f"The expressions to evaluate at once are longer than {MAX_SCOPE >> 20} MiB.")
    # Send only the variables that an expression names, because all of them are copied.
    used = {name: value for name, value in scope.items() if any(f"${name}" in source for source in sources)}
    now_ms = time.time_ns() // 1_000_000 if now is None else now // 1000
    request = _encode_request(sources, _encode_scope(used), timeout_s, now_ms, check=False)
    try:
        answers = _pool.ask(request, timeout_s, lane)
    except Stopped as stopped:
        _fail(sources[min(stopped.answered, len(sources) - 1)], f"{stopped.reason} and was stopped.")
    results = [_decode_result(answer, source, timeout_s) for answer, source in zip(answers, sources, strict=False)]
    if len(results) < len(sources):
        raise Unavailable("The process that evaluates expressions did not answer: try again in a moment.")
    return results


def resolve(
    template: Any,
    scope: Mapping[str, Any],
    *,
    timeout_s: float = TIMEOUT_S,
    lane: Hashable = None,
    now: int | None = None,
) -> Any:
    """Replace each expression in a template by its result.

    A missing result is omitted from an object, and is None in a list or by itself.
    """
    sources = list(_list_expressions(template))
    results = iter(evaluate(sources, scope, timeout_s=timeout_s, lane=lane, now=now))
    value = _fill(template, lambda: next(results))
    return None if value is MISSING else value


def close() -> None:
    """End all evaluating processes. They are started again on demand."""
    _pool.close()


class _Refusal(NamedTuple):
    """Why an expression is not evaluated, in words that follow its name."""

    reason: str
    column: int | None = None
    kind: type[Invalid] = Invalid


def _refuse(source: str) -> _Refusal | None:
    if not is_expression(source):
        return _Refusal("does not begin with `=`.", 0)
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        return _Refusal("is not valid Unicode: it contains half of a surrogate pair.", error.start)
    return _Refusal(f"is longer than {MAX_SOURCE >> 10} KiB.", kind=TooLarge) if size > MAX_SOURCE else None


def _check_syntax(sources: Sequence[str]) -> list[Problem | None]:
    if not sources:
        return []
    try:
        answers = _pool.ask(_encode_request(sources, b"{}", TIMEOUT_S, 0, check=True), TIMEOUT_S)
    except Stopped as stopped:  # check those behind it again, without it
        at = min(stopped.answered, len(sources) - 1)
        return [
            *_check_syntax(sources[:at]),
            Problem(f"It {stopped.reason} while it was read."),
            *_check_syntax(sources[at + 1 :]),
        ]
    return [
        _explain_syntax_error(answer.body.decode(), source) if answer.kind == FAILED else None
        for answer, source in zip(answers, sources, strict=True)
    ]


def _encode_request(sources: Sequence[str], scope: bytes, timeout_s: float, now_ms: int, *, check: bool) -> bytes:
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


def _encode_scope(scope: Mapping[str, Any]) -> bytes:
    try:
        encoded = msgspec.json.encode(scope)
    except RecursionError:
        raise TooLarge("The input of the expressions is nested too deeply.") from None
    except UnicodeEncodeError:
        raise Invalid("The input of the expressions is not valid Unicode.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"The input of the expressions is not JSON: {error}.") from error
    if len(encoded) > MAX_SCOPE:
        raise TooLarge(f"The input of the expressions is larger than {MAX_SCOPE >> 20} MiB as JSON.")
    return encoded


def _decode_result(answer: Frame, source: str, timeout_s: float) -> Any:
    if answer.kind == NOTHING:
        return MISSING
    if answer.kind == FAILED:
        reason = answer.body.decode()
        syntax = reason.startswith(_PARSER)
        words = _explain_syntax_error(reason, source).message if syntax else _to_sentence(_strip_prefixes(reason))
        _fail(source, f"failed: {words}")
    if answer.kind == SLOW:
        _fail(source, f"took longer than {timeout_s:g} seconds and was stopped.")
    if answer.kind == LARGE:
        _fail(source, f"gave more than {MAX_RESULT >> 20} MiB of JSON.", TooLarge)
    try:
        result = _decode(answer.body)
        _check_depth(result, MAX_DEPTH)
    except RecursionError:
        _fail(source, f"gave a value that is nested deeper than {MAX_DEPTH} levels.", TooLarge)
    except msgspec.DecodeError as error:
        _fail(source, f"gave a value that is not JSON: {error}.")
    return result


def _to_number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _MAX_WHOLE else number


_decode = msgspec.json.Decoder(float_hook=_to_number).decode


def _check_depth(value: Any, left: int) -> None:
    if left < 0:
        raise RecursionError
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_depth(one, left - 1)


def _fail(source: str, reason: str, kind: type[Invalid] = Invalid) -> NoReturn:
    quoted = source if len(source) <= _MAX_QUOTED else f"{source[:_MAX_QUOTED]}…"
    raise kind(f"The expression `{quoted}` {reason}", expression=quoted)


def _list_expressions(template: Any) -> Iterator[str]:
    """The expressions in a template, in the order in which `_fill` replaces them."""
    match template:
        case dict():
            for one in template.values():
                yield from _list_expressions(one)
        case list() | tuple():
            for one in template:
                yield from _list_expressions(one)
        case str() if is_expression(template):
            yield template


def _fill(template: Any, next_result: Callable[[], Any]) -> Any:
    match template:
        case dict():
            pairs = [(name, _fill(one, next_result)) for name, one in template.items()]
            return {name: one for name, one in pairs if one is not MISSING}
        case list() | tuple():
            values = [_fill(one, next_result) for one in template]
            return [None if one is MISSING else one for one in values]
        case str() if is_expression(template):
            return next_result()
    return template


def _explain_syntax_error(reason: str, source: str) -> Problem:
    """The parser's error with the characters of tokens instead of their names."""
    tokens: list[str] = []

    def render_token(match: re.Match[str]) -> str:
        if match["token"]:
            token = _TOKENS[match["token"]]
        else:
            token = match["text"] or match["bare"] or ""
            if match["kind"] == "Number":
                token = token.removesuffix(".0")
            elif match["kind"] == "Variable":
                token = f"${token}"
        tokens.append(token)
        return f"`{token}`"

    words = _TOKEN.sub(render_token, _strip_prefixes(reason))
    column = None
    if any(code in reason for code in _AT_THE_END):
        column = len(source)
    else:  # the last token of the message, if the expression contains it once
        if "S0204" in reason:
            tokens = [reason.rstrip()[-1:]]
        if tokens and tokens[-1] and source.count(tokens[-1], 1) == 1:
            column = source.index(tokens[-1], 1)
    return Problem(_to_sentence(words), column)


def _strip_prefixes(reason: str) -> str:
    for prefix in _PREFIXES:
        reason = _CODE.sub("", reason.removeprefix(prefix))
    return _CODE.sub("", reason).removeprefix("Syntax error: ")


def _to_sentence(words: str) -> str:
    words = " ".join(words.split())
    if not words:
        return "It cannot be read."
    if words.startswith("`") and words.endswith("`"):
        words = f"{words} is not expected there"
    return words if words[-1] in ".!?" else f"{words}."


_pool = Pool()


def _restart_pool() -> None:
    """After a fork: two processes that share a child would get each other's answers."""
    global _pool
    _pool.disown()
    _pool = Pool()


atexit.register(close)
os.register_at_fork(after_in_child=_restart_pool)
