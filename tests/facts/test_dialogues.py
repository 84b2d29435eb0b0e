"""Dialogues, written before the code, of facts told again, of facts that retire others, and of those that only look so.

`-s` prints what went wrong. Each dialogue is run three times: with facts worded by hand, so that reconciliation alone is
judged; through the extractor, where every turn is given to be remembered; and as people talk, where it also has to choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import pytest

from memwell.facts.datatypes import Candidate
from memwell.facts.rules.extractor import extract

from ..cases import cases
from .dialogue import Dialogue, Extract, Fact, Line, dialogues, judged, remember, worded_by_hand, wrong

pytestmark = pytest.mark.engines()

ENOUGH = 0.9
GROUPS = {"retold": 30, "superseded": 20, "lookalikes": 20}


def noted(turns: Sequence[Line]) -> Iterable[Candidate]:
    """What the extractor makes of the turns, where each is given to be remembered."""
    return extract([turn.said._replace(note=turn.said.role == "user") for turn in turns])


def heard(turns: Sequence[Line]) -> Iterable[Candidate]:
    """What the extractor makes of the turns as they were said."""
    return extract([turn.said for turn in turns])


def named(group: str, name: str) -> Dialogue:
    return next(dialogue for dialogue in dialogues(group) if dialogue.name == name)


@pytest.mark.parametrize(("group", "number"), GROUPS.items())
def test_there_are_as_many_dialogues_as_promised(group: str, number: int) -> None:
    told = dialogues(group)
    assert len({dialogue.name for dialogue in told}) == number
    for dialogue in told:
        expected = {*dialogue.past, *dialogue.current, *chain(*dialogue.same, *dialogue.apart)}
        assert expected <= {turn.said.id for session in dialogue.sessions for turn in session if turn.fact}


@cases("extraction", [worded_by_hand, noted, heard])
@cases("group", GROUPS)
def test_dialogues_come_out_right(group: str, extraction: Extract) -> None:
    share, account = judged(group, extraction)
    print(account)
    assert share >= ENOUGH, account


def test_what_one_says_never_touches_what_another_said() -> None:
    facts = remember(named("superseded", "moved to Porto"), worded_by_hand)
    bob = [fact for fact in facts if fact.subject == "Bob"]
    assert [(fact.text, fact.past, fact.evidence) for fact in bob] == [("Bob lives in Porto.", False, {"2"})]


def test_a_repeated_fact_has_a_higher_confidence() -> None:
    (fact,) = remember(named("retold", "learning Japanese, told three times"), worded_by_hand)
    assert fact.evidence == {"1", "3", "5"}
    assert 0.8 < fact.confidence < 1


def test_the_judge_sees_what_is_wrong() -> None:
    """A memory that keeps every statement fails where there should be one fact, and where one should be past."""
    for group, right in (("retold", False), ("superseded", False), ("lookalikes", True)):
        for dialogue in dialogues(group):
            apart = [_only(dialogue, n) for n in range(len(list(_candidates(dialogue))))]
            assert (wrong(dialogue, apart) is None) is right, dialogue.name


def _candidates(dialogue: Dialogue) -> Iterable[Candidate]:
    return (candidate for session in dialogue.sessions for candidate in worded_by_hand(session))


def _only(dialogue: Dialogue, number: int) -> Fact:
    candidate = list(_candidates(dialogue))[number]
    day = dialogue.sessions[0][0].said.day
    return Fact(str(number), candidate.text, candidate.subject, day, 0.8, {candidate.sources[0].id})
