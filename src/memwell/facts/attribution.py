"""Attribution: rules and statements about the world are kept as claims of the person who made them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..model.collection import Entry
from ..screening.claims import asks_to_remember, is_claim
from .datatypes import NOT_PEOPLE, Candidate, Turn

MAX_CONFIDENCE = 0.5
"""The confidence in a claim: it is sure only that somebody made it."""
_ATTRIBUTED = re.compile(
    r'[^"“:]{1,120}\b(?:said|says|wants?|wrote|asked|asks|claims?|corrected|forwarded|quoted)\b[^"“]{0,20}: |according to ',
    re.IGNORECASE,
)


def attribute_claims(
    turns: Sequence[Turn], entries: Mapping[str, Entry], candidates: Sequence[Candidate], *, shared: bool
) -> list[Candidate]:
    """Return the candidates, with the name of the speaker before what is only a claim.

    `shared`: the facts are those of a flow, where all users read what one of them wants to be remembered.
    """
    by_id = {turn.id: turn for turn in turns}
    asking = {turn.id: shared and asks_to_remember(turn.text) for turn in turns}
    attributed = []
    for one in candidates:
        turn = by_id.get(one.sources[0].id)
        if turn is None or turn.role in NOT_PEOPLE or entries[turn.id].origin != "user" or _is_request(one):
            attributed.append(one)
            continue
        words = turn.text[one.sources[0].start : one.sources[0].end]
        claims = not _ATTRIBUTED.match(one.text) and is_claim(words, asking[turn.id])
        attributed.append(_attribute(one, turn, words) if claims else one)
    return attributed


def _is_request(candidate: Candidate) -> bool:
    """Return True for what somebody wants of the assistant, which says nothing about the world."""
    return candidate.kind == "instruction" and ("the assistant" in candidate.text or '"' in candidate.text)


def _attribute(candidate: Candidate, turn: Turn, words: str) -> Candidate:
    personal = turn.speaker.lower() in candidate.text.lower()
    text = f'{turn.speaker} claims: "{words.strip()}"' if personal else f"{turn.speaker} claims: {candidate.text}"
    return candidate._replace(
        text=text,
        subject=turn.speaker if turn.known else None,
        kind="statement",
        confidence=min(candidate.confidence, MAX_CONFIDENCE),
    )
