"""Remove a source from the evidence of facts, and forget a session.

The sources of a fact are the plan steps that state it and whose evidence still exists. If the last source of a fact is removed,
the fact is withdrawn, and the facts that it ended are current again. A fact with other sources takes the wording of one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, reduce
from typing import NamedTuple

from msgspec import structs

from ..core.space import Located, Space
from ..erasure.erase import erase_fact, erase_versions
from ..errors import Conflict
from ..model.collection import TRUST, Place
from ..search import upkeep
from .datatypes import Action, PlanBody, Step, StoredPlan, Target, decode_steps, encode_steps
from .fact_rows import NOT_ENDED, Ending, FactVersion, end_fact, list_versions, remove_from_plans, revise_fact
from .reconcile import combine_confidence
from .rules.phrase import quote_speaker
from .wording import lookup_keys, parse_statement


class FactSource(NamedTuple):
    """A step of a plan that states a fact."""

    plan_id: str
    number: int
    step: Step


class _PlanIndex(NamedTuple):
    """The steps of a plan, and their numbers by fact."""

    steps: PlanBody
    of: dict[str, list[int]]


class FactSources:
    """The sources of the facts of a place, read from their plans."""

    def __init__(self, space: Space, place: Place) -> None:
        self._space, self._place = space, place
        self._plan = cache(self._read)
        self._changed: set[str] = set()

    def complete(self, fact_id: str) -> list[FactSource]:
        """Return the sources whose evidence is complete, most trusted first, then earliest first.

        Evidence that belongs only to other sources is deleted.
        """
        rows = self._space.tx.rows("evidence_keys", fact_id=fact_id)
        existing = {(entry_id, start): plan_id for entry_id, start, plan_id in rows}
        plans = sorted({plan_id for plan_id in existing.values() if plan_id})
        sources = [one for plan_id in plans for one in self._sources_in(plan_id, fact_id)]
        whole = [one for one in sources if _evidence_keys(one.step) <= existing.keys()]
        needed = {key for one in whole for key in _evidence_keys(one.step)}
        for (entry_id, start), plan_id in existing.items():
            if plan_id and (entry_id, start) not in needed:
                self._space.tx.send("delete_evidence", fact_id=fact_id, entry_id=entry_id, first_char=start)
        return sorted(
            whole, key=lambda one: (-TRUST[one.step.origin], one.step.evidence[0].said_at, one.plan_id, one.number)
        )

    def current_source(self, fact_id: str, version: FactVersion) -> FactSource | None:
        """Return the source of the wording of a version; None if it has none."""
        sources = self._sources_in(version.plan_id, fact_id) if version.plan_id else []
        written = [one for one in sources if 0 < one.step.version <= version.version]
        return max(written, key=lambda one: one.step.version, default=None)

    def change(self, plan_id: str, number: int, step: Step) -> None:
        """Replace a step of a plan. `flush` writes the change."""
        self._plan(plan_id).steps.steps[number] = step
        self._changed.add(plan_id)

    def flush(self) -> None:
        """Write the changed plans."""
        for plan_id in sorted(self._changed):
            self._space.tx.send("set_plan_steps", id=plan_id, steps=encode_steps(self._plan(plan_id).steps))
        self._changed.clear()

    def _sources_in(self, plan_id: str, fact_id: str) -> list[FactSource]:
        plan = self._plan(plan_id)
        return [FactSource(plan_id, number, plan.steps.steps[number]) for number in plan.of.get(fact_id, ())]

    def _read(self, plan_id: str) -> _PlanIndex:
        row = self._space.tx.row("find_plan", collection_id=self._space.find_collection_id(self._place), id=plan_id)
        steps = PlanBody([]) if row is None else decode_steps(StoredPlan(*row).steps)
        of: dict[str, list[int]] = {}
        for number, step in enumerate(steps.steps):
            if step.id:
                of.setdefault(step.id, []).append(number)
        return _PlanIndex(steps, of)


def _evidence_keys(step: Step) -> set[tuple[str, int]]:
    return {(passage.entry, passage.start) for passage in step.evidence}


# -- updating facts whose evidence was removed


class _Quote(NamedTuple):
    text: str
    name: str | None
    origin: str
    said_at: int


class Retraction:
    """Updates facts after some of their evidence was removed. `imported`: facts that lost evidence from an import."""

    def __init__(self, space: Space, place: Place, imported: Collection[str] = ()) -> None:
        self._space, self._place, self._imported = space, place, imported
        self._sources = FactSources(space, place)
        self.withdrawn: list[str] = []
        self.reworded: list[str] = []
        self.reopened: list[str] = []

    def update_facts(self, facts: Iterable[str]) -> None:
        """Update each fact, newest first, because a newer fact may have ended an older one."""
        existing = [fact_id for fact_id in facts if self._space.entry(self._place, fact_id) is not None]
        for fact_id in sorted(existing, key=self._sort_key, reverse=True):
            located = self._space.entry(self._place, fact_id)
            if located is not None:
                self._update_fact(located)
        self._sources.flush()

    def _sort_key(self, fact_id: str) -> tuple[int, int, int, str]:
        last = list_versions(self._space.tx, fact_id)[-1]
        current_source = self._sources.current_source(fact_id, last)
        return last.occurred_at, last.valid_from or 0, current_source.number if current_source else 0, fact_id

    def _update_fact(self, located: Located) -> None:
        fact_id = located.entry.id
        last = list_versions(self._space.tx, fact_id)[-1]
        complete = self._sources.complete(fact_id)
        if last.plan_id is None and fact_id not in self._imported:
            return  # a person wrote the fact, so it needs no evidence
        quote = None if complete else self._quote(fact_id)
        source = self._sources.current_source(fact_id, last)
        is_source_text = source is not None and source.step.text == last.content
        corrected = last.origin == "system" and last.version > 1 and not is_source_text  # a person changed the text
        own = [one.step.own for one in complete if one.step.own]
        confidence = reduce(combine_confidence, own) if own else last.confidence
        if (complete or quote) and (corrected or source in complete):
            if not corrected and confidence != last.confidence:
                self._space.tx.run("set_confidence", id=fact_id, version=last.version, confidence=confidence)
        elif complete:
            set_by_hand = source is not None and source.step.importance != last.importance
            importance = last.importance if set_by_hand else complete[0].step.importance
            self._use_source(located, last._replace(importance=importance, confidence=confidence), complete[0])
        elif quote is not None:
            self._use_quote(located, last, quote)
        else:
            self._withdraw(located, last)

    def _use_source(self, located: Located, last: FactVersion, source: FactSource) -> None:
        """Give a fact the wording of another source."""
        step = source.step
        following = last._replace(
            content=step.text,
            origin=step.origin,
            subject=step.subject,
            same=step.same,
            topic=step.topic,
            valid_from=step.valid_from if last.valid_to is None else min(step.valid_from, last.valid_to),
            plan_id=source.plan_id,
            occurred_at=max(one.said_at for one in step.evidence),
        )
        ended_facts = [one for one in self._ended_by(located.entry.id) if one.row.kind == "past"]
        ended = [one for one in ended_facts if _valid_from(one) <= step.valid_from]
        later = [one for one in ended_facts if _valid_from(one) > step.valid_from]
        if later and last.kind == "fact":
            following = following._replace(kind="past", valid_to=_valid_from(later[0]), ended_by=later[0].id)
        entry = revise_fact(self._space, self._place, located, following, step.speaker)
        for one in ended:
            self._set_ending(one, Ending("past", step.valid_from, entry.id))
        for one in later:
            self._set_ending(one, NOT_ENDED)
        do: Action = "supersede" if ended else "add"
        targets = [Target(one.id, one.row.version, 1.0) for one in ended]
        updated = structs.replace(step, do=do, targets=targets, version=entry.version)
        self._sources.change(source.plan_id, source.number, updated)
        self.reworded.append(entry.id)

    def _use_quote(self, located: Located, last: FactVersion, quote: _Quote) -> None:
        """Give an imported fact the text of a remaining turn."""
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
        """Return the words of the most trusted turn in the evidence of an imported fact."""
        quotes: list[_Quote] = []
        for row in self._space.tx.rows("evidence_of", fact_id=fact_id, now=self._space.now):
            _, start, stop, origin, said_at, _, _, content, role, name, _ = row
            words = (content or "")[start:stop]
            if words.strip():
                quotes.append(_Quote(quote_speaker(words, name or f"The {role or 'user'}"), name, origin, said_at))
        return max(quotes, key=lambda one: (TRUST.get(one.origin, 0), -one.said_at), default=None)

    def _withdraw(self, located: Located, last: FactVersion) -> None:
        """Retire a fact, and reopen the facts that it ended."""
        tx, entry = self._space.tx, located.entry
        upkeep.mark_changed(tx, tx.rows("retire_entry", id=entry.id, version=entry.version, now=self._space.now))
        self._space.touch(self._space.collection(self._place)[0], located.address_id)
        self.withdrawn.append(entry.id)
        self.release(entry.id, last)

    def release(self, fact_id: str, last: FactVersion) -> None:
        """Reopen the facts that a fact ended, and its duplicates in quarantine.

        They last until that fact's own end, or until a later fact in the same list begins.
        """
        after = Ending("past", last.valid_to, last.ended_by) if last.kind == "past" else NOT_ENDED
        ended = self._ended_by(fact_id)
        for number, one in enumerate(ended):
            late = [other for other in ended[number + 1 :] if other.late and _valid_from(other) > _valid_from(one)]
            self._set_ending(one, Ending("past", _valid_from(late[0]), late[0].id) if late else after)

    def _ended_by(self, fact_id: str) -> list[_EndedFact]:
        """Return the facts that a fact ended or replaced, sorted by the start of their validity."""
        tx = self._space.tx
        facts = [(row[0], list_versions(tx, row[0])) for row in tx.rows("facts_ended_by", id=fact_id)]
        ended = [_EndedFact(one, versions[-1], versions[0].kind == "past") for one, versions in facts]
        return sorted(ended, key=_valid_from)

    def _set_ending(self, fact: _EndedFact, ending: Ending) -> None:
        located = self._space.entry(self._place, fact.id)
        if located is not None:
            self.reopened.append(end_fact(self._space, self._place, located, ending).id)


class _EndedFact(NamedTuple):
    """A fact that another fact ended. `late`: it was already past in its first version."""

    id: str
    row: FactVersion
    late: bool


def _valid_from(fact: _EndedFact) -> int:
    return fact.row.occurred_at if fact.row.valid_from is None else fact.row.valid_from


# -- operations


class RetractionResult(NamedTuple):
    """The withdrawn facts, and the number of other facts that lost evidence."""

    withdrawn: list[str]
    weakened: int


def revoke_source(
    space: Space, place: Place, *, address_id: int | None = None, entry_id: str | None = None
) -> RetractionResult:
    """Remove a session or an entry from the evidence of the facts of a place."""
    _skip_unconsolidated(space, address_id, entry_id)
    source = {"address_id": address_id} if address_id is not None else {"entry_id": entry_id}
    kind = "address" if address_id is not None else "entry"
    rows = space.tx.rows(f"facts_from_{kind}", **source) if space.find_collection_id(place) is not None else []
    plan_by_fact = {fact_id: plan_id for fact_id, plan_id in rows if space.entry(place, fact_id) is not None}
    for fact_id in plan_by_fact:
        space.tx.send(f"revoke_{kind}", fact_id=fact_id, **source)
    imported = {fact_id for fact_id, plan_id in plan_by_fact.items() if not plan_id}
    retraction = Retraction(space, place, imported)
    retraction.update_facts(plan_by_fact)
    # erase old texts of imported facts now: without a plan, they would not be found when their source is erased
    for fact_id in imported.intersection(retraction.withdrawn):
        erase_fact(space.tx, fact_id, space.now)
    for fact_id in imported.intersection(retraction.reworded):
        erase_versions(space.tx, fact_id, [row.version for row in list_versions(space.tx, fact_id)[:-1]])
    return RetractionResult(retraction.withdrawn, len(plan_by_fact) - len(retraction.withdrawn))


def _skip_unconsolidated(space: Space, address_id: int | None, entry_id: str | None) -> None:
    """Mark the turns of a revoked session as consolidated, so that no facts are extracted from them later."""
    if address_id is not None:
        row = space.tx.row("distilled_address", id=address_id)
        if row is not None:
            space.tx.send("set_distilled", id=address_id, upto=row[1])
            upkeep.mark_changed(space.tx, space.tx.rows("settle_all_notes", address_id=address_id))
    elif space.tx.row("undistilled_entry", id=entry_id) is not None:
        raise Conflict(
            "This turn is not consolidated yet. End or consolidate its session first, or revoke the whole session."
        )


def release_fact(space: Space, place: Place, fact_id: str) -> None:
    """Prepare the erasure of a fact: reopen the facts that it ended, and remove it from all plans."""
    Retraction(space, place).release(fact_id, list_versions(space.tx, fact_id)[-1])
    remove_from_plans(space.tx, space.collection(place)[0], fact_id)


def forget_session(space: Space, place: Place, address_id: int) -> int:
    """Erase facts whose only evidence is a session, and its wordings of other facts. Return the number of erased facts."""
    plans = {
        plan_id: decode_steps(steps).steps
        for plan_id, steps, _ in space.tx.rows("plans_of_address", address_id=address_id)
    }
    stated = {step.id for steps in plans.values() for step in steps if step.id}
    gone = set(revoke_source(space, place, address_id=address_id).withdrawn)
    for fact_id in sorted(stated - gone):
        versions = list_versions(space.tx, fact_id)
        wordings = [row.version for row in versions if row.plan_id in plans and row.retired_at is not None]
        if wordings and len(wordings) == len(versions):
            gone.add(fact_id)
        elif wordings:
            erase_versions(space.tx, fact_id, wordings)
    for fact_id in sorted(gone):
        erase_fact(space.tx, fact_id, space.now)
    return len(gone)
