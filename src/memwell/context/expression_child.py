"""The process that evaluates: load, give up every right, say so, then answer one request after the other.

It is run by its path, without the rest of Memwell, so that it starts quickly and holds nothing worth having. With a limit of
three descriptors, all in use, it can reach no file and no network. It ends when its input does, that is with whoever started
it; while it evaluates, a timer ends it if nobody else does.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

HEAD = struct.Struct(">cI")
READY = b"R"  # loaded and limited
VALUE = b"V"  # what an expression gave, as JSON
NOTHING = b"N"  # it gave nothing, or nothing is wrong with it
FAILED = b"F"  # with the reason
SLOW = b"S"  # it noticed by itself that the time is up
LARGE = b"L"  # it gave more than was wanted
DONE = b"D"  # that was all: behind one that was not evaluated nothing is said of the others

OUT_OF_MEMORY = 71  # the exit status when there is none left even to say so
DESCRIPTORS = 3  # standard input, output and error
GRACE_S = 1.0  # for whoever waits to stop it first
DEEPEST = 1000  # calls in calls
LONGEST = 1_000_000  # values in one sequence
LONGEST_REASON = 1000
UNKNOWN_SIZE = 1 << 30  # of the process, where it cannot be told
WHY_NO_EVAL = "`$eval` cannot be used here: what is stored or sent is never run as code."


def main(packages: str, memory: int) -> None:
    sys.path.append(packages)
    evaluator = Evaluator()
    evaluator.warm()
    _confine(memory)
    _say(READY)
    try:
        while asked := _heard():
            _answer(evaluator, asked)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


class Evaluator:
    """JSONata, with `$eval` taken away, `$random` added, and one instant for all that is asked at once."""

    def __init__(self) -> None:
        import jsonatapy

        self._compile = jsonatapy.compile

    def warm(self) -> None:
        """Do once what may load something: nothing can be opened later."""
        self.evaluated("$fromMillis($millis(), '[Y]') & $random() & $match('a', /a/i).match & $now()", {}, 5000, 0)
        self.problem("(")

    def problem(self, source: str) -> str:
        """What is wrong with an expression, without running it."""
        try:
            self._compile(source)
        except (ValueError, UnicodeError) as error:
            return str(error)
        return ""

    def evaluated(self, source: str, scope: dict[str, Any], time_ms: int, now_ms: int) -> str | None:
        """What it gives, as JSON; None: nothing."""
        compiled = self._compile(source, timeout=time_ms, max_stack_depth=DEEPEST, max_sequence_length=LONGEST)
        compiled.register_override("eval", _no_eval)
        for name, function in self._functions(now_ms).items():
            if f"${name}" in source:
                compiled.register_override(name, function)
        bound = {name: value for name, value in scope.items() if f"${name}" in source}  # each is copied
        try:
            return compiled.evaluate_json_or_none("{}", bound)
        except OverflowError:
            return compiled.evaluate_json_or_none("{}", _in_doubles(bound))

    def _functions(self, now_ms: int) -> dict[str, Callable[..., Any]]:
        return {"random": random.random, "millis": lambda: now_ms, "now": self._now(now_ms)}

    def _now(self, now_ms: int) -> Callable[..., Any]:
        def now(picture: str | None = None, zone: str | None = None) -> Any:
            given = {name: value for name, value in {"picture": picture, "zone": zone}.items() if value is not None}
            return self._compile("$fromMillis($at, $picture, $zone)").evaluate({}, {"at": now_ms, **given})

        return now


def _no_eval(*_: Any) -> NoReturn:
    raise ValueError(WHY_NO_EVAL)


def _in_doubles(value: Any) -> Any:
    """With whole numbers of more than 64 bits as the doubles that all numbers are in JSONata."""
    if isinstance(value, dict):
        return {name: _in_doubles(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_in_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and value.bit_length() > 62 else value


def _answer(evaluator: Evaluator, asked: bytes) -> None:
    try:
        request = json.loads(asked)
    except RecursionError:
        _say(FAILED, "what it is given is nested too deeply.", last=True)
        return
    signal.setitimer(signal.ITIMER_REAL, request["time_s"] + GRACE_S)
    (_check if request["check"] else _evaluate)(evaluator, request)
    signal.setitimer(signal.ITIMER_REAL, 0)


def _check(evaluator: Evaluator, request: dict[str, Any]) -> None:
    for left, source in _counted(request["sources"]):
        reason = evaluator.problem(source)
        _say(FAILED if reason else NOTHING, reason, last=not left)


def _evaluate(evaluator: Evaluator, request: dict[str, Any]) -> None:
    """Each answer goes out before the next expression begins, so that it is known which one never ended."""
    until, room = time.perf_counter() + request["time_s"], request["most"]
    for left, source in _counted(request["sources"]):
        kind, said = _tried(evaluator, source, request, int(1000 * (until - time.perf_counter())))
        room -= len(said) if said.isascii() else len(said.encode())
        if room < 0:
            kind, said = LARGE, ""
        last = not left or kind not in (VALUE, NOTHING)
        _say(kind, said, last=last)
        if last:
            return


def _counted(sources: list[str]) -> Iterator[tuple[int, str]]:
    """Each, and how many are behind it."""
    return zip(range(len(sources) - 1, -1, -1), sources, strict=True)


def _tried(evaluator: Evaluator, source: str, request: dict[str, Any], time_ms: int) -> tuple[bytes, str]:
    if time_ms <= 0:
        return SLOW, ""
    try:
        found = evaluator.evaluated(source, request["scope"], time_ms, request["now_ms"])
    except MemoryError:
        raise
    except OverflowError:
        return FAILED, "what it is given holds a number that is too large."
    except BaseException as error:  # noqa: BLE001 -- the evaluator's own panics are no Exceptions
        said = str(error).removeprefix("host function raised ValueError: ")
        return (SLOW, "") if said.startswith("D1012") else (FAILED, said)
    return (NOTHING, "") if found is None else (VALUE, found)


def _confine(memory: int) -> None:
    """Limits that cannot be raised again."""
    _limit(resource.RLIMIT_AS, _size() + memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)


def _limit(what: int, most: int) -> None:
    _, already = resource.getrlimit(what)
    most = most if already == resource.RLIM_INFINITY else min(most, already)
    with suppress(ValueError):  # some systems know a limit, and do not take it
        resource.setrlimit(what, (most, most))


def _size() -> int:
    try:
        with open("/proc/self/statm") as status:
            return int(status.read().split()[0]) * resource.getpagesize()
    except OSError:
        return UNKNOWN_SIZE


def _heard() -> bytes:
    """The next request; nothing if there are no more."""
    _, size = HEAD.unpack(_exactly(HEAD.size) or HEAD.pack(b" ", 0))
    return _exactly(size)


def _exactly(size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            return b""
        parts += part
    return bytes(parts)


def _say(kind: bytes, said: str = "", *, last: bool = False) -> None:
    body = (said if kind == VALUE else said[:LONGEST_REASON]).encode(errors="replace")
    rest = memoryview(HEAD.pack(kind, len(body)) + body + (HEAD.pack(DONE, 0) if last else b""))
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
