"""The process that evaluates expressions: it loads, confines itself, reports that it is ready, and answers requests.

It ends when its input does, that is, with its parent. During an evaluation a timer ends it if the parent does not.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from ..sandbox.child import OUT_OF_MEMORY, READY, confine, encode_frame, read_frame, write

VALUE = b"V"  # the result as JSON
NOTHING = b"N"  # no result, or no syntax error
FAILED = b"F"  # the reason
SLOW = b"S"  # the evaluator ran out of time
LARGE = b"L"  # the results are too large
DONE = b"D"  # end of the answers; expressions after one that was not evaluated have none

GRACE_S = 1.0  # for the parent to kill it first
MAX_CALL_DEPTH = 1000
MAX_SEQUENCE = 1_000_000
MAX_REASON = 1000
UNKNOWN_SIZE = 1 << 30  # assumed address space if the system does not report it
WHY_NO_EVAL = "`$eval` is not available: stored or sent text is never run as code."


def main(memory: str) -> None:
    """Answer requests. `memory` is the number of bytes that they may use in addition to those used by loading."""
    evaluator = Evaluator()
    evaluator.load()
    confine(_address_space() + int(memory))
    write(encode_frame(READY))
    try:
        while request := read_frame():
            _answer(evaluator, request)
            write(encode_frame(DONE))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


class Evaluator:
    """JSONata without `$eval`, with `$random`, and with the same `$now` for all expressions of a request."""

    def __init__(self) -> None:
        import jsonatapy

        self._compile = jsonatapy.compile

    def load(self) -> None:
        """Use everything that loads files at first use, because no file can be opened later."""
        self.evaluate("$fromMillis($millis(), '[Y]') & $random() & $match('a', /a/i).match & $now()", {}, 5000, 0)
        self.find_error("(")

    def find_error(self, source: str) -> str:
        """Return the syntax error of an expression, or an empty string."""
        try:
            self._compile(source)
        except (ValueError, UnicodeError) as error:
            return str(error)
        return ""

    def evaluate(self, source: str, scope: dict[str, Any], time_ms: int, now_ms: int) -> str | None:
        """Return the result as JSON; None if there is no result."""
        compiled = self._compile(
            source, timeout=time_ms, max_stack_depth=MAX_CALL_DEPTH, max_sequence_length=MAX_SEQUENCE
        )
        compiled.register_override("eval", _refuse_eval)
        functions = {"random": random.random, "millis": lambda: now_ms, "now": self._build_now(now_ms)}
        for name, function in functions.items():
            if f"${name}" in source:
                compiled.register_override(name, function)
        bound = {name: value for name, value in scope.items() if f"${name}" in source}  # each is copied
        try:
            return compiled.evaluate_json_or_none("{}", bound)
        except OverflowError:
            return compiled.evaluate_json_or_none("{}", _to_doubles(bound))

    def _build_now(self, now_ms: int) -> Callable[..., Any]:
        def now(picture: str | None = None, zone: str | None = None) -> Any:
            given = {name: value for name, value in {"picture": picture, "zone": zone}.items() if value is not None}
            return self._compile("$fromMillis($at, $picture, $zone)").evaluate({}, {"at": now_ms, **given})

        return now


def _refuse_eval(*_: Any) -> NoReturn:
    raise ValueError(WHY_NO_EVAL)


def _to_doubles(value: Any) -> Any:
    """Replace integers of more than 64 bits by doubles, as JSONata does for all numbers."""
    if isinstance(value, dict):
        return {name: _to_doubles(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_to_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and value.bit_length() > 62 else value


def _answer(evaluator: Evaluator, body: bytes) -> None:
    try:
        request = json.loads(body)
    except RecursionError:
        _write_answer(FAILED, "its input is nested too deeply.")
        return
    signal.setitimer(signal.ITIMER_REAL, request["time_s"] + GRACE_S)
    if request["check"]:
        for source in request["sources"]:
            error = evaluator.find_error(source)
            _write_answer(FAILED if error else NOTHING, error)
    else:
        _evaluate(evaluator, request)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _evaluate(evaluator: Evaluator, request: dict[str, Any]) -> None:
    """Write each answer before the next expression begins, so that the parent knows which one did not end."""
    deadline, room = time.perf_counter() + request["time_s"], request["most"]
    for source in request["sources"]:
        kind, text = _evaluate_one(evaluator, source, request, int(1000 * (deadline - time.perf_counter())))
        room -= len(text) if text.isascii() else len(text.encode())
        if room < 0:
            kind, text = LARGE, ""
        _write_answer(kind, text)
        if kind not in (VALUE, NOTHING):
            return


def _evaluate_one(evaluator: Evaluator, source: str, request: dict[str, Any], time_ms: int) -> tuple[bytes, str]:
    if time_ms <= 0:
        return SLOW, ""
    try:
        result = evaluator.evaluate(source, request["scope"], time_ms, request["now_ms"])
    except MemoryError:
        raise
    except OverflowError:
        return FAILED, "its input contains a number that is too large."
    except BaseException as error:  # noqa: BLE001 -- the evaluator's own panics are no Exceptions
        reason = str(error).removeprefix("host function raised ValueError: ")
        return (SLOW, "") if reason.startswith("D1012") else (FAILED, reason)
    return (NOTHING, "") if result is None else (VALUE, result)


def _write_answer(kind: bytes, text: str) -> None:
    write(encode_frame(kind, text if kind == VALUE else text[:MAX_REASON]))


def _address_space() -> int:
    """Return the address space of this process in bytes."""
    try:
        with open("/proc/self/statm") as status:
            return int(status.read().split()[0]) * resource.getpagesize()
    except OSError:
        return UNKNOWN_SIZE
