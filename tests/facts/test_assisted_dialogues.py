"""Dialogues with an assistant: support, code, health, travel, data, irony, small talk, and other languages.

`assisted.json` has the turns of each, the facts worth remembering as patterns that one fact must match together, and patterns of
what must not become a fact.
"""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from memwell.facts.datatypes import Candidate, Turn
from memwell.facts.rules.extractor import extract

from ..cases import cases

pytestmark = pytest.mark.engines()

DIALOGUES = json.loads((Path(__file__).parent / "dialogues/assisted.json").read_text(encoding="utf-8"))
DAY = date(2025, 3, 3)
ENOUGH = 0.95
MAX_USELESS = 0.08
MAX_QUOTED = 0.35


def extracted(dialogue: dict[str, Any]) -> list[Candidate]:
    name = dialogue["speaker"]
    speakers = {"user": name or "The user", "assistant": "The assistant"}
    turns = [
        Turn(str(number), role, speakers[role], text, DAY, known=bool(name) and role == "user")
        for number, (role, text) in enumerate(dialogue["turns"])
    ]
    return extract(turns)


def states(text: str, patterns: list[str]) -> bool:
    return all(re.search(pattern, text) for pattern in patterns)


@cases("dialogue", DIALOGUES, ids=lambda dialogue: dialogue["name"])
def test_no_junk_becomes_a_fact(dialogue: dict[str, Any]) -> None:
    found = [fact.text for fact in extracted(dialogue)]
    assert [text for text in found for pattern in dialogue["junk"] if re.search(pattern, text)] == []


def test_what_is_worth_remembering_is_kept_in_clean_words() -> None:
    wanted, missed, useless, facts = 0, [], [], list[str]()
    for dialogue in DIALOGUES:
        texts = [fact.text for fact in extracted(dialogue)]
        facts += texts
        wanted += len(dialogue["facts"])
        missed += [one for one, keys in dialogue["facts"].items() if not any(states(text, keys) for text in texts)]
        useless += [text for text in texts if not any(states(text, keys) for keys in dialogue["facts"].values())]
    print(missed, useless)
    assert len(missed) <= (1 - ENOUGH) * wanted, missed
    assert len(useless) <= MAX_USELESS * len(facts), useless
    assert sum(' said: "' in text for text in facts) <= MAX_QUOTED * len(facts)
    assert not any(" and others" in text for text in facts)
