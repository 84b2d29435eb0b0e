"""Expressions are what an author wrote, evaluated once, in a process that can be stopped.

Contract: S3.23, S3.24, S3.25, S3.26, B3.20, B3.24. Trials: T9, G20.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.context import expression
from memwell.context.expression import (
    MAX_RESULT,
    MAX_SCOPE,
    MAX_SOURCE,
    MAX_SOURCES,
    MISSING,
    Pool,
    Problem,
    Stopped,
    close,
    evaluate,
    find_problems,
    is_expression,
    resolve,
)
from memwell.errors import Invalid, TooLarge, Unavailable, Unsupported

from ..cases import cases
from ..properties import examples
from ..waiting import wait_until
from .evil import evil

HANGS_S = 10.0
GREETING = (
    "='Hello ' & ($context.memory.customer_profile.preferred_name ? "
    "$context.memory.customer_profile.preferred_name : 'there')"
)
PROFILE = {"customer_profile": {"preferred_name": "Ada", "tags": ["vip"]}}
SCOPE = {"input": {"name": "Ada", "age": 36}, "context": {"memory": PROFILE}, "output": {"fetch": {"order": 7}}}
ENDLESS = "=($f := function($n) { $f($n + 1) }; $f(0))"
STUCK = "=$distinct([1..100000])"
"""It does not look at the clock, and has to be stopped."""
STORED = [
    "=1 + 1",
    "=$context.memory",
    "{{memory.secret}}",
    "$context",
    "= $eval('1')",
    '="' + "a" * 50 + '"',
    "=",
    "=(",
]


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    yield
    close()


def failure(source: str, scope: Any = None, **options: Any) -> str:
    with pytest.raises(Invalid) as raised:
        evaluate([source], scope or {}, **options)
    return raised.value.message


# -- what an author can write --------------------------------------------------------------------------------------------


@cases(
    ("source", "found"),
    [
        (GREETING, "Hello Ada"),
        ("=$context.memory.customer_profile.preferred_name", "Ada"),
        ("=$input.name", "Ada"),
        ("=$input.nothing.at.all", MISSING),
        ("=$nothing.at.all", MISSING),
        ("=name", MISSING),
        ("=$exists($context.memory.nothing)", False),
        ("=$exists($context.memory.customer_profile)", True),
        ("=$exists($iteration) ? 1 : 'no'", "no"),
        ("=$output.fetch.order + 1", 8),
        ("=$input.age / 2", 18),
        ("=$input.age / 8", 4.5),
        ("=10000000000 * 10000000000", 10**20),
        ("=null", None),
        ("=[]", []),
        ("={}", {}),
        ("=$", {}),
        ("=$string($input)", '{"name":"Ada","age":36}'),
        ("=$now()", "2026-04-19T10:00:00.000Z"),
        ("=$now('[Y]/[M01]', '+0200')", "2026/04"),
        ("=$millis()", 1776592800000),
        ("=$random() < 1", True),
        ("=$fromMillis(0)", "1970-01-01T00:00:00.000Z"),
        ("=$uppercase('straße') & 'ü'", "STRASSEü"),
    ],
)
def test_an_expression_gives(source: str, found: Any) -> None:
    """S3.23, S3.24, S3.25, S3.26, B3.20: variables by name, on an empty document; what is missing is no error."""
    (given,) = evaluate([source], SCOPE, now=1776592800_000_000)
    assert given == found
    assert type(given) is type(found)


def test_all_that_one_call_asks_for_is_evaluated_at_once() -> None:
    scope = {"input": {"numbers": list(range(1000))}}
    sources = [f"=$input.numbers[{number}] * 2" for number in range(100)]
    assert evaluate(sources, scope) == [2 * number for number in range(100)]
    assert evaluate([], scope) == []


def test_what_an_author_wrote_is_filled_in() -> None:
    """S3.26: also deep inside of an input; what gives nothing leaves no key, and null in a list."""
    template = {
        "text": GREETING,
        "deep": {"list": ["=$input.name", "as it is", ["=$input.no"]], "no": "=$input.no", "null": "=null", "n": 3},
        "=key": "a key is a key",
        "none": None,
    }
    assert resolve(template, SCOPE) == {
        "text": "Hello Ada",
        "deep": {"list": ["Ada", "as it is", [None]], "null": None, "n": 3},
        "=key": "a key is a key",
        "none": None,
    }
    assert resolve("=$input.no", SCOPE) is None
    assert resolve("plain", {}) == "plain"
    assert [is_expression(one) for one in ("=", " =1", "", 1, None, ["=1"])] == [
        True,
        False,
        False,
        False,
        False,
        False,
    ]


# -- what is stored stays data -------------------------------------------------------------------------------------------


@cases(
    "source",
    [
        "=$input.v",
        "=$string($input.v)",
        "=$input.v ~> $string",
        "=(function($x) { $x })($input.v)",
        "=$map([$input.v], function($x) { $x })[0]",
        "=$lookup({'k': $input.v}, 'k')",
        "=({'k': $input.v} ~> |$|{'k': $input.v}|).k",
        "=$reduce([$input.v], function($a, $b) { $b }, '')",
        "=$join([$input.v])",
        "=$merge([{'k': $input.v}]).k",
        "='' & $input.v",
    ],
)
def test_a_stored_value_is_never_run(source: str) -> None:
    """B3.24: whatever it begins with, through whatever it goes, and wherever it ends."""
    for stored in STORED:
        scope = {"input": {"v": stored}, "context": {"memory": {"secret": "hush"}}}
        assert evaluate([source], scope) == [stored]
        assert resolve({"a": [source]}, scope) == {"a": [stored]}


def test_results_with_expressions_in_them_are_not_walked() -> None:
    """B3.24."""
    scope = {"input": {"list": STORED, "object": {"=1": "=1 + 1"}}}
    assert resolve({"a": "=$input"}, scope) == {"a": scope["input"]}


@cases(
    "source",
    [
        "=$eval($input.v)",
        "=($e := $eval; $e($input.v))",
        "=$map([$input.v], $eval)",
        "=$input.v ~> $eval",
        "=$eval(?)($input.v)",
        "=(function($f) { $f($input.v) })($eval)",
        "=[$eval][0]($input.v)",
        "={'e': $eval}.e($input.v)",
        "=$input.v.$eval($)",
        "=$filter([$input.v], $eval)",
        "=$each({'k': $input.v}, $eval)",
        "=($f := $eval ~> $string; $f($input.v))",
        "={'k': $input.v} ~> |$|{'k': $eval($input.v)}|",
        "=$sort([$input.v, 'b'], $eval)",
        "=$replace('a', /a/, function($m) { $eval($input.v) })",
    ],
)
def test_there_is_no_eval(source: str) -> None:
    """B3.24: neither by its name, nor handed on, nor bound to another one."""
    assert "`$eval` is not available" in failure(source, {"input": {"v": "1 + 1"}})


TEXTS = st.text(max_size=20) | st.sampled_from(STORED)
WHOLE = st.integers(-(2**53), 2**53)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=examples(100, chaos=3_000), deadline=None, database=None)
@given(JSON)
def test_any_value_comes_back_as_it_was(value: Any) -> None:
    """B3.24, G20."""
    assert evaluate(["=$input.v"], {"input": {"v": value}}) == [value]


# -- what is wrong is told -----------------------------------------------------------------------------------------------


@cases(
    ("source", "message", "column"),
    [
        ("=1 +", "Unexpected end of expression.", 4),
        ("=foo bar", "`bar` is not expected there.", 5),
        ('={"a" 7}', "Expected `:`, got `7`.", 6),
        ("=(1", "Expected `)` before end of expression.", 3),
        ("='abc", "String literal must be terminated by a matching quote.", 5),
        ("=a ! b", "Unknown operator: !", 3),
        ("=a a a", "`a` is not expected there.", None),
        ("=", "Unexpected end of expression.", 1),
        ("1 + 1", "It does not begin with `=`.", 0),
        ("='\ud800'", "It is not valid Unicode: it contains half of a surrogate pair.", 2),
        ("='" + "x" * MAX_SOURCE, "It is longer than 16 KiB.", None),
    ],
)
def test_a_problem_is_reported_with_its_place(source: str, message: str, column: int | None) -> None:
    """B3.20: before anything runs."""
    assert find_problems([source]) == [Problem(message, column)]
    with pytest.raises(Invalid, match="The expression `"):
        evaluate([source], {})


def test_problems_are_found_without_running_anything() -> None:
    good = [GREETING, ENDLESS, STUCK, "=$nothing()", "=$eval('1')"]
    found = find_problems([*good, "=(", *good, "=)"])
    assert [problem is not None for problem in found] == [False] * 5 + [True] + [False] * 5 + [True]


@cases(
    ("source", "reason"),
    [
        ("='a' + 1", "failed: The left side of the + operator must evaluate to a number."),
        ("=$nothing()", "failed: Attempted to invoke a non-function: $nothing."),
        ("=$error('At last: no')", "failed: At last: no."),
        ("=$match('a', /(?=a)/)", "look-around"),
        ("=[1..200000]", "gave more than 1 MiB of JSON."),
        (
            "=$reduce([1..100], function($a, $b) { {'k': $a} }, 1)",
            "gave a value that is nested deeper than 64 levels.",
        ),
        ("=($f := function($n) { 1 + $f($n + 1) }; $f(0))", "failed: Stack overflow."),
        ("=" + "[" * 2000 + "]" * 2000, "nesting depth"),
        ("=$pad('x', 1000000000)", "used more than 256 MiB of memory and was stopped."),
        (ENDLESS, "took longer than 0.2 seconds and was stopped."),
        (STUCK, "took longer than 0.2 seconds and was stopped."),
    ],
)
def test_a_failure_says_what_it_was(source: str, reason: str) -> None:
    """T9."""
    told = failure(source, timeout_s=30.0 if "memory" in reason else 0.2 if "longer" in reason else 3.0)
    assert reason in told
    assert source[:40] in told


def test_of_several_the_one_that_failed_is_named() -> None:
    for bad in ("=$nothing()", STUCK):
        with pytest.raises(Invalid) as raised:
            evaluate(["=1", bad, "=2"], {}, timeout_s=0.2)
        assert raised.value.details["expression"] == bad
    assert find_problems(["=1"]) == [None]


def test_everything_has_a_limit() -> None:
    large = {"input": "x" * (MAX_SCOPE + 1)}
    with pytest.raises(TooLarge, match="larger than 4 MiB"):
        evaluate(["=$input"], large)
    assert evaluate(["=1"], large) == [1]  # what no expression names is not even sent
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TooLarge, match="nested too deeply"):
        evaluate(["=$input"], {"input": deep})
    with pytest.raises(TooLarge, match="the limit is 2000"):
        evaluate(["=1"] * (MAX_SOURCES + 1), {})
    with pytest.raises(TooLarge, match="1 MiB"):
        evaluate(["=$input", "=$input"], {"input": "ü" * (MAX_RESULT // 3)}, timeout_s=10.0)
    with pytest.raises(Invalid, match="not JSON"):
        evaluate(["=$input"], {"input": object()})
    with pytest.raises(Invalid, match="not valid Unicode"):
        evaluate(["=$input"], {"input": "\ud800"})
    assert evaluate(["=$input.a", "=$input.b"], {"input": {"a": 10**30, "b": 2}}) == [1e30, 2]
    assert "too large" in failure("=$input", {"input": 10**400})


# -- processes -----------------------------------------------------------------------------------------------------------


def test_evil_expressions_are_stopped_while_others_go_on(rounds: int) -> None:
    """T9, G20: `--rounds 200` tries all of them. Another caller's expressions are evaluated all the time."""
    sources = evil() if rounds >= 200 else evil(25)
    over, answers = Event(), []

    def other() -> None:
        while not over.wait(0.01):
            answers.append(evaluate([GREETING], SCOPE, lane="good", timeout_s=HANGS_S))

    def stopped(source: str) -> None:
        with suppress(Invalid, Unavailable):
            evaluate([source], {}, lane="evil")

    with ThreadPoolExecutor(4) as pool:
        good = pool.submit(other)
        try:
            list(pool.map(stopped, sources))
        finally:
            over.set()
        good.result()
    assert len(answers) > 5
    assert all(answer == ["Hello Ada"] for answer in answers)
    assert len(expression._pool.pids) <= 4


def test_reading_evil_expressions_takes_no_time() -> None:
    """T9: they are checked before they run."""
    find_problems(evil())


def test_a_process_that_was_stopped_is_replaced_and_all_are_gone_in_the_end() -> None:
    assert evaluate(["=1"], {}) == [1]
    before = expression._pool.pids
    with pytest.raises(Invalid, match="was stopped"):
        evaluate([STUCK], {}, timeout_s=0.1)
    assert evaluate(["=1"], {}) == [1]
    after = expression._pool.pids
    assert before - after
    close()
    assert expression._pool.pids == set()
    assert not any(map(_lives, before | after))
    assert evaluate(["=1"], {}) == [1]


def test_a_caller_that_waits_for_a_closed_process_gets_an_error() -> None:
    pool = Pool()
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(pool.ask, _endless(HANGS_S), HANGS_S)
        wait_until(lambda: pool.pids)
        pool.close()
        with pytest.raises(Unavailable, match="try again"):
            asking.result()
    assert pool.pids == set()


def test_a_lane_that_is_full_waits_for_itself() -> None:
    """And not for ever: whoever finds no place in time is told to try again, at once if too many wait already."""
    pool = Pool(most=3, in_lane=1, waiting=1, wait_s=0.05)
    try:
        held = Thread(target=_stopped, args=(pool, "a", 0.5))
        held.start()
        wait_until(lambda: pool.pids)
        with pytest.raises(Unavailable, match="Too many"):
            pool.ask(_endless(0.5), 0.5, "a")
        for lane in ("b", None):
            assert len(pool.ask(b'{"sources": ["("], "check": true, "time_s": 1}', HANGS_S, lane)) == 1
        held.join()
    finally:
        pool.close()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_the_process_has_nothing_worth_having(monkeypatch: pytest.MonkeyPatch) -> None:
    """T9: no variables of ours, no descriptor to open anything with, nothing of Memwell."""
    close()
    monkeypatch.setenv("MEMWELL_SECRET", "hush")
    before: set[int] = set()
    while expression._pool.pids != before or not before:  # one that took too long is replaced
        before = expression._pool.pids
        assert evaluate(["=$fromMillis(0, '[Y]') & $shuffle(['a'])[0]"], {}) == ["1970a"]
    process = Path(f"/proc/{before.pop()}")
    assert b"hush" not in (process / "environ").read_bytes()
    assert len(list((process / "fd").iterdir())) == 3
    assert "Max open files            3 " in (process / "limits").read_text()
    assert "msgspec" not in (process / "maps").read_text()


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    close()
    monkeypatch.setitem(sys.modules, "jsonatapy", None)  # as if it were not installed
    with pytest.raises(Unsupported, match=r"memwell\[workflows\]"):
        evaluate(["=1"], {})


def test_a_program_that_forks_and_ends_leaves_no_process() -> None:
    """Two processes that listened to the same one would get each other's answers."""
    program = """
import os
from memwell.context import expression
assert expression.evaluate(["=1"], {}) == [1]
first = expression._pool.pids
forked = os.fork()
assert expression.evaluate([f"={os.getpid()}"], {}) == [os.getpid()]
if forked:
    assert os.waitpid(forked, 0)[1] == 0
    assert expression.evaluate(["=2"], {}) == [2]
    assert expression._pool.pids == first
else:
    assert not expression._pool.pids & first
print(*expression._pool.pids, flush=True)
"""
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    wait_until(lambda: not any(map(_lives, pids)))


SIGNS = "$ $$ . [ ] { } ( ) , ; : := ? ?: ~> | ^ * ** % - .. & = < ' @$v #$i"
WORDS = (
    '$input a 1 1e9 "x" /a+/ function($x) $map $string $eval $reduce $sum $each $sort $toMillis true null and in \0 ü €'
)
PARTS = st.sampled_from([*SIGNS.split(), *WORDS.split()])


@settings(max_examples=examples(150, chaos=5_000), deadline=None, database=None)
@given(st.lists(PARTS, max_size=14).map("".join) | st.text(max_size=20))
def test_whatever_is_written_there_is_a_value_or_an_error(text: str) -> None:
    """G20."""
    with suppress(Invalid):
        evaluate([f"={text}"], {"input": {"a": [1, 2, {"b": "x"}]}})
    find_problems([f"={text}"])


def _endless(time_s: float) -> bytes:
    return b'{"check": false, "scope": {}, "now_ms": 0, "most": 9, "time_s": %f, "sources": ["%s"]}' % (
        time_s,
        ENDLESS[1:].encode(),
    )


def _stopped(pool: Pool, lane: str, time_s: float) -> None:
    with suppress(Stopped):
        pool.ask(_endless(time_s), time_s, lane)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
