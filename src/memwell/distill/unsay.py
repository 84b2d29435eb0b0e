"""Taking back what was said. A fact that nothing speaks for any more is withdrawn, and what it had ended is true again; one
that others tell as well is from now on told in their words."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from msgspec import structs

from ..model.collection import Place
from ..recall import upkeep
from ..space import Located, Space
from .extraction.rewording import quoted
from .neighbours import marks
from .plan import Target
from .reconciliation.topics import read
from .rewrite import Ended, end, rewrite
from .statements import Statement, Statements
from .stored import FactRow, versions


class _Quote(NamedTuple):
    text: str
    name: str | None
    origin: str
    said_at: int


class Unsaying:
    """Facts whose evidence has just become less. `imported`: those that have lost what they were imported with."""

    def __init__(self, space: Space, place: Place, imported: Collection[str] = ()) -> None:
        self._space, self._place, self._imported = space, place, imported
        self._statements = Statements(space, place)
        self.withdrawn: list[str] = []
        self.reworded: list[str] = []
        self.reopened: list[str] = []

    def settle(self, facts: Iterable[str]) -> None:
        """Decide on each, the newest first, since it may have ended another."""
        known = [fact_id for fact_id in facts if self._space.entry(self._place, fact_id) is not None]
        for fact_id in sorted(known, key=self._told_at, reverse=True):
            located = self._space.entry(self._place, fact_id)
            if located is not None:
                self._decide(located, versions(self._space.tx, fact_id)[-1])

    def _told_at(self, fact_id: str) -> tuple[int, int, int, str]:
        last = versions(self._space.tx, fact_id)[-1]
        founding = self._statements.founding(fact_id, last)
        return last.occurred_at, last.valid_from or 0, founding.number if founding else 0, fact_id

    def _decide(self, located: Located, last: FactRow) -> None:
        fact_id = located.entry.id
        left = self._statements.left(fact_id)
        if last.plan_id is None and fact_id not in self._imported:
            return  # somebody has written it
        founding = self._statements.founding(fact_id, last)
        corrected = founding is not None and founding.step.text != last.content
        if left and (founding in left or corrected):
            return
        if left:
            self._reword(located, last, founding, left[0])
        elif quote := self._quote(fact_id):
            self._requote(located, last, quote)
        else:
            self._withdraw(located, last, founding)

    # -- in other words ----------------------------------------------------------------------------------------------

    def _reword(self, located: Located, last: FactRow, founding: Statement | None, told: Statement) -> None:
        """Tell a fact as another statement does, which is from now on the one that it is founded on."""
        step = told.step
        since = step.valid_from if last.valid_to is None else min(step.valid_from, last.valid_to)
        following = last._replace(
            content=step.text,
            origin=step.origin,
            importance=step.importance,
            confidence=min(step.confidence, last.confidence or step.confidence),
            subject=step.subject,
            same=step.same,
            topic=step.topic,
            valid_from=since,
            plan_id=told.plan_id,
            occurred_at=max(one.said_at for one in step.evidence),
        )
        entry = rewrite(self._space, self._place, located, following, step.speaker)
        ended = [end(self._space, self._place, one, Ended("past", step.valid_from)) for one in self._ended_by(founding)]
        founds = structs.replace(
            step,
            do="supersede" if ended else "add",
            targets=[Target(one.id, one.version - 1, one.confidence or 1.0) for one in ended],
            version=entry.version,
        )
        self._statements.change(told.plan_id, told.number, founds)
        self.reworded.append(entry.id)

    def _requote(self, located: Located, last: FactRow, quote: _Quote) -> None:
        """Tell a fact that was imported in the words of a turn that is left."""
        same, topic = marks(read(quote.text, last.subject), last.subject)
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
        rewrite(self._space, self._place, located, following, quote.name)
        self.reworded.append(located.entry.id)

    def _quote(self, fact_id: str) -> _Quote | None:
        """The words of the first turn that an imported fact rests on."""
        for row in self._space.tx.rows("evidence_of", fact_id=fact_id, now=self._space.now):
            _, start, stop, origin, said_at, _, _, content, role, name, _ = row
            words = (content or "")[start:stop]
            if words.strip():
                return _Quote(quoted(words, name or f"The {role or 'user'}"), name, origin, said_at)
        return None

    # -- no longer known -----------------------------------------------------------------------------------------------

    def _withdraw(self, located: Located, last: FactRow, founding: Statement | None) -> None:
        """Retire a fact. What it had ended is true again: still, or, if it was itself over, until then."""
        tx, entry = self._space.tx, located.entry
        upkeep.retire(tx, tx.rows("retire_entry", id=entry.id, version=entry.version, now=self._space.now))
        self._space.touch(self._space.collection(self._place)[0], located.address_id)
        self.withdrawn.append(entry.id)
        life = Ended("past", last.valid_to) if last.kind == "past" else Ended("fact", None)
        for one in self._ended_by(founding) if last.kind != "held" else ():
            self.reopened.append(end(self._space, self._place, one, life).id)

    def _ended_by(self, founding: Statement | None) -> list[Located]:
        """The facts that are over because of a statement: those that are since then, by the step that told it."""
        if founding is None or founding.step.do != "supersede":
            return []
        ids = [*(target.id for target in founding.step.targets), *founding.step.ended]
        found = [self._space.entry(self._place, fact_id) for fact_id in ids]
        past = [one for one in found if one is not None and one.entry.kind == "past"]
        since = founding.step.valid_from
        return [one for one in past if versions(self._space.tx, one.entry.id)[-1].valid_to == since]
