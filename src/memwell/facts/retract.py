"""What a fact rests on: statements, each a step of a plan whose evidence is all still there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache, reduce
from typing import NamedTuple

from msgspec import structs

from ..core.space import Located, Space
from ..erasure.erase import erase_fact, erase_versions
from ..errors import Conflict
from ..model.collection import TRUST, Place
from ..search import upkeep
from .neighbours import lookup_keys
from .plan import Action, Plan, PlanBody, Step, Target, decode_steps, encode_steps
from .reconcile import combine_confidence
from .rules.wording import quote_speaker
from .store import NOT_ENDED, Ending, FactVersion, end_fact, list_versions, remove_from_plans, revise_fact
from .topics import parse_statement


class FactSource(NamedTuple):
    """A step that tells a fact, and where it stands."""

    plan_id: str
    number: int
    step: Step


class _PlanIndex(NamedTuple):
    """A plan that was read: its steps, and where those stand that tell a fact."""

    steps: PlanBody
    of: dict[str, list[int]]


class FactSources:
    """The statements about the facts of a place, as their plans tell them."""

    def __init__(self, space: Space, place: Place) -> None:
        self._space, self._place = space, place
        self._plan = cache(self._read)
        self._changed: set[str] = set()

    def left(self, fact_id: str) -> list[FactSource]:
        """Those that nothing was taken from, the most trusted and then the earliest first. What remains of others goes."""
        rows = self._space.tx.rows("evidence_keys", fact_id=fact_id)
        there = {(entry_id, start): plan_id for entry_id, start, plan_id in rows}
        plans = sorted({plan_id for plan_id in there.values() if plan_id})
        told = [one for plan_id in plans for one in self._told(plan_id, fact_id)]
        whole = [one for one in told if _evidence_keys(one.step) <= there.keys()]
        needed = {words for one in whole for words in _evidence_keys(one.step)}
        for (entry_id, start), plan_id in there.items():
            if plan_id and (entry_id, start) not in needed:
                self._space.tx.send("delete_evidence", fact_id=fact_id, entry_id=entry_id, first_char=start)
        return sorted(whole, key=_rank)

    def founding(self, fact_id: str, version: FactVersion) -> FactSource | None:
        """The one that a version has its words from, if it has them from one."""
        told = self._told(version.plan_id, fact_id) if version.plan_id else []
        written = [one for one in told if 0 < one.step.version <= version.version]
        return max(written, key=lambda one: one.step.version, default=None)

    def change(self, plan_id: str, number: int, step: Step) -> None:
        """Let a plan tell something else in a step. It is written by `flush`."""
        self._plan(plan_id).steps.steps[number] = step
        self._changed.add(plan_id)

    def flush(self) -> None:
        """Write the plans that were changed, each once."""
        for plan_id in sorted(self._changed):
            self._space.tx.send("set_plan_steps", id=plan_id, steps=encode_steps(self._plan(plan_id).steps))
        self._changed.clear()

    def _told(self, plan_id: str, fact_id: str) -> list[FactSource]:
        plan = self._plan(plan_id)
        return [FactSource(plan_id, number, plan.steps.steps[number]) for number in plan.of.get(fact_id, ())]

    def _read(self, plan_id: str) -> _PlanIndex:
        row = self._space.tx.row("find_plan", collection_id=self._space.found(self._place), id=plan_id)
        steps = PlanBody([]) if row is None else decode_steps(Plan(*row).steps)
        of: dict[str, list[int]] = {}
        for number, step in enumerate(steps.steps):
            if step.id:
                of.setdefault(step.id, []).append(number)
        return _PlanIndex(steps, of)


def _evidence_keys(step: Step) -> set[tuple[str, int]]:
    return {(said.entry, said.start) for said in step.evidence}


def _rank(one: FactSource) -> tuple[int, int, str, int]:
    return -TRUST[one.step.origin], one.step.evidence[0].said_at, one.plan_id, one.number


# -- Taking back what was said. A fact that nothing speaks for any more is withdrawn, and what it had ended is true again; one
# that others tell as well is from now on told in their words.


class _Quote(NamedTuple):
    text: str
    name: str | None
    origin: str
    said_at: int


class Retraction:
    """Facts whose evidence has just become less. `imported`: those that have lost what they were imported with."""

    def __init__(self, space: Space, place: Place, imported: Collection[str] = ()) -> None:
        self._space, self._place, self._imported = space, place, imported
        self._statements = FactSources(space, place)
        self.withdrawn: list[str] = []
        self.reworded: list[str] = []
        self.reopened: list[str] = []

    def settle(self, facts: Iterable[str]) -> None:
        """Decide on each, the newest first, since it may have ended another."""
        known = [fact_id for fact_id in facts if self._space.entry(self._place, fact_id) is not None]
        for fact_id in sorted(known, key=self._told_at, reverse=True):
            located = self._space.entry(self._place, fact_id)
            if located is not None:
                self._decide(located, list_versions(self._space.tx, fact_id)[-1])
        self._statements.flush()

    def _told_at(self, fact_id: str) -> tuple[int, int, int, str]:
        last = list_versions(self._space.tx, fact_id)[-1]
        founding = self._statements.founding(fact_id, last)
        return last.occurred_at, last.valid_from or 0, founding.number if founding else 0, fact_id

    def _decide(self, located: Located, last: FactVersion) -> None:
        fact_id = located.entry.id
        left = self._statements.left(fact_id)
        if last.plan_id is None and fact_id not in self._imported:
            return  # somebody has written it
        quote = None if left else self._quote(fact_id)
        founding = self._statements.founding(fact_id, last)
        corrected = _is_corrected_by_hand(last, founding)
        if (left or quote) and (corrected or founding in left):
            self._doubt(fact_id, last, [] if corrected else left)
        elif left:
            by_hand = founding is not None and founding.step.importance != last.importance
            importance = last.importance if by_hand else left[0].step.importance
            self._reword(
                located, last._replace(importance=importance, confidence=_combined_confidence(left, last)), left[0]
            )
        elif quote is not None:
            self._requote(located, last, quote)
        else:
            self._withdraw(located, last)

    def _doubt(self, fact_id: str, last: FactVersion, left: Sequence[FactSource]) -> None:
        """A fact that fewer tell is as sure as these make it; of one that was corrected, nobody but who did so says."""
        sure = _combined_confidence(left, last)
        if sure != last.confidence:
            self._space.tx.run("set_confidence", id=fact_id, version=last.version, confidence=sure)

    # -- in other words ----------------------------------------------------------------------------------------------

    def _reword(self, located: Located, last: FactVersion, told: FactSource) -> None:
        """Tell a fact as another statement does, which is from now on the one that it is founded on."""
        step = told.step
        following = last._replace(
            content=step.text,
            origin=step.origin,
            subject=step.subject,
            same=step.same,
            topic=step.topic,
            valid_from=step.valid_from if last.valid_to is None else min(step.valid_from, last.valid_to),
            plan_id=told.plan_id,
            occurred_at=max(one.said_at for one in step.evidence),
        )
        ended, later = self._ended_since(located.entry.id, step.valid_from)
        if later and last.kind == "fact":
            following = following._replace(kind="past", valid_to=_valid_from(later[0]), ended_by=later[0].id)
        entry = revise_fact(self._space, self._place, located, following, step.speaker)
        for one in ended:
            self._live(one, Ending("past", step.valid_from, entry.id))
        for one in later:
            self._live(one, NOT_ENDED)
        do: Action = "supersede" if ended else "add"
        targets = [Target(one.id, one.version, 1.0) for one in ended]
        founds = structs.replace(step, do=do, targets=targets, version=entry.version)
        self._statements.change(told.plan_id, told.number, founds)
        self.reworded.append(entry.id)

    def _requote(self, located: Located, last: FactVersion, quote: _Quote) -> None:
        """Tell a fact that was imported in the words of a turn that is left."""
        same, topic = lookup_keys(parse_statement(quote.text, last.subject), last.subject)
        since = quote.said_at if last.valid_to is None else min(quote.said_at, last.valid_to)
        following = last._replace(
            content=quote.text,
            origin=quote.origin,
            same=same,
            topic=topic,
            valid_from=since,
            plan_id=None,
            occurred_at=quote.said_at,
        )
        revise_fact(self._space, self._place, located, following, quote.name)
        self.reworded.append(located.entry.id)

    def _quote(self, fact_id: str) -> _Quote | None:
        """The words of the turn that an imported fact rests on, or of the most trusted of several."""
        found: list[_Quote] = []
        for row in self._space.tx.rows("evidence_of", fact_id=fact_id, now=self._space.now):
            _, start, stop, origin, said_at, _, _, content, role, name, _ = row
            words = (content or "")[start:stop]
            if words.strip():
                found.append(_Quote(quote_speaker(words, name or f"The {role or 'user'}"), name, origin, said_at))
        return max(found, key=lambda one: (TRUST.get(one.origin, 0), -one.said_at), default=None)

    # -- no longer known -----------------------------------------------------------------------------------------------

    def _withdraw(self, located: Located, last: FactVersion) -> None:
        """Retire a fact. What it had ended is true again: still, or, if it was itself over, until then."""
        tx, entry = self._space.tx, located.entry
        upkeep.retire(tx, tx.rows("retire_entry", id=entry.id, version=entry.version, now=self._space.now))
        self._space.touch(self._space.collection(self._place)[0], located.address_id)
        self.withdrawn.append(entry.id)
        self.release(entry.id, last)

    def release(self, fact_id: str, last: FactVersion) -> None:
        """Let what a fact has ended go on. What was told late, and was over because of it, takes its place."""
        after = Ending("past", last.valid_to, last.ended_by) if last.kind == "past" else NOT_ENDED
        over = sorted(self._over_by(fact_id), key=_valid_from)
        for number, one in enumerate(over):
            late = [other for other in over[number + 1 :] if other.late and _valid_from(other) > _valid_from(one)]
            self._live(one, Ending("past", _valid_from(late[0]), late[0].id) if late else after)

    def _ended_since(self, fact_id: str, since: int) -> tuple[list[_EndedFact], list[_EndedFact]]:
        """What a fact has ended that was true before a moment, and what only became true later, which it cannot have."""
        over = sorted(self._over_by(fact_id), key=_valid_from)
        return [one for one in over if _valid_from(one) <= since], [one for one in over if _valid_from(one) > since]

    def _over_by(self, fact_id: str) -> list[_EndedFact]:
        rows = self._space.tx.rows("facts_ended_by", id=fact_id)
        found = [(row[0], list_versions(self._space.tx, row[0])) for row in rows]
        return [_EndedFact(one, known[-1].version, known[-1], known[0].kind == "past") for one, known in found]

    def _live(self, over: _EndedFact, life: Ending) -> None:
        located = self._space.entry(self._place, over.id)
        if located is not None:
            self.reopened.append(end_fact(self._space, self._place, located, life).id)


class _EndedFact(NamedTuple):
    """A fact that is over because of another one; `late` if it was so when it was first told."""

    id: str
    version: int
    row: FactVersion
    late: bool


def _valid_from(over: _EndedFact) -> int:
    return over.row.occurred_at if over.row.valid_from is None else over.row.valid_from


def _combined_confidence(left: Sequence[FactSource], last: FactVersion) -> float | None:
    """How sure some statements make a fact together."""
    own = [one.step.own for one in left if one.step.own]
    return reduce(combine_confidence, own) if own else last.confidence


def _is_corrected_by_hand(row: FactVersion, founding: FactSource | None) -> bool:
    """Whether a version has its words from somebody who corrected it by hand, and not from a statement."""
    told = founding is not None and founding.step.text == row.content
    return row.origin == "system" and row.version > 1 and not told


# -- Taking a source away from the facts that rest on it: revoked, so that it speaks for nothing, or erased with its words.


class RetractionResult(NamedTuple):
    """The facts that are withdrawn, and how many others have lost evidence."""

    withdrawn: list[str]
    weakened: int


def revoke_source(
    space: Space, place: Place, *, address_id: int | None = None, entry_id: str | None = None
) -> RetractionResult:
    """Take away what a session or an entry has said from the facts of a place. Those that are based on nothing else are
    withdrawn, and what these had ended is current again; the others are told in the words of who else says so."""
    _skip_unconsolidated(space, address_id, entry_id)
    named = {"address_id": address_id} if address_id is not None else {"entry_id": entry_id}
    what = "address" if address_id is not None else "entry"
    rows = space.tx.rows(f"facts_from_{what}", **named) if space.found(place) is not None else []
    found = {fact_id: plan_id for fact_id, plan_id in rows if space.entry(place, fact_id) is not None}
    for fact_id in found:
        space.tx.send(f"revoke_{what}", fact_id=fact_id, **named)
    imported = {fact_id for fact_id, plan_id in found.items() if not plan_id}
    unsaying = Retraction(space, place, imported)
    unsaying.settle(found)
    _erase_imported(space, unsaying, imported)
    return RetractionResult(unsaying.withdrawn, len(found) - len(unsaying.withdrawn))


def _skip_unconsolidated(space: Space, address_id: int | None, entry_id: str | None) -> None:
    """Whatever a revoked session has said so far is not distilled later on, either, and its notes are only turns."""
    if address_id is not None:
        row = space.tx.row("distilled_address", id=address_id)
        if row is not None:
            space.tx.send("set_distilled", id=address_id, upto=row[1])
            upkeep.changed(space.tx, space.tx.rows("settle_all_notes", address_id=address_id))
        return
    row = space.tx.row("undistilled_entry", id=entry_id)
    if row is not None:
        raise Conflict(
            "This turn is not distilled yet: end its session or consolidate it first, or revoke the whole session."
        )


def _erase_imported(space: Space, unsaying: Retraction, imported: set[str]) -> None:
    """No plan remembers whose words an imported fact was told in, so that they cannot be found again when those are erased:
    they go at once."""
    for fact_id in imported.intersection(unsaying.withdrawn):
        erase_fact(space.tx, fact_id, space.now)
    for fact_id in imported.intersection(unsaying.reworded):
        erase_versions(space.tx, fact_id, [row.version for row in list_versions(space.tx, fact_id)[:-1]])


def release_fact(space: Space, place: Place, fact_id: str) -> None:
    """Before a fact is erased: what it had ended is true again, and no plan speaks of it any more."""
    Retraction(space, place).release(fact_id, list_versions(space.tx, fact_id)[-1])
    remove_from_plans(space.tx, space.collection(place)[0], fact_id)


def forget_session(space: Space, place: Place, address_id: int) -> int:
    """Erase what is known from a session alone, and the words that it has told other facts in. Returns how many facts went."""
    plans = {
        plan_id: decode_steps(steps).steps
        for plan_id, steps in space.tx.rows("plans_of_address", address_id=address_id)
    }
    told = {step.id for steps in plans.values() for step in steps if step.id}
    gone = set(revoke_source(space, place, address_id=address_id).withdrawn)
    for fact_id in sorted(told - gone):
        known = list_versions(space.tx, fact_id)
        worded = [row.version for row in known if row.plan_id in plans and row.retired_at is not None]
        if worded and len(worded) == len(known):
            gone.add(fact_id)
        elif worded:
            erase_versions(space.tx, fact_id, worded)
    for fact_id in sorted(gone):
        erase_fact(space.tx, fact_id, space.now)
    return len(gone)
