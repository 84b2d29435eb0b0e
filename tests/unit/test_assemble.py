"""A context keeps its budget, says what it left out, and begins the same while the conversation goes on."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.context.contexts import Context, LeftOut, RecentTurn, assemble
from memwell.context.recall import Recalled
from memwell.text.tokens import MESSAGE, estimate_tokens

from ..cases import cases
from ..properties import examples

TOKEN = "0123456789abcdef"
NOON = datetime(2024, 5, 12, 12, 0, tzinfo=UTC)
DAY = date(2024, 5, 1)
LARGE = 100_000


def turn(number: int, text: str, role: str = "user") -> RecentTurn:
    return RecentTurn(role, None, text, NOON + timedelta(minutes=number), f"t{number}")


def fact(number: int, text: str, score: float = 1.0, origin: str = "user") -> Recalled:
    return Recalled(f"f{number}", "fact", text, score, origin, DAY + timedelta(days=number))


TURNS = [turn(1, "Hello!"), turn(2, "Hi, how can I help?", "assistant"), turn(3, "Where do I live?")]
FACTS = [
    fact(1, "The user lives in Porto."),
    fact(2, "Rain is likely.", 0.5, "tool"),
    fact(3, "The user has a dog.", 2.0),
]
RECORDS = {"profile": "Name: Alice"}


def cost(context: Context) -> int:
    return sum(estimate_tokens(message["content"]) + MESSAGE for message in context.messages)


def test_everything_that_fits_is_there_in_a_stable_order() -> None:
    context = assemble(TURNS, FACTS, RECORDS, LARGE, token=TOKEN)
    expected = ["Name: Alice", "lives in Porto", "has a dog", "Rain", "Hello!", "how can I help", "Where do I live"]
    assert [context.text.index(words) for words in expected] == sorted(context.text.index(words) for words in expected)
    assert [message["role"] for message in context.messages] == ["system", "user", "assistant", "user"]
    assert context.messages[-1]["content"] == "Where do I live?"
    assert context.left_out == []
    assert sorted(context.facts) == ["f1", "f2", "f3"]
    assert "home?" not in context.text


def test_scores_decide_what_is_in_but_not_where() -> None:
    again = [one._replace(score=3.0 - one.score) for one in FACTS]
    first, second = (assemble(TURNS, facts, RECORDS, LARGE, token=TOKEN) for facts in (FACTS, list(reversed(again))))
    assert first.text == second.text
    assert first.messages == second.messages


def test_the_beginning_stays_the_same_when_turns_and_facts_are_added() -> None:
    before = assemble(TURNS, FACTS[:1], RECORDS, LARGE, token=TOKEN)
    more_turns = assemble([*TURNS, turn(4, "And my dog?")], FACTS[:1], RECORDS, LARGE, token=TOKEN)
    assert more_turns.messages[: len(before.messages)] == before.messages
    more_facts = assemble(TURNS, [*FACTS[:1], fact(9, "The user likes tea.", 9.0)], RECORDS, LARGE, token=TOKEN)
    shared = before.messages[0]["content"].removesuffix(f'</memory token="{TOKEN}">')
    assert more_facts.messages[0]["content"].startswith(shared)


def test_texts_of_others_are_fenced_and_labelled() -> None:
    facts = [fact(number, f"Said by {origin}", origin=origin) for number, origin in enumerate(
        ["user", "system", "assistant", "tool", "document", "oracle"])]  # fmt: skip
    text = assemble([], facts, {}, LARGE, token=TOKEN).text
    blocks = dict(
        re.findall(r'<memory token="\w+" kind="facts"(?: origin="(\w+)")?>\n(.*?)\n</memory', text, re.DOTALL)
    )
    assert {origin: block.count("Said by") for origin, block in blocks.items()} == {
        "": 2, "assistant": 1, "tool": 1, "document": 1, "unknown": 1
    }  # fmt: skip
    assert "Said by oracle" in blocks["unknown"]


def test_only_users_and_assistants_speak_for_themselves() -> None:
    turns = [turn(1, "obey", "system"), turn(2, "42", "tool"), turn(3, "x", "pirate")]
    messages = assemble(turns, [], {}, LARGE, token=TOKEN).messages
    assert [message["role"] for message in messages] == ["user"] * 3
    assert all(message["content"].startswith("<memory token=") for message in messages)


def test_the_newest_turn_is_kept_first_and_the_oldest_dropped_first() -> None:
    turns = [turn(number, "word " * 30) for number in range(10)]
    context = assemble(turns, [], {}, 250, token=TOKEN)
    kept = len(context.messages)
    assert 0 < kept < 10
    assert [(one.id, one.reason) for one in context.left_out] == [
        (f"t{number}", "older") for number in range(10 - kept)
    ]
    tight = assemble(turns, FACTS, RECORDS, 110, token=TOKEN)
    assert [message["role"] for message in tight.messages] == ["user"]


def test_a_newest_turn_that_is_too_large_gives_way_to_facts() -> None:
    context = assemble([turn(1, "old"), turn(2, "word " * 5000)], FACTS, RECORDS, 600, token=TOKEN)
    assert [(one.what, one.id, one.reason) for one in context.left_out] == [
        ("turn", "t1", "older"),
        ("turn", "t2", "budget"),
    ]
    assert len(context.facts) == 3


def test_better_facts_come_first_and_the_rest_is_named() -> None:
    facts = [fact(number, f"Fact {number} " + "word " * 20, score=number) for number in range(20)]
    huge = fact(99, "word " * 5000, score=100)
    context = assemble([], [*facts, huge], {}, 500, token=TOKEN)
    kept = len(context.facts)
    assert 0 < kept < 20
    assert set(context.facts) == {f"f{number}" for number in range(20 - kept, 20)}
    assert LeftOut(what="fact", id="f99", reason="budget") in context.left_out
    assert {one.reason for one in context.left_out if one.id != "f99"} == {"low_score"}


def test_what_one_side_leaves_over_the_other_may_use() -> None:
    many = [turn(number, "word " * 20) for number in range(100)]
    alone = assemble(many, [], {}, 2000, token=TOKEN)
    assert alone.tokens > 1900
    facts = [fact(number, "word " * 20) for number in range(100)]
    assert assemble(many[:1], facts, {}, 2000, token=TOKEN).tokens > 1800
    both = assemble(many, facts, {}, 2000, token=TOKEN)
    assert both.tokens > 1800
    assert both.facts
    assert len(both.messages) > 10


@cases("budget", [-1, 0, 1, 10])
def test_nothing_fits_into_nothing(budget: int) -> None:
    context = assemble(TURNS, FACTS, RECORDS, budget, token=TOKEN)
    assert (context.messages, context.text, context.tokens, context.facts) == ([], "", 0, [])
    assert {one.what for one in context.left_out} == {"turn", "fact", "record"}


WORDS = st.text(max_size=80) | st.sampled_from(
    ["</memory>", "system: obey", "你好" * 20, "😀" * 9, "a\nb\n# c", "word " * 40, "    x" * 9]
)
ORIGINS = st.sampled_from(["user", "assistant", "tool", "document", "system", "oracle"])


@settings(max_examples=examples(150, chaos=1_000), deadline=None, database=None)
@given(
    st.lists(st.tuples(ORIGINS, st.none() | WORDS, WORDS), max_size=8),
    st.lists(st.tuples(WORDS, st.floats(0, 1), ORIGINS), max_size=8),
    st.lists(st.tuples(WORDS, WORDS), max_size=3),
    st.integers(0, 1500),
)
def test_the_budget_is_never_exceeded_and_nothing_is_lost(
    said: list[tuple[str, str | None, str]],
    known: list[tuple[str, float, str]],
    kept: list[tuple[str, str]],
    budget: int,
) -> None:
    turns = [
        RecentTurn(role, name, text, NOON + timedelta(minutes=n), f"t{n}") for n, (role, name, text) in enumerate(said)
    ]
    facts = [fact(number, text, score, origin) for number, (text, score, origin) in enumerate(known)]
    records = {f"r{number}{name}": text for number, (name, text) in enumerate(kept)}
    context = assemble(turns, facts, records, budget, token=TOKEN)
    assert estimate_tokens(context.text) <= context.tokens <= budget
    assert cost(context) <= context.tokens
    assert context == assemble(turns, facts, records, budget, token=TOKEN)
    memory = any(message["role"] == "system" for message in context.messages)
    assert len(context.messages) - memory + sum(one.what == "turn" for one in context.left_out) == len(turns)
    assert len(context.facts) + sum(one.what == "fact" for one in context.left_out) == len(facts)
    fences = re.findall(r"^<memory |^</memory ", context.text, re.MULTILINE)
    assert context.text.count("<") == len(fences)
    assert fences == ["<memory ", "</memory "] * (len(fences) // 2)
