"""Statements that differ in a word that counts are never merged, in whatever language: a memory inverts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import permutations

import pytest

from memwell.facts.datatypes import Candidate, KnownFact
from memwell.facts.reconcile import reconcile

from ..cases import cases
from .dialogue import FOLDER

pytestmark = pytest.mark.engines()

DAY, LATER = date(2025, 3, 1), date(2025, 9, 1)


def read_templates() -> dict[str, list[tuple[str, list[str]]]]:
    templates: dict[str, list[tuple[str, list[str]]]] = {}
    for line in (FOLDER / "opposites.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            language = templates[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            template, _, words = line.partition(" = ")
            language.append((template, words.split("|")))
    return templates


TEMPLATES = read_templates()


def opposites() -> Iterator[tuple[str, str, str]]:
    for language, templates in TEMPLATES.items():
        for template, words in templates:
            for old, new in permutations([" ".join(template.format(word).split()) for word in words], 2):
                yield language, old, new


def wordings(old: str, new: str) -> Iterator[tuple[str, str, str | None]]:
    """The same pair as plain statements and as quotations, about a person with and without a name, and about nobody."""
    yield old, new, "Alice"
    yield old, new, None
    yield old, new, "The user of monday"
    yield f'Alice said: "{old}"', f'Alice said: "{new}"', "Alice"
    yield f'The user said: "{old}"', f'The user said: "{new}"', "The user of monday"


def decide(old: str, new: str, subject: str | None) -> str:
    known = KnownFact("old", old, subject, DAY, similarity=1.0)
    return reconcile(Candidate(new, subject, "statement", (), 0.5, 0.8), [known], LATER).do


def test_there_are_eleven_languages_and_many_pairs() -> None:
    assert len(TEMPLATES) == 11
    assert sum(1 for _ in opposites()) > 2_500


@cases("language", TEMPLATES)
def test_no_two_statements_that_differ_are_merged(language: str) -> None:
    merged = {
        (one, two)
        for spoken, old, new in opposites()
        if spoken == language
        for one, two, subject in wordings(old, new)
        if decide(one, two, subject) == "merge"
    }
    assert not merged, sorted(merged)[:20]


@cases("language", TEMPLATES)
def test_the_same_statement_is_merged_in_every_language(language: str) -> None:
    """The control: otherwise a memory that adds everything would pass."""
    for template, words in TEMPLATES[language]:
        text = template.format(words[1])
        for old, new, subject in wordings(text, text.rstrip(".。") + "!"):
            assert decide(old, new, subject) == "merge", (old, new, subject)
