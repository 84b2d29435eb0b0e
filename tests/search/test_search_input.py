"""Bad and odd input to search: a clear error or a sane answer on every surface, and nothing is lost by it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Invalid, MemwellError, NotFound
from memwell.surfaces.cli.main import app

from ..cases import cases
from ..engines import Memory, located
from ..live import Live, live

STORED = ("We ship to the EU only", 'He said "never again" - and left', "The party is on 🎉 Friday")
SLOW_S = 5.0
"""No query that is answered, however odd, may keep a processor busy for longer."""


def nested(depth: int) -> Any:
    data: Any = {"a": 1}
    for _ in range(depth):
        data = {"$not": data}
    return data


@dataclass
class Case:
    """Fields of a search, the code of its error, and a word that the sentence must hold."""

    name: str
    fields: Any
    code: str
    word: str
    only: set[str] = field(default_factory=lambda: {"sdk", "http", "rest", "cli"})

    def data(self) -> dict[str, Any]:
        fields = self.fields() if callable(self.fields) else self.fields
        return {"flow": "f", "query": "ship", **fields}


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SDK_ONLY = {"sdk"}
NOT_REST = {"sdk", "cli"}
NOT_CLI = {"sdk", "http", "rest"}

REFUSED = [
    Case("empty query", {"query": ""}, "invalid", "some words or a question"),
    Case("only spaces", {"query": " \t\n\u3000 "}, "invalid", "some words or a question"),
    Case("1 MiB query", lambda: {"query": "ship " * 210_000}, "too_large", "64 KiB"),
    Case("just above 64 KiB in UTF-8", lambda: {"query": "é" * 32_769}, "too_large", "64 KiB"),
    Case("NUL", {"query": "a\x00b"}, "invalid", "NUL"),
    Case("half a surrogate pair", {"query": "ship \ud800"}, "invalid", "Unicode", SDK_ONLY | {"http"}),
    Case("query that is not text", {"query": 5}, "invalid", "query", NOT_CLI),
    Case("query that is null", {"query": None}, "invalid", "query", NOT_CLI),
    Case("limit 0", {"limit": 0}, "invalid", "1 to 1000"),
    Case("limit 1001", {"limit": 1001}, "invalid", "1 to 1000"),
    Case("limit negative", {"limit": -1}, "invalid", "1 to 1000"),
    Case("limit as text", {"limit": "5"}, "invalid", "limit", NOT_CLI),
    Case("limit with a fraction", {"limit": 2.5}, "invalid", "limit", NOT_CLI),
    Case("limit beyond 64 bits", {"limit": 2**70}, "invalid", "limit", NOT_CLI),
    Case("include of something unknown", {"include": ["x"]}, "invalid", "include", NOT_CLI),
    Case("include as text", {"include": "turns"}, "invalid", "include", NOT_CLI),
    Case("include twice", {"include": ["turns", "turns"]}, "invalid", "include", NOT_CLI),
    Case("min_score above 1", {"min_score": 1.5}, "invalid", "from 0 to 1"),
    Case("min_score below 0", {"min_score": -0.5}, "invalid", "from 0 to 1"),
    Case("min_score NaN", {"min_score": float("nan")}, "invalid", "min_score", NOT_REST),
    Case("min_score infinite", {"min_score": float("inf")}, "invalid", "min_score", NOT_REST),
    Case("unknown recipe", {"recipe": "soup"}, "invalid", "meaning"),
    Case("huge recipe", lambda: {"recipe": "x" * 100_000}, "invalid", "meaning"),
    Case("unknown field", {"top_k": 3}, "invalid", "no field `top_k`", NOT_CLI),
    Case("filter that is a list", {"filter": [1]}, "invalid", "filter", NOT_CLI),
    Case("unknown operator", {"filter": {"a": {"$regex": "^x"}}}, "invalid", "unknown operator '$regex'"),
    Case("operator without a field", {"filter": {"$gt": 1}}, "invalid", "needs the name of a field"),
    Case("filter of 10,000 nodes", lambda: {"filter": {"$or": [{"a": n} for n in range(10_000)]}}, "invalid", "200"),
    Case("filter too deep", lambda: {"filter": nested(17)}, "invalid", "deeper than 16"),
    Case("filter far too deep", lambda: {"filter": nested(500)}, "invalid", "deeper than "),
    Case("filter with 1,001 values", lambda: {"filter": {"a": {"$in": list(range(1001))}}}, "invalid", "at most 1000"),
    Case("filter too large", lambda: {"filter": {"a": "x" * 300_000}}, "too_large", "256 KiB"),
    Case("NaN in a filter", {"filter": {"a": float("nan")}}, "invalid", "nan", SDK_ONLY | {"http"}),
    Case("infinity in a filter", {"filter": {"a": {"$lt": float("inf")}}}, "invalid", "inf", SDK_ONLY | {"http"}),
    Case("NUL in a filter", {"filter": {"a": "x\x00"}}, "invalid", "NUL"),
    Case("half a pair in a filter", {"filter": {"a": "\ud800"}}, "invalid", "Unicode", SDK_ONLY | {"http"}),
    Case("integer beyond 64 bits in a filter", {"filter": {"a": 2**64}}, "invalid", "64 bits"),
    Case("a bad time", {"after": "yesterday"}, "invalid", "after", NOT_CLI),
    Case("a bad time typed", {"before": "yesterday"}, "invalid", "2026-04-19", {"cli"}),
    Case("control character in a session", {"session": "a\nb"}, "invalid", "control characters"),
    Case("a dotted session", {"session": ".."}, "invalid", "..", NOT_CLI),
]


@pytest.fixture(scope="module")
def server(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("server"), auth=False, worker=False) as server:
        with server.memory() as memory:
            fill(memory)
        yield server


@pytest.fixture(scope="module")
def home(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("embedded") / "home"
    with Memory(home, worker=False) as memory:
        fill(memory)
    return home


@pytest.fixture(scope="module")
def memory(home: Path) -> Iterator[Memory]:
    with Memory(home, worker=False) as memory:
        yield memory


def fill(memory: Memory) -> None:
    for text in STORED:
        memory.flow("f").write(text)


def intact(memory: Memory) -> None:
    """What was stored is there and is found, and nothing else is."""
    assert [found.content for found in memory.flow("f").memories()] == list(STORED)
    assert memory.flow("f").search("ship")[0].content == STORED[0]
    assert [flow.flow for flow in memory.flows()] == ["f"]


def bad_inputs(surface: str) -> Callable[[Callable[..., None]], Any]:
    found = [case for case in REFUSED if surface in case.only]
    return cases("case", found, ids=lambda case: case.name)


@bad_inputs("sdk")
def test_embedded_it_is_refused(case: Case, memory: Memory) -> None:
    for operation, more in (("flows.search", {}), ("flows.why_not", {"id": "0" * 26})):
        with pytest.raises(Invalid) as raised:
            memory.call(operation, case.data() | more)
        assert raised.value.code == case.code
        assert case.word in raised.value.message
        assert len(raised.value.message) < 500, "the sentence does not repeat what was sent"
    intact(memory)


@bad_inputs("http")
def test_over_http_it_is_refused(case: Case, server: Live) -> None:
    with server.memory() as memory:
        with pytest.raises(Invalid) as raised:
            memory.call("flows.search", case.data())
        assert raised.value.code == case.code
        assert case.word in raised.value.message
        intact(memory)


@bad_inputs("rest")
def test_rest_refuses_it(case: Case, server: Live) -> None:
    body = {name: value for name, value in case.data().items() if name != "flow"}
    answer = httpx.post(f"{server.url}/v1/flows/f/search", content=msgspec.json.encode(body))
    error = answer.json()["error"]
    assert answer.status_code == (413 if case.code == "too_large" else 400)
    assert (error["code"], case.word in error["message"]) == (case.code, True), error


@cases(
    "body",
    [
        b'{"query": "ship", "min_score": NaN}',
        b'{"query": "ship", "filter": {"a": Infinity}}',
        b'{"query": "\\ud800"}',
        b'{"query": "\xff"}',
        b'{"query": "ship", "filter": {"a": 1e999}}',
        b'{"query": "ship", "filter": ' + b'{"$not":' * 50_000,
        b'{"query": "ship", "min_score": "0.5"}',
        b'["ship"]',
        b"",
    ],
    ids=["NaN", "infinity", "half a pair", "not UTF-8", "beyond floats", "very deep", "text", "a list", "nothing"],
)
def test_rest_refuses_a_body_that_is_not_a_search(server: Live, body: bytes) -> None:
    for path in ("/v1/flows/f/search", "/v1/users/u/search", "/v1/flows/f/search/why-not"):
        answer = httpx.post(server.url + path, content=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "invalid"


OPTIONS = {"filter": "--filter", "min_score": "--min-score"}


def run(home: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--home", located(home), "search", *arguments])


@bad_inputs("cli")
def test_the_command_line_refuses_it(case: Case, home: Path) -> None:
    data = case.data()
    arguments = ["--flow", data.pop("flow")]
    query = data.pop("query")
    for name, value in data.items():
        text = json.dumps(value) if name == "filter" else str(value)
        arguments += [f"{OPTIONS.get(name, '--' + name)}={text}"]
    result = run(home, *arguments, "--", query)
    assert result.exit_code == 2, result.output
    assert case.word in " ".join(result.stderr.split())


@cases(
    ("arguments", "word"),
    [
        (["ship"], "--flow F or --user U"),
        (["--flow", "f", "--user", "u", "ship"], "--flow F or --user U"),
        (["--flow", "f", "--filter", "{", "ship"], "--filter must be JSON"),
        (["--flow", "f", "--filter", '{"a": NaN}', "ship"], "--filter must be JSON"),
        (["--flow", "f", "--filter", "[1]", "ship"], "filter"),
        (["--flow", "f", "--after", "2026-13-01", "ship"], "such as 2026-04-19"),
        (["--flow", "f", "--limit", "many", "ship"], "limit"),
        (["--flow", "f"], "QUERY"),
    ],
)
def test_a_mistyped_command_says_what_to_type(home: Path, arguments: list[str], word: str) -> None:
    result = run(home, *arguments)
    assert result.exit_code == 2
    assert word in " ".join(result.stderr.split())


# What is answered.

ODD = [
    *('"', '""', '"ship', "ship\"", "'", "''", "NEAR(", "NEAR(ship EU, 2)", "*", "shi*", "^", "^ship", "tokens:ship"),
    *("col:", "-", "-ship", "--", "+", "AND OR NOT", "ship AND NOT EU", "NOT", "OR", "(", ")", "(((", "{ship}", "\\"),
    *("%", "_", "ship; DROP TABLE word; --", ":match", "?", "word MATCH 'x'", "\x01\x02\x1b[31m", "\x7f", "\u200b"),
    *("\u202eship", "\ufeffship", "\ue000", "\ue0001 ship", "\ue001", "\ue002fact", "\uffff", "🎉", "🎉🎉🎉", "👩‍👩‍👧", "❤️"),
    *("the of and", "THE", "is it?", "it's", "’s", "...", "!!!", "1", "0x10", "1e999", "\u0301", "é", "ﬀ", "ß", "İ"),
    *("\U0010ffff", "\u0e33", "a" * 65_536, "ship " * 13_000, "🎉" * 16_000, "船" * 20_000, "'" * 60_000, "you said " * 7000),
    *("0000-00-00", "9999-12-31", "in 9999", "in 0000", "31 february 2026", "999 years ago", "december 9999", "99 may 1"),
]  # fmt: skip


@cases("query", ODD, ids=lambda query: ascii(query[:20]))
def test_any_text_is_only_text(memory: Memory, query: str) -> None:
    """FTS5 syntax, control characters, private characters, pictures, dates that are none: all are words or nothing."""
    started = time.process_time()
    for recipe in ("default", "words", "meaning"):
        hits = memory.flow("f").search(query, recipe=recipe, include=["turns"], explain=True)
        assert {hit.content for hit in hits} <= set(STORED)
        assert all(0 <= hit.score <= 1 for hit in hits)
    assert time.process_time() - started < SLOW_S
    assert memory.flow("empty").search(query).hits == []
    assert memory.user("nobody").search(query).hits == []


def test_the_words_beside_odd_signs_still_find(memory: Memory) -> None:
    for query in (
        '"ship',
        "ship*",
        "^ship",
        "-ship",
        "(ship",
        "tokens:ship",
        "NEAR(ship",
        "\x01ship\x1b",
        "ship\\",
        "'ship'",
    ):
        assert memory.flow("f").search(query, recipe="words")[0].content == STORED[0], query
    assert memory.flow("f").search('"never again"')[0].content == STORED[1]
    assert memory.flow("f").search("🎉")[0].content == STORED[2]


def test_operators_of_the_index_have_no_power(memory: Memory) -> None:
    """`NOT`, a prefix or the tokens that name a place change neither where it looks nor what it finds."""
    memory.flow("g").write("only in g")
    try:
        for sign in "\ue000\ue001\ue002":
            for number in range(20):
                assert {hit.content for hit in memory.flow("f").search(f"{sign}{number:x} only")} <= set(STORED)
        assert memory.flow("f").search("shi*", recipe="words").hits == []
        assert memory.flow("f").search("ship NOT ship", recipe="words")[0].content == STORED[0]
    finally:
        memory.flow("g").delete()


def test_stop_words_alone_are_looked_for_as_they_stand(memory: Memory) -> None:
    hits = memory.flow("f").search("to the", recipe="words")
    assert hits[0].content == STORED[0]
    assert memory.flow("f").search("ours", recipe="words").hits == []


@cases("query", ["🎉", '"', "NEAR(", "-", "AND OR NOT", "the of", "\x01\x02", "*", "^", "col:ship"], ids=ascii)
def test_odd_queries_do_not_trouble_any_surface(server: Live, home: Path, query: str) -> None:
    answer = httpx.post(f"{server.url}/v1/flows/f/search", json={"query": query})
    assert answer.status_code == 200, answer.text
    assert {hit["content"] for hit in answer.json()["hits"]} <= set(STORED)
    with server.memory() as memory:
        assert len(memory.flow("f").search(query)) == len(answer.json()["hits"])
    result = run(home, "--flow", "f", "--json", "--", query)
    assert result.exit_code == 0, result.output
    assert len(msgspec.json.decode(result.stdout)["hits"]) == len(answer.json()["hits"])
    assert run(home, "--flow", "f", "--explain", "--", query).exit_code == 0


def test_stored_text_cannot_send_escape_codes_to_the_terminal(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.flow("f").write("evil \x1b[31mred\x1b]0;title\x07 [bold]markup[/bold]")
    printed = run(tmp_path / "home", "--flow", "f", "evil").stdout
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "[bold]markup[/bold]" in printed


def test_a_time_window_without_room_holds_nothing(memory: Memory) -> None:
    for before in (EPOCH, EPOCH - timedelta(days=1)):
        assert memory.flow("f").search("ship", after=EPOCH, before=before).hits == []


def test_times_at_the_edges_of_the_calendar(memory: Memory, server: Live) -> None:
    first, last = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
    assert len(memory.flow("f").search("ship", after=first, before=last, limit=10)) == 3
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        for name in ("after", "before"):
            answer = httpx.post(f"{server.url}/v1/flows/f/search", json={"query": "ship", name: moment})
            assert answer.status_code in (200, 400), answer.text


@cases(
    "call",
    [
        lambda memory: memory.flow("f").search("ship", filter={"a": object()}),
        lambda memory: memory.flow("f").search("ship", filter={"a": {1, 2}}),
        lambda memory: memory.flow("f").search("ship", filter={1: 2}),
        lambda memory: memory.flow("f").search("ship", filter={"a": b"x"}),
        lambda memory: memory.flow("f").search("ship", include=[1]),
        lambda memory: memory.flow("f").search(b"ship"),
        lambda memory: memory.flow("f").search("ship", after="soon"),
        lambda memory: memory.flow("f").search("ship", explain="perhaps"),
        lambda memory: memory.flow("f").search("ship", recipe=5),
        lambda memory: memory.flow("").search("ship"),
        lambda memory: memory.user("a\nb").search("ship"),
        lambda memory: memory.flow("f").why_not("", "ship"),
        lambda memory: memory.flow("f").why_not("x" * 10_000, "ship"),
    ],
    ids=range(13),
)
def test_the_sdk_refuses_the_same_here_and_over_http(memory: Memory, server: Live, call: Callable[[Any], Any]) -> None:
    with server.memory() as there:
        for place in (memory, there):
            with pytest.raises(MemwellError) as raised:
                call(place)
            assert isinstance(raised.value, Invalid | NotFound), raised.value
        intact(there)
    intact(memory)


ODD_KEYS = ['q"uote', "it's", "back\\slash", "", " ", "$", "$x", "ключ", "😀", "a b", "[0]", "%", "key\nline"]


def _odd_metadata(key: str, number: int) -> dict[str, Any]:
    """Metadata in which a filter can address every key: none at the top begins with `$`."""
    return {"inner": {key: number}} | ({} if key.startswith("$") else {key: "here"})


def test_metadata_under_odd_keys_is_searched_and_returned_as_it_is(memory: Memory) -> None:
    flow = memory.flow("odd keys")
    try:
        for number, key in enumerate(ODD_KEYS):
            flow.write(f"entry {number}", metadata=_odd_metadata(key, number))
        for number, key in enumerate(ODD_KEYS):
            found = flow.search("entry", limit=100, filter={f"inner.{key}": number})
            assert [hit.content for hit in found] == [f"entry {number}"], key
            assert found[0].metadata == _odd_metadata(key, number)
            if not key.startswith("$"):
                assert [hit.content for hit in flow.search("entry", limit=100, filter={key: "here"})] == [
                    f"entry {number}"
                ]
    finally:
        flow.delete()


def test_values_that_look_like_patterns_are_only_text(memory: Memory) -> None:
    flow = memory.flow("patterns")
    values = ["^a.*$", "a%", "a_", "[a-z]+", "a*", "(a|b)", "\\d", "a", "' OR 1=1 --", "null", "true", "1", "{}", "[]"]
    try:
        for value in values:
            flow.write("entry", metadata={"v": value})
        for value in values:
            for asked in ({"v": value}, {"v": {"$in": [value]}}, {"v": {"$gte": value, "$lte": value}}):
                hits = flow.search("entry", limit=100, filter=asked)
                assert [hit.metadata for hit in hits] == [{"v": value}]
    finally:
        flow.delete()


def test_an_empty_filter_is_no_filter(memory: Memory) -> None:
    assert [hit.id for hit in memory.flow("f").search("ship", filter={})] == [
        hit.id for hit in memory.flow("f").search("ship")
    ]


@cases(
    "query",
    ["1 may " * 3000, "in may " * 3000, "yesterday " * 6500, "2026-05-01 " * 5900],
    ids=lambda query: query[:10],
)
def test_a_query_of_nothing_but_dates_is_answered_in_time(tmp_path: Path, query: str) -> None:
    """Each date without a year may mean one of a hundred: that must not multiply."""
    with Memory(tmp_path, worker=False) as memory:
        history = memory.flow("f").session("s").history
        history.append(role="user", content="the first", occurred_at=datetime(1920, 5, 1, tzinfo=UTC))
        history.append(role="user", content="the last", occurred_at=datetime(2026, 5, 1, tzinfo=UTC))
        started = time.process_time()
        memory.flow("f").search(query, include=["turns"])
        assert time.process_time() - started < SLOW_S


def test_the_largest_content_is_found(tmp_path: Path) -> None:
    """1 MiB in one entry: its first word, its last, and nothing is cut off by the way."""
    with Memory(tmp_path, worker=False) as memory:
        body = "alphaword " + "filler " * 149_000
        text = body + " omegaword" + "." * (1024 * 1024 - len(body) - 10)
        memory.flow("f").write(text)
        memory.flow("f").write("something else")
        for query in ("alphaword", "omegaword"):
            assert len(memory.flow("f").search(query, limit=1, recipe="words")[0].content) == 1024 * 1024
        memory.flow("g").write("z" * 1024 * 1024)
        assert memory.flow("g").search("anything").hits == []


def test_the_largest_metadata_is_filtered(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        large = {f"k{number}": "v" * 50 for number in range(1000)}
        memory.flow("f").write("entry", metadata=large)
        assert memory.flow("f").search("entry", filter={"k999": "v" * 50})[0].metadata == large
        assert memory.flow("f").search("entry", filter={"k999": "v"}).hits == []
