"""Expressions: strings that begin with `=` are JSONata, evaluated in child processes that can be killed.

Only text of an author is evaluated, and only once: a result that looks like an expression is data. Never call this on an event
loop, because it waits for another process.

A few processes are started on demand, reused, and replaced if they are killed. Callers wait for a slot. A free slot goes to the
lane that has the fewest, so that a caller who fills its lane delays only itself.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Condition, Lock
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from ..errors import Invalid, TooLarge, Unavailable, Unsupported
from ..sandbox.child import OUT_OF_MEMORY, READY
from ..sandbox.process import START_S, Frame, FrameTooLarge, Process, describe_status, find_packages
from .expression_child import DONE, FAILED, LARGE, NOTHING, SLOW

TIMEOUT_S = 0.5
"""The time limit for all expressions of one call."""
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
    "Ampersand": "&", "At": "@", "Caret": "^", "Colon": ":", "ColonEqual": ":=", "Comma": ",", "Dot": ".",
    "DotDot": "..", "Equal": "=", "GreaterThan": ">", "GreaterThanOrEqual": ">=", "Hash": "#", "LeftBrace": "{",
    "LeftBracket": "[", "LeftParen": "(", "LessThan": "<", "LessThanOrEqual": "<=", "NotEqual": "!=", "Null": "null",
    "Percent": "%", "Pipe": "|", "Plus": "+", "Question": "?", "QuestionColon": "?:", "QuestionQuestion": "??",
    "RightBrace": "}", "RightBracket": "]", "RightParen": ")", "Semicolon": ";", "Slash": "/", "Star": "*",
    "StarStar": "**", "TildeArrow": "~>",
}  # fmt: skip
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
"""Stands for JSONata's undefined, an expression without a result."""


class Problem(NamedTuple):
    """A syntax error, with its column if known. The `=` is column 0."""

    message: str
    column: int | None = None


def is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("=")


def find_problems(sources: Sequence[str]) -> list[Problem | None]:
    """Return the syntax error of each expression, or None. This takes only a few round trips."""
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
    """Return the result of each expression, or `MISSING`. All are evaluated in one round trip.

    `scope` has the variables: `{"input": …}` is `$input`. Callers wait only for others of
    the same `lane`. `now` is the time of `$now()` and `$millis()` in microseconds.
    """
    if not sources:
        return []
    if len(sources) > MAX_SOURCES:
        raise TooLarge(f"{len(sources)} expressions cannot be evaluated at once; the limit is {MAX_SOURCES}.")
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
    lane: Hashable = None,
    now: int | None = None,
    render: Callable[[str], str] = lambda text: text,
) -> Any:
    """Replace each expression in a template by its result, and render its other texts.

    A missing result is omitted from an object, and is None in a list or by itself.
    """
    sources = list(_list_expressions(template))
    results = iter(evaluate(sources, scope, lane=lane, now=now))
    value = _fill(template, lambda: next(results), render)
    return None if value is MISSING else value


def close() -> None:
    """End all processes. They are started again on demand."""
    _pool.close()


class _Refusal(NamedTuple):
    """The reason not to evaluate an expression, as the rest of a sentence that begins with the expression."""

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
    except Stopped as stopped:  # check the expressions after it again, without it
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
    """Iterate over the expressions in a template, in the order in which `_fill` replaces them."""
    match template:
        case dict():
            for one in template.values():
                yield from _list_expressions(one)
        case list() | tuple():
            for one in template:
                yield from _list_expressions(one)
        case str() if is_expression(template):
            yield template


def _fill(template: Any, next_result: Callable[[], Any], render: Callable[[str], str]) -> Any:
    match template:
        case dict():
            pairs = [(name, _fill(one, next_result, render)) for name, one in template.items()]
            return {name: one for name, one in pairs if one is not MISSING}
        case list() | tuple():
            values = [_fill(one, next_result, render) for one in template]
            return [None if one is MISSING else one for one in values]
        case str() if is_expression(template):
            return next_result()
        case str():
            return render(template)
    return template


def _explain_syntax_error(reason: str, source: str) -> Problem:
    """Rewrite the parser's error with the characters of tokens instead of their names."""
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
    else:  # point at the last token of the message, if the expression contains it once
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


# -- processes ------------------------------------------------------------------------------------------------------------


MEMORY = 256 * 2**20
PATIENCE_S = 0.05  # a longer evaluation continues at a lower priority, and its process is not used again
NICENESS = 5
FORCE_S = 0.1  # how long after its own limit it is killed
MAX_REQUESTS = 10_000  # of one process
MAX_FRAME = 8 * 2**20
MAX_PROCESSES = 4
MAX_IN_LANE = 2
MAX_WAITING = 64
MAX_IDLE = 2
WAIT_S = 5.0
_BUSY = "Too many expressions are being evaluated: try again in a moment."
_ENDED = "The process that evaluates expressions was ended: try again in a moment."
# Without this the evaluator's allocator reserves a GiB at once, which makes a limit of address space useless.
_ENVIRONMENT = {"MIMALLOC_DISALLOW_ARENA_ALLOC": "1"}


class Stopped(Exception):
    """The process was stopped or crashed. `answered` is the number of answers before that."""

    def __init__(self, reason: str, answered: int) -> None:
        super().__init__(reason)
        self.reason, self.answered = reason, answered


class Evaluator:
    """One evaluating process, used by one thread at a time."""

    def __init__(self) -> None:
        self._ready = self._slow = False
        self._requests = 0
        packages = find_packages("jsonatapy")
        if packages is None:
            raise Unsupported('Expressions need the package `jsonatapy`: run `pip install "memwell[workflows]"`.')
        try:
            self.process = Process.start_confined(
                "memwell.context.expression_child", MEMORY, max_frame=MAX_FRAME, packages=packages, env=_ENVIRONMENT
            )
        except OSError as error:
            raise Unavailable(f"No process can be started to evaluate expressions: {error}.") from error

    @property
    def is_usable(self) -> bool:
        return not self._slow and self._requests < MAX_REQUESTS and self.process.is_alive

    def ask(self, request: bytes, timeout_s: float) -> list[Frame]:
        """Return the answers to a request. The time limit begins when the process is ready."""
        self._requests += 1
        self._wait_until_ready()
        answers: list[Frame] = []
        begin = time.monotonic()
        deadline = begin + timeout_s + FORCE_S
        try:
            self.process.send(b"A", request, deadline)
            while (answer := self._receive(begin + PATIENCE_S, deadline)).kind != DONE:
                answers.append(answer)
        except TimeoutError:
            raise Stopped(f"took longer than {timeout_s:g} seconds", len(answers)) from None
        except FrameTooLarge:
            raise Unavailable(_ENDED) from None
        except (EOFError, ConnectionError):
            raise Stopped(self._explain_end(timeout_s), len(answers)) from None
        return answers

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        with suppress(TimeoutError, EOFError, ConnectionError, FrameTooLarge):
            self._ready = self.process.receive(time.monotonic() + START_S).kind == READY
        if not self._ready:
            raise Unavailable("The process that evaluates expressions cannot be started: try again in a moment.")

    def _receive(self, patience: float, deadline: float) -> Frame:
        """Return one answer. After a while, lower the priority of the process."""
        if not self._slow and patience < deadline:
            try:
                return self.process.receive(patience)
            except TimeoutError:
                self._slow = True
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self.process.pid, NICENESS)
        return self.process.receive(deadline)

    def _explain_end(self, timeout_s: float) -> str:
        """Return the reason as the rest of a sentence about the expression. Rust ends a process without memory by SIGABRT."""
        try:
            status = self.process.wait()
        except TimeoutError:
            raise Unavailable(_ENDED) from None
        if status == -signal.SIGKILL:
            raise Unavailable(_ENDED)
        if status in (OUT_OF_MEMORY, -signal.SIGABRT):
            return f"used more than {MEMORY >> 20} MiB of memory"
        if status == -signal.SIGALRM:
            return f"took longer than {timeout_s:g} seconds"
        if status in (-signal.SIGSEGV, -signal.SIGBUS):
            return "is nested too deeply, or used too much memory"
        return f"ended the process that evaluated it ({describe_status(status)})"


class _Waiter:
    """A caller that waits for a slot."""

    def __init__(self, lane: Hashable) -> None:
        self.lane = lane


class Pool:
    """Evaluating processes, shared by many threads."""

    def __init__(
        self,
        *,
        most: int = MAX_PROCESSES,
        in_lane: int = MAX_IN_LANE,
        waiting: int = MAX_WAITING,
        wait_s: float = WAIT_S,
    ) -> None:
        self._most, self._in_lane, self._most_waiting, self._wait_s = most, in_lane, waiting, wait_s
        self._lock = Lock()
        self._freed = Condition(self._lock)
        self._busy: Counter[Hashable] = Counter()
        self._waiting: list[_Waiter] = []
        self._idle: list[Evaluator] = []  # the last one was used most recently, so it is ready
        self._working: set[Evaluator] = set()
        self._closed = 0  # how often `close` was called

    def ask(self, request: bytes, timeout_s: float, lane: Hashable = None) -> list[Frame]:
        """Return the answers to a request. A call without a lane gets its own lane."""
        with self._slot(object() if lane is None else lane):
            closed, child = self._closed, self._acquire()
            try:
                return child.ask(request, timeout_s)
            except BaseException:
                child.process.kill()  # it must not answer this request to the next caller
                raise
            finally:
                self._release(child, closed)

    def close(self) -> None:
        """End all processes. Calls in progress fail; later calls start new processes."""
        with self._lock:
            idle, working = self._idle, list(self._working)
            self._idle = []
            self._closed += 1
        for child in working:
            child.process.kill()
        for child in idle:
            child.process.close()

    def disown(self) -> None:
        """Forget the processes without ending them, because they belong to the parent of this fork."""
        for child in (*self._idle, *self._working):
            child.process.disown()

    @property
    def pids(self) -> set[int]:
        with self._lock:
            return {child.process.pid for child in (*self._idle, *self._working)}

    def _acquire(self) -> Evaluator:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
                if child is not None and child.is_usable:
                    self._working.add(child)
                    return child
            if child is None:
                break
            child.process.close()
        child = Evaluator()
        with self._lock:
            self._working.add(child)
        return child

    def _release(self, child: Evaluator, closed: int) -> None:
        with self._lock:
            self._working.discard(child)
            is_usable = child.is_usable
            if is_usable and len(self._idle) < MAX_IDLE:
                self._idle.append(child)
                return
        child.process.close()
        if not is_usable:
            self._replace(closed)

    def _replace(self, closed: int) -> None:
        """Start a process for the next call, unless one is idle or the pool was closed meanwhile."""
        if self._idle or self._closed != closed:
            return
        try:
            child = Evaluator()
        except Unavailable:
            return  # the next call reports it
        with self._lock:
            if self._closed == closed and len(self._idle) < MAX_IDLE:
                self._idle.insert(0, child)
                return
        child.process.close()

    @contextmanager
    def _slot(self, lane: Hashable) -> Iterator[None]:
        """Hold a slot, or wait for one."""
        waiter = _Waiter(lane)
        with self._freed:
            if len(self._waiting) >= self._most_waiting and not self._has_slot(lane):
                raise Unavailable(_BUSY)
            self._waiting.append(waiter)
            try:
                if not self._freed.wait_for(lambda: self._find_next() is waiter, self._wait_s):
                    raise Unavailable(_BUSY)
            finally:
                self._waiting.remove(waiter)
            self._busy[lane] += 1
            self._freed.notify_all()
        try:
            yield
        finally:
            with self._freed:
                self._busy[lane] -= 1
                self._busy += Counter()  # forget lanes that are empty
                self._freed.notify_all()

    def _find_next(self) -> _Waiter | None:
        """Return the next to get a slot: the first one of the lane that has the fewest."""
        able = [one for one in self._waiting if self._has_slot(one.lane)]
        return min(able, key=lambda one: self._busy[one.lane], default=None)

    def _has_slot(self, lane: Hashable) -> bool:
        return self._busy.total() < self._most and self._busy[lane] < self._in_lane


_pool = Pool()


def _restart_pool() -> None:
    """Use new processes after a fork. Two processes that share a child would get each other's answers."""
    global _pool
    _pool.disown()
    _pool = Pool()


atexit.register(close)
os.register_at_fork(after_in_child=_restart_pool)
