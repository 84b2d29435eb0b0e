"""Which statements of a turn are kept, and which of them make one fact together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .heard import Heard, Statement, is_filler
from .worth import KEPT, RICH, Told, worth

JOINED_WORDS = 24
"""How long a fact may grow by what points back to it; a single sentence may be longer."""
GIST_WORDS = 34
"""How long the one fact may grow that is made of a turn of middling worth."""

Group = tuple[Statement, ...]


class Context(NamedTuple):
    """What was before a turn."""

    asked: bool
    fresh: int
    """How many of the turn's content words are new."""
    alone: bool
    """Whether nobody else than an assistant listens: what is said then is said in order to be known."""


def chosen(turn: Heard, context: Context) -> list[Group]:
    """The statements that are kept, those that make one fact together."""
    statements = [one for one in turn.statements if not is_filler(one)]
    if not statements:
        return []
    value = worth(told(turn, context))
    if turn.said.note or value >= RICH:
        return _grouped(statements)
    kept = [one for one in statements if _is_sure(one, context.alone)]
    if value < KEPT:
        return _grouped(kept)
    gist = _gist(statements)
    return _grouped([one for one in statements if one in kept or one in gist]) if kept else [gist]


def told(turn: Heard, context: Context) -> Told:
    texts = [one.text for one in turn.statements]
    return Told(texts, turn.questions, context.asked, bool(turn.shown), context.fresh)


def _is_sure(statement: Statement, alone: bool) -> bool:
    if statement.wanted or not statement.english:
        return True
    if statement.to_other or not statement.own:
        return False
    return alone or (statement.kind != "statement" and not statement.dangling)


def _rank(statement: Statement) -> float:
    return len(statement.content) + 2.0 * statement.own - 2.0 * statement.to_other - 1.5 * statement.dangling


def _grouped(kept: Sequence[Statement]) -> list[Group]:
    """What points to something said before joins it, if that is kept and both together stay short."""
    groups: list[Group] = []
    for statement in kept:
        follows = bool(groups) and statement.at == groups[-1][-1].at + 1
        if follows and statement.dangling and _words([*groups[-1], statement]) <= JOINED_WORDS:
            groups[-1] = (*groups[-1], statement)
        else:
            groups.append((statement,))
    return groups


def _gist(statements: Sequence[Statement]) -> Group:
    """The best of the statements, as many as make one fact, in their order."""
    left, taken = GIST_WORDS, set[int]()
    for at in sorted(range(len(statements)), key=lambda at: -_rank(statements[at])):
        length = _words([statements[at]])
        points_back = statements[at].dangling and at - 1 not in taken
        if not taken or (length <= left and not points_back and not statements[at].to_other):
            taken.add(at)
            left -= length
    return tuple(statements[at] for at in sorted(taken))


def _words(statements: Sequence[Statement]) -> int:
    return sum(len(one.text.split()) for one in statements)
