"""Recalled memory that is repeated in a conversation makes no new facts."""

from __future__ import annotations

from pathlib import Path

from ..engines import Memory

FACTS = (
    "I live in Lisbon.",
    "I am allergic to peanuts.",
    "My sister Ana works at Acme.",
    "I have two cats.",
    "I prefer window seats.",
)
TURNS = 1000


def test_a_thousand_turns_that_repeat_what_is_known_add_nothing(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("support")
        for text in FACTS:
            flow.session("first").history.append(role="user", name="Alice", content=text)
        flow.consolidate("first")
        known = [fact.content for fact in flow.memories()]
        assert len(known) == len(FACTS)
        context = flow.context("everything about Alice", budget=2000).text
        echoes = [
            *({"role": "assistant", "content": f"As you told me: {fact}"} for fact in known),
            *({"role": "assistant", "content": f"I remember that {fact}"} for fact in known),
            *({"role": "user", "name": "Alice", "content": text} for text in FACTS),
            {"role": "user", "name": "Alice", "content": f"{context}\nWhat do you know about me?"},
            {"role": "tool", "tool_name": "search_memory", "content": "\n".join(known)},
        ]
        said = [echoes[number % len(echoes)] for number in range(TURNS)]
        for at in range(0, TURNS, 500):
            flow.session("second").history.extend(said[at : at + 500])
        while flow.consolidate("second") is not None:
            pass
        assert [fact.content for fact in flow.memories()] == known
        assert flow.held() == []
