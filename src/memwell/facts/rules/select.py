"""Which statements of a turn are kept, and which of them make one fact together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...text.word_sets import load_words
from .classify import MIN_SCORE, RICH_SCORE, TurnFeatures, score_turn
from .parse import ParsedTurn, Statement, is_filler

JOINED_WORDS = 24
"""How long a fact may grow by what points back to it; a single sentence may be longer."""
GIST_WORDS = 34
"""How long the one fact may grow that is made of a turn of middling worth."""

MAX_OF_OTHERS = 6
"""A turn that states more than this is read out, and does not tell of somebody whom its speaker knows."""
_OF_SOMEBODY = re.compile(
    r"(?P<first>[A-Z][a-z]+)(?:'s (?:[a-z]+ ){1,2}| (?:[A-Z][a-z]+ )?)"
    r"(?:(?:is|was) (?:not )?(?:an?|my|our|from|born|\d+|[a-z]+ing|[a-z]+ed|pregnant|single|vegan|vegetarian|allergic)\b"
    r"|(?:ha[sd]|live[sd]|work(?:s|ed)|(?:like|love|hate|prefer|own|need|want|play|speak|eat|drink|teache|run|come)s"
    r"|studie[sd]|moved|got|bought|married|turned|grew up|used to|doesn't|isn't|can't)\b)"
)
_NOBODY = load_words(__package__, "not_names")
_MORE_OF_IT = re.compile(
    r"(?:(?:he|she|they|his|her|their|its)(?:'[a-z]+)?\s"
    r"|it(?:'s| is| was| has) (?:an?|the|called|named|from|in|at|\d+|[a-z]+ed)\b)",
    re.IGNORECASE,
)

Group = tuple[Statement, ...]


class Context(NamedTuple):
    """What was before a turn."""

    asked: bool
    fresh: int
    """How many of the turn's content words are new."""
    alone: bool
    """Whether nobody else than an assistant listens: what is said then is said in order to be known."""


def select_groups(turn: ParsedTurn, context: Context) -> list[Group]:
    """The statements that are kept, those that make one fact together."""
    groups = _select_statements(turn, context)
    if not context.alone:
        return groups
    more = {one.at: one for one in turn.statements if _is_continuation(one)}
    return [_append_continuations(group, more) for group in groups]


def _select_statements(turn: ParsedTurn, context: Context) -> list[Group]:
    statements = [one for one in turn.statements if not is_filler(one)]
    if not statements:
        return []
    value = score_turn(turn_features(turn, context))
    if turn.said.note or value >= RICH_SCORE:
        return _group_statements(statements)
    short = len(turn.statements) <= MAX_OF_OTHERS
    kept = [
        one
        for one in statements
        if _is_always_kept(one, context) or (context.alone and short and _is_about_named_person(one))
    ]
    if value < MIN_SCORE:
        return _group_statements(kept)
    gist = _pick_gist(statements)
    places = {one.at for one in [*kept, *gist]}
    return _group_statements([one for one in statements if one.at in places]) if kept else [gist]


def turn_features(turn: ParsedTurn, context: Context) -> TurnFeatures:
    texts = [one.text for one in turn.statements]
    return TurnFeatures(texts, turn.questions, context.asked, bool(turn.shown), context.fresh)


def _is_always_kept(statement: Statement, context: Context) -> bool:
    if statement.wanted or not statement.english:
        return True
    if context.alone and context.asked and statement.at == 0 and _is_continuation(statement):
        return True
    if statement.to_other or not statement.own:
        return False
    return context.alone or (statement.kind != "statement" and not statement.dangling)


def _is_about_named_person(statement: Statement) -> bool:
    """Whether it tells plainly of somebody by name: "Carol lives in Rome"."""
    match = None if statement.own or statement.to_other else _OF_SOMEBODY.match(statement.text)
    return match is not None and match["first"].lower() not in _NOBODY and not match["first"].endswith("ing")


def _is_continuation(statement: Statement) -> bool:
    """Whether it adds to the sentence before it, and makes no sense without it: "His name is Rex"."""
    if not statement.english or statement.own or statement.to_other or not statement.content:
        return False
    return _MORE_OF_IT.match(statement.text) is not None


def _append_continuations(group: Group, more: Mapping[int, Statement]) -> Group:
    """With what is said right after it of the same thing, however little that is."""
    while group[-1].english and (one := more.get(group[-1].at + 1)) and _count_words([*group, one]) <= JOINED_WORDS:
        group = (*group, one)
    return group


def _rank(statement: Statement) -> float:
    return len(statement.content) + 2.0 * statement.own - 2.0 * statement.to_other - 1.5 * statement.dangling


def _group_statements(kept: Sequence[Statement]) -> list[Group]:
    """What points to something said before joins it, if that is kept and both together stay short."""
    groups: list[Group] = []
    for statement in kept:
        follows = bool(groups) and statement.at == groups[-1][-1].at + 1
        if follows and statement.dangling and _count_words([*groups[-1], statement]) <= JOINED_WORDS:
            groups[-1] = (*groups[-1], statement)
        else:
            groups.append((statement,))
    return groups


def _pick_gist(statements: Sequence[Statement]) -> Group:
    """The best of the statements, as many as make one fact, in their order."""
    left, taken = GIST_WORDS, set[int]()
    for at in sorted(range(len(statements)), key=lambda at: -_rank(statements[at])):
        length = _count_words([statements[at]])
        points_back = statements[at].dangling and at - 1 not in taken
        if not taken or (length <= left and not points_back and not statements[at].to_other):
            taken.add(at)
            left -= length
    return tuple(statements[at] for at in sorted(taken))


def _count_words(statements: Sequence[Statement]) -> int:
    return sum(len(one.text.split()) for one in statements)
