"""What a context recalls: facts and turns that fit a query, each thing once.

A fact and the turns that it was made of say the same. The fact is shown if it says nearly all of the turn, otherwise the turn.
Both are shown if the fact says something that the turn does not. The score of the one that is shown counts the other one, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from datetime import date
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple, cast

from ..clock import to_datetime
from ..core.dispatch import Call
from ..core.space import Space
from ..core.time_travel import FactLife, Moments, list_entries_at, list_facts_at, list_facts_in
from ..core.turns import find_foreign_origin, list_newest
from ..facts.search import FACTS, query_text
from ..model.collection import TRUST, Entry, Place
from ..model.fields import to_instant
from ..model.filter import Query, Where
from ..screening.screen import ORDER, find_suspicion, is_trusted
from ..screening.secrets import find_secret_in_fact, list_answered
from ..search.people import remove_subject
from ..timelines.sessions import NEWEST

if TYPE_CHECKING:
    from ..model.collection import Origin
    from ..search.search_engine import Hit
    from .contexts import ContextRequest

FACT_HITS, TURN_HITS = 60, 100
"""Number of candidates; the budget decides how many are used."""
LEAST = 0.003
"""The lowest score of a candidate. Room that is left over may go to less likely entries than those of a search."""
ALL = 40
"""Number of facts without a query."""
IMPORTANT, LATEST, VITAL = 3, 200, 0.85
"""The number of vital facts that are added to the hits of a query, of the newest facts to choose them from, and the least
importance of a vital fact."""
ENOUGH = 0.7
"""The share of a turn's words that a fact must have to stand for it."""
NEWS = 0.4
"""The share of a fact's words that must be new beside its turn, so that both are shown."""
SUPPORT = 0.4
"""The part of the gap to 1 that a fact's score adds to its turn's, and the other way around."""

_WORD = re.compile(r"[^\W_]{3,}")


class Places(NamedTuple):
    """The parts of memory that a context recalls from."""

    facts: Sequence[Where]
    notes: Where | None
    turns: Where


class Recalled(NamedTuple):
    """A fact or a turn that a search found, with the least trusted origin that it comes from and the day it was said."""

    id: str
    what: str
    text: str
    score: float
    origin: str
    day: date
    speaker: str = ""
    place: int = 0

    @property
    def group(self) -> str:
        """The origin that its fence names. Trusted entries share one fence without an origin."""
        return "" if is_trusted(self.origin) else self.origin if self.origin in ORDER else "unknown"


class Recollection(NamedTuple):
    """What was recalled, and what was left out: `fact` or `turn`, its id, and the reason."""

    entries: list[Recalled]
    left_out: list[tuple[str, str, str]]


def recall(call: Call, request: ContextRequest, places: Places, shown: Collection[str]) -> Recollection:
    """Recall what fits the query, or the most important facts without one. `shown` are the ids of turns that are shown anyway."""
    found = call.read(lambda space: _list_important(space, places, request))
    if request.query is None:
        return _screen_facts([one for one in found if one.id not in shown])
    facts = _search(call, request, [*places.facts, *([places.notes] if places.notes else [])], FACT_HITS)
    turns = [hit for hit in _search(call, request, [places.turns], TURN_HITS) if hit.entry.kind == "turn"]
    known = {one.id: one for one in found} | {hit.entry.id: _to_recalled(hit, "fact") for hit in facts}
    checked = _screen_facts([one for one in known.values() if one.id not in shown])
    others, past = [hit for hit in turns if hit.entry.id not in shown], request.as_of is not None
    return call.read(lambda space: _merge(space, places, checked, others, past=past))


def _search(call: Call, request: ContextRequest, where: Sequence[Where], limit: int) -> list[Hit]:
    query = Query(
        text=query_text(request.query or ""),
        where=tuple(where),
        limit=limit,
        min_score=LEAST,
        as_of=to_instant(request.as_of, "as_of"),
        min_trust=request.min_trust,
    )
    return call.engine.search(call.principal, query).hits


def _to_recalled(hit: Hit, what: str) -> Recalled:
    entry = hit.entry
    text = entry.content if hit.passage is None else hit.passage.text
    day = to_datetime(entry.occurred_at).date()
    if what == "fact":
        return Recalled(entry.id, what, text, hit.score, entry.origin, day, "", entry.seq)
    role = find_foreign_origin(entry) or entry.role or "user"
    speaker = entry.name or role
    return Recalled(entry.id, what, text, hit.score, "user" if role == "user" else role, day, speaker, entry.seq)


def _screen_facts(facts: Sequence[Recalled]) -> Recollection:
    secret = {one.id for one in facts if find_secret_in_fact(one.text)}
    return Recollection(
        [one for one in facts if one.id not in secret], [("fact", entry_id, "secret") for entry_id in secret]
    )


def _merge(space: Space, places: Places, facts: Recollection, turns: Sequence[Hit], *, past: bool) -> Recollection:
    """Choose between facts and the turns that they were made of. For a moment in the `past` both are shown, because evidence has
    no history."""
    chosen = {one.id: one for one in facts.entries}
    left_out = list(facts.left_out)
    for hit in turns:
        turn = _to_recalled(hit, "turn")
        reason = _find_objection(space, places.turns.place, hit)
        kinds: dict[str, str] = {} if past else dict(space.tx.rows("facts_of_turn", entry_id=turn.id))
        if reason is None and "held" in kinds.values():
            reason = "held"
        elif reason is None and kinds and "fact" not in kinds.values():
            reason = "outdated"
        if reason is not None:
            left_out.append(("turn", turn.id, reason))
            continue
        own = [chosen[fact] for fact in kinds if fact in chosen]
        words = _list_words(turn.text)
        standing = max(own, key=lambda one: len(words & _list_words(one.text)), default=None)
        if standing is not None and len(words & _list_words(standing.text)) >= ENOUGH * len(words):
            chosen[standing.id] = standing._replace(score=_support(standing.score, turn.score))
            left_out.append(("turn", turn.id, "repeated"))
            continue
        for one in own:
            turn = turn._replace(score=_support(turn.score, one.score))
            fresh = _list_words(remove_subject(one.text))
            if len(fresh - words) < NEWS * len(fresh):
                del chosen[one.id]
                left_out.append(("fact", one.id, "repeated"))
        chosen[turn.id] = turn
    return Recollection(list(chosen.values()), left_out)


def _find_objection(space: Space, place: Place, hit: Hit) -> str | None:
    """Return the reason why a turn must not be shown: it tells a secret, or looks like a planted instruction."""
    entry = hit.entry
    address = space.address(place, hit.path)
    before = space.after(address, entry.seq - 2, 1) if address is not None and entry.seq > 1 else []
    if list_answered(before[0].content if before else "", entry.content):
        return "secret"
    found = find_suspicion(entry.content if hit.passage is None else hit.passage.text, cast("Origin", entry.origin))
    if found is None:
        return None
    return "secret" if found.reason == "secret" else "held"


def _list_words(text: str) -> frozenset[str]:
    """The beginnings of the words of a text, so that forms of one word are the same."""
    return frozenset(word[:6] for word in _WORD.findall(text.lower()))


def _support(score: float, other: float) -> float:
    return score + (1.0 - score) * SUPPORT * other


# -- important facts


def _list_important(space: Space, places: Places, request: ContextRequest) -> list[Recalled]:
    """Return the most important of the newest facts. Beside a query, only vital ones are added."""
    least = None if request.min_trust is None else TRUST[request.min_trust]
    known = [
        entry for entry in _list_latest(space, places.facts, request) if least is None or TRUST[entry.origin] >= least
    ]
    known.sort(key=lambda entry: (-(entry.importance or 0.0), entry.id))
    if request.query is None:
        return [_to_important(entry, entry.importance or 0.0) for entry in known[:ALL]]
    vital = [entry for entry in known if (entry.importance or 0.0) >= VITAL]
    return [_to_important(entry, 0.0) for entry in vital[:IMPORTANT]]


def _to_important(entry: Entry, score: float) -> Recalled:
    return Recalled(
        entry.id, "fact", entry.content, score, entry.origin, to_datetime(entry.occurred_at).date(), "", entry.seq
    )


def _list_latest(space: Space, facts: Sequence[Where], request: ContextRequest) -> list[Entry]:
    """Return the newest facts of each part of memory."""
    places = [(one.place, one.path) for one in facts if one.kinds == FACTS]
    if request.as_of is None:
        found = [entry for place, path in places for entry in _newest_in(space, place, path)]
        return [entry for entry in found if entry.kind == "fact"]
    at = Moments(as_of=to_instant(request.as_of, "as_of"))
    lives = [one for place, path in places for one in nlargest(LATEST, _list_lives(space, place, path, at), key=_age)]
    return [entry for entry, _ in list_entries_at(space, lives)]


def _newest_in(space: Space, place: Place, path: str | None) -> list[Entry]:
    if path is None:
        return [entry for _, entry, _ in list_newest(space, place, None, [NEWEST] * 3, LATEST)]
    address = space.address(place, path)
    return [] if address is None else space.last(address, LATEST)


def _list_lives(space: Space, place: Place, path: str | None, at: Moments) -> Iterator[FactLife]:
    if path is None:
        return (one for _, one in list_facts_in(space, place, at))
    address = space.address(place, path)
    return iter(()) if address is None else list_facts_at(space, address, at)


def _age(life: FactLife) -> tuple[int, int]:
    return life.known_from, life.docid
