"""Decide which sentences of a turn are kept. Look here first if a sentence did not become a fact.

1. passages.py blanks text that the speaker does not state: quotations, code, recalled memory.
2. `sentence_drop` drops questions, greetings, headings and hypotheticals; `drop_sarcasm` drops sarcasm.
3. `statement_drop` drops statements without information: small talk, advice, proposals, links.
4. `select_groups` keeps the statements that are certainly facts, and as many others as the score of the turn allows.

Each dropped sentence has a reason (`Drop`), listed in `Extraction.dropped`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ...text.word_sets import load_sections, load_words, word_set
from .passages import MAX_SENTENCE, Sentence, is_foreign_greeting

if TYPE_CHECKING:
    from .parse import ParsedTurn, Statement


class Drop(StrEnum):
    """The reason why a sentence did not become a fact."""

    SYSTEM_TURN = "system_turn"
    RECALLED_MEMORY = "recalled_memory"
    CODE = "code"
    BRACKETS = "brackets"
    QUOTE = "quote"
    QUESTION = "question"
    TOO_LONG = "too_long"
    GREETING = "greeting"
    HYPOTHETICAL = "hypothetical"
    SARCASM = "sarcasm"
    HEADING = "heading"
    NO_WORDS = "no_words"
    SMALL_TALK = "small_talk"
    ADVICE = "advice"
    PROPOSAL = "proposal"
    LINK = "link"
    LOW_SCORE = "low_score"
    CORRECTED = "corrected"
    DUPLICATE = "duplicate"
    NOT_AN_ACTION = "not_an_action"
    """A sentence of an assistant that is not about its own action."""
    NOT_A_STATEMENT = "not_a_statement"
    """A sentence of a tool that is data, or that belongs to a long output."""


# -- sentences


def sentence_drop(sentence: Sentence, asks: bool, is_last_of_note: bool | None) -> Drop | None:
    """Return the reason to drop a sentence before it is parsed. `is_last_of_note`: None if the turn is not a note."""
    if asks:
        return Drop.QUESTION
    if len(sentence.text) > MAX_SENTENCE:
        return Drop.TOO_LONG
    if is_foreign_greeting(sentence.text):
        return Drop.GREETING
    if _HYPOTHETICAL.match(sentence.text.replace("’", "'")):
        return Drop.HYPOTHETICAL
    if sentence.text.endswith(":") and is_last_of_note is not False:
        return Drop.HEADING
    return None


_POLITE = r"\W*(?:(?:please|ok|okay|so|now|and|hey|hi|can you|could you|just),?\s+){0,4}"
_HYPOTHETICAL = re.compile(
    rf"""{_POLITE}(?:(?:let's|let\ us)\ (?:say|suppose|assume|pretend|imagine)\b
    |(?:imagine|pretend|suppose|supposing|assume|assuming)\b(?!\ (?:my|our)\ surprise)
    |say\ (?:that\ )?(?:i|i'\w+|we|we'\w+|my)\b
    |hypothetically\b|for\ the\ sake\ of\ argument\b|in\ (?:another|a\ parallel)\ (?:life|universe)\b
    |(?:act|talk|behave|speak)\ as\ (?:if|though)\b
    |what\ if\b|role-?\s?play\b
    |(?:write|draft|compose|generate|make\ up|create)\ (?:me\ |us\ )?(?:an?|the|some|my|another|two|three)\b
    |tell\ me\ an?\ (?:story|joke|tale)\b)""",
    re.IGNORECASE | re.VERBOSE,
)
"""Hypotheticals ("Suppose I …"), and requests to write a text."""
_SARCASM = re.compile(r"\W*yeah,?\s+right\b(?=\s*[,.!…;–—-]|\s*\Z)", re.IGNORECASE)
_ONLY_SARCASM = re.compile(r"\W*yeah,?\s+right\W*", re.IGNORECASE)
_GOES_ON = re.compile(r"\W*and\s", re.IGNORECASE)


def drop_sarcasm(sentences: list[Sentence]) -> list[Sentence]:
    """Remove "Yeah right, and I'm the Queen", also if it is two sentences."""
    sincere, before = [], ""
    for one in sentences:
        goes_on = _GOES_ON.match(one.text) and _ONLY_SARCASM.fullmatch(before)
        if not _SARCASM.match(one.text) and not goes_on:
            sincere.append(one)
        before = one.text
    return sincere


# -- statements

_PROPOSAL = re.compile(r"\W*(?:let's|let us|let me|how about|what about|why don't)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
MIN_CONTENT = 2
_LASTING = word_set("attribute relation possession decision preference")
"""Kinds of lasting statements, which are kept even if they are very short."""


def statement_drop(statement: Statement) -> Drop | None:
    """Return the reason to drop a statement without information."""
    if statement.wanted or statement.kind in _LASTING:
        return None if statement.content else Drop.SMALL_TALK
    if not statement.english:
        return Drop.SMALL_TALK if statement.text.isascii() and not statement.content else None
    if _ADDRESS.fullmatch(statement.text):
        return Drop.LINK
    if statement.urging:
        return Drop.ADVICE
    if len(statement.content) < MIN_CONTENT:
        return Drop.SMALL_TALK
    return Drop.PROPOSAL if _PROPOSAL.match(statement.text) else None


JOINED_WORDS = 24
"""Maximum number of words of a fact that joins several sentences. A single sentence may be longer."""
GIST_WORDS = 34
"""Maximum number of words of the only fact from a turn with a medium score."""

MAX_OF_OTHERS = 6
"""Maximum number of statements of a turn whose statements about named people are kept. Longer turns are often pasted."""
_NAMED_PERSON = re.compile(
    r"(?P<first>[A-Z][a-z]+)(?:'s (?:[a-z]+ ){1,2}| (?:[A-Z][a-z]+ )?)"
    r"(?:(?:is|was) (?:not )?(?:an?|my|our|from|born|\d+|[a-z]+ing|[a-z]+ed|pregnant|single|vegan|vegetarian|allergic)\b"
    r"|(?:ha[sd]|live[sd]|work(?:s|ed)|(?:like|love|hate|prefer|own|need|want|play|speak|eat|drink|teache|run|come)s"
    r"|studie[sd]|moved|got|bought|married|turned|grew up|used to|doesn't|isn't|can't)\b)"
)
_NOT_NAMES = load_words(__package__, "not_names")
_CONTINUATION = re.compile(
    r"(?:(?:he|she|they|his|her|their|its)(?:'[a-z]+)?\s"
    r"|it(?:'s| is| was| has) (?:an?|the|called|named|from|in|at|\d+|[a-z]+ed)\b)",
    re.IGNORECASE,
)

Group = tuple["Statement", ...]


class Context(NamedTuple):
    """The conversation before a turn."""

    asked: bool
    """The previous turn asked a question."""
    fresh: int
    """Number of content words of the turn that are new in the conversation."""
    alone: bool
    """The speaker is the only person in the conversation."""


def select_groups(parsed: ParsedTurn, context: Context) -> list[Group]:
    """Select the statements to keep. Each group becomes one fact."""
    statements = [one for one in parsed.statements if statement_drop(one) is None]
    groups = _select_statements(parsed, statements, context) if statements else []
    if not context.alone:
        return groups
    more = {one.at: one for one in parsed.statements if _is_continuation(one)}
    return [_append_continuations(group, more) for group in groups]


def _select_statements(parsed: ParsedTurn, statements: list[Statement], context: Context) -> list[Group]:
    texts = [one.text for one in parsed.statements]
    features = TurnFeatures(texts, parsed.questions, context.asked, bool(parsed.attachments), context.fresh)
    score = score_turn(features)
    if parsed.turn.note or score >= RICH_SCORE:
        return _group_statements(statements)
    tells_of_others = context.alone and len(parsed.statements) <= MAX_OF_OTHERS
    kept = [
        one for one in statements if _is_always_kept(one, context) or (tells_of_others and _is_about_named_person(one))
    ]
    if score < MIN_SCORE:
        return _group_statements(kept)
    gist = _pick_gist(statements)
    places = {one.at for one in [*kept, *gist]}
    return _group_statements([one for one in statements if one.at in places]) if kept else [gist]


def _is_always_kept(statement: Statement, context: Context) -> bool:
    if statement.wanted or not statement.english:
        return True
    if context.alone and context.asked and statement.at == 0 and _is_continuation(statement):
        return True
    if statement.to_other or not statement.own:
        return False
    return context.alone or (statement.kind != "statement" and not statement.dangling)


def _is_about_named_person(statement: Statement) -> bool:
    """Return True for a plain statement about a named person: "Carol lives in Rome"."""
    match = None if statement.own or statement.to_other else _NAMED_PERSON.match(statement.text)
    return match is not None and match["first"].lower() not in _NOT_NAMES and not match["first"].endswith("ing")


def _is_continuation(statement: Statement) -> bool:
    """Return True for a statement that needs the previous one: "His name is Rex"."""
    if not statement.english or statement.own or statement.to_other or not statement.content:
        return False
    return _CONTINUATION.match(statement.text) is not None


def _append_continuations(group: Group, more: Mapping[int, Statement]) -> Group:
    """Append continuations that directly follow a group."""
    while group[-1].english and (one := more.get(group[-1].at + 1)) and _count_words([*group, one]) <= JOINED_WORDS:
        group = (*group, one)
    return group


def _group_statements(kept: Sequence[Statement]) -> list[Group]:
    """Join a statement to the previous one if it refers to it and both together are short."""
    groups: list[Group] = []
    for statement in kept:
        follows = bool(groups) and statement.at == groups[-1][-1].at + 1
        if follows and statement.dangling and _count_words([*groups[-1], statement]) <= JOINED_WORDS:
            groups[-1] = (*groups[-1], statement)
        else:
            groups.append((statement,))
    return groups


def _pick_gist(statements: Sequence[Statement]) -> Group:
    """Return the best statements for one fact, in their order."""

    def rank(at: int) -> float:
        one = statements[at]
        return len(one.content) + 2.0 * one.own - 2.0 * one.to_other - 1.5 * one.dangling

    left, taken = GIST_WORDS, set[int]()
    for at in sorted(range(len(statements)), key=lambda at: -rank(at)):
        length = _count_words([statements[at]])
        points_back = statements[at].dangling and at - 1 not in taken
        if not taken or (length <= left and not points_back and not statements[at].to_other):
            taken.add(at)
            left -= length
    return tuple(statements[at] for at in sorted(taken))


def _count_words(statements: Sequence[Statement]) -> int:
    return sum(len(one.text.split()) for one in statements)


# -- the score of a turn
#
# The score is a logistic regression on general features of the turn: whom it is about, its tense, its classes of words, how many
# words are new, whether it answers a question. The weights were fitted to conversations in which people marked the turns with
# facts.


MIN_SCORE = 0.26
"""Minimum score for one fact from a turn."""
RICH_SCORE = 0.70
"""Minimum score to keep every statement of a turn."""

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*|\d+")


class TurnFeatures(NamedTuple):
    """The input of the score of a turn."""

    statements: Sequence[str]
    questions: int
    answers: bool
    """The previous turn asked a question."""
    shows: bool
    fresh: int
    """Number of content words that are new in the conversation."""


def score_turn(turn: TurnFeatures) -> float:
    """Return the probability that a turn states a fact, from 0 to 1."""
    text, count = " ".join(turn.statements), len(turn.statements)
    words = _WORD.findall(text.lower().replace("’", "'"))
    features = {
        "always": 1.0,
        "length": math.log1p(len(words)),
        "fresh": math.log1p(turn.fresh),
        "statements": float(min(count, 8)),
        "questions": float(min(turn.questions, 3)),
        "answers": float(turn.answers),
        "shows": float(turn.shows),
        "exclaims": sum(one.rstrip().endswith("!") for one in turn.statements) / (1 + count),
        "quotes": float('"' in text or "“" in text),
    }
    for name, opening in _OPENINGS.items():
        features[name] = math.sqrt(sum(opening.match(one) is not None for one in turn.statements))
    counts = Counter(name for word in words for name in _CLASSES_OF.get(word, ()))
    features |= {name: math.sqrt(count) for name, count in counts.items()}
    score = sum(WEIGHTS.get(name, 0.0) * value for name, value in features.items())
    return 1 / (1 + math.exp(-score))


_OPENINGS = {
    "opens_with_I": re.compile(r"(?:I|I'\w+|My|We|We'\w+|Our)\b"),
    "opens_with_you": re.compile(r"(?:You|You'\w+|Your)\b"),
    "opens_with_it": re.compile(r"(?:It|It's|That|That's|This|They|These|Those)\b"),
}
_CLASSES = {name: frozenset(words) for name, words in load_sections(__package__, "score_words").items()}
_CLASSES_OF = {
    word: tuple(name for name, members in _CLASSES.items() if word in members)
    for word in frozenset().union(*_CLASSES.values())
}

WEIGHTS: dict[str, float] = {
    "always": -3.73,
    "length": 0.48,
    "fresh": 0.92,
    "statements": -0.04,
    "questions": -0.25,
    "answers": 0.53,
    "shows": -0.07,
    "exclaims": -0.38,
    "quotes": 0.37,
    "opens_with_I": 0.48,
    "opens_with_you": 0.29,
    "opens_with_it": 0.13,
    "i_am": 0.21,
    "i_will": 0.1,
    "me": 0.13,
    "my": 0.46,
    "you": -0.25,
    "your": -0.26,
    "they": -0.3,
    "it": -0.09,
    "be": -0.12,
    "perfect": 0.19,
    "modal": -0.29,
    "article": 0.23,
    "place": 0.14,
    "for": 0.19,
    "cause": 0.13,
    "time": 0.44,
    "like": -0.02,
    "plan": -0.18,
    "do": 0.12,
    "praise": -0.22,
    "reaction": -0.05,
    "degree": -0.19,
}
