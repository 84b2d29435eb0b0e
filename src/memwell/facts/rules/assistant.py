"""Candidates from assistants and tools: what an assistant did, promised or listed, and what a tool states.

What an assistant says about a user is never a fact: it comes from the user, or from memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text.word_sets import word_set
from ..plan import Candidate, Kind, Source
from .classify import confidence
from .grammar import Speaker, inside_sentence, strip_quotation_marks, third_person
from .parse import ParsedTurn, Statement
from .phrase import resolve_dates

MAX_TOOL_STATEMENTS = 16
"""A tool that states more was reading something out."""
_ACTS = (
    "book|reserve|schedul|send|order|creat|add|updat|cancel|sav|mov|delet|remov|pay|buy|fil|submit|email|call|fix|deploy|"
    "merg|renam|remind|set up|set|sign|arrang|confirm|contact|post|upload|reschedul|renew|subscrib|unsubscrib|transfer|"
    "chang|not|record|stor|turn|enabl|disabl"
)
_DONE = re.compile(
    rf"(?:I|We)(?:'ve| have)?(?:\s+(?:just|now|also|already|successfully|gone ahead and))*\s+"
    rf"(?:(?:{_ACTS})\w*ed|sent|paid|bought|set|made|put|decided|agreed|chose|chosen|picked|promised)\b",
    re.IGNORECASE,
)
_NEEDS_OBJECT = re.compile(
    r"(?:book|reserv|schedul|sen[dt]|order|creat|add|updat|cancel|sav|mov|delet|remov|b[uo]u?[yg]|fix|renam|reschedul|renew|transfer|"
    r"chang|record|stor|put|made|set|enabl|disabl|upload|submit|fil|arrang|pick)",
    re.IGNORECASE,
)
"""Verbs that need an object."""
_NO_OBJECT = re.compile(
    r"(?:\W*\Z|[^\w\s]|\s+(?:to|for|on|at|in|until|till|from|by|with|and|as|successfully|already|now)\b)", re.IGNORECASE
)
_PROMISE = re.compile(
    rf"(?:I|We)(?:'ll| will|'m going to| am going to)(?:\s+(?:also|then|always|never|not))*\s+"
    rf"(?:{_ACTS}|make sure|avoid|follow up|use|keep|answer|reply)\w*\b",
    re.IGNORECASE,
)
_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,2}[.)]|[-*•])[ \t]+(?=\S)([^\n]{1,400})", re.MULTILINE)
_HEAD = re.compile(r"(?:\*\*|__)?([^:\n]*?)(?:\*\*|__)?(?:\s*[:–—]|\s-\s|[.!?](?:\s|$)|$)")
_STATES = re.compile(r"\b(?:is|are|was|were|has|have|had|will|costs?|opens?|closes?|starts?|ends?|\w+ed)\b")
_DATA = re.compile(r"[{}<>=|\\\[\]]|://|::|\b\w+\(")
_MAX_LENGTH = 240
_SMALL = word_set("a an the of and in on at for to by with de la le du von der des el y")
MIN_ITEMS = 3
MIN_NAME_SHARE = 0.6
"""Share of a list that must be names."""
MAX_ITEMS = 12
HEAD_WORDS = 9
ASKED_WORDS = 30


def extract_from_assistant(parsed: ParsedTurn, person: str) -> Iterator[Candidate]:
    """Candidates for what an assistant says that it has done or will do."""
    for statement in parsed.statements:
        if statement.english and (_is_done(statement.text) or _PROMISE.match(statement.text)):
            dated = resolve_dates(statement.text.strip().rstrip(".!"), parsed.turn.day)
            text = third_person(dated.text, Speaker(parsed.turn.speaker, inside_sentence(person)))
            yield _to_candidate(parsed, statement, text, 0.3)


def _is_done(text: str) -> bool:
    """Return True if a sentence says what was done, and to what, unlike "Booked!" and "Moved to Friday"."""
    done = _DONE.match(text)
    if done is None:
        return False
    verb = done[0].split()[-1]
    return _NEEDS_OBJECT.match(verb) is None or _NO_OBJECT.match(text, done.end()) is None


def extract_named_items(parsed: ParsedTurn, asked: ParsedTurn | None) -> Candidate | None:
    """A candidate for the names that an assistant listed when asked: people ask for "the one that you recommended" later."""
    items = list(_ITEM.finditer(parsed.turn.text))
    heads = [head for item in items[:MAX_ITEMS] if _is_name(head := _item_head(item[1]))]
    if asked is None or not asked.question or len(heads) < max(MIN_ITEMS, MIN_NAME_SHARE * min(len(items), MAX_ITEMS)):
        return None
    wish = " ".join(asked.question.split()[-ASKED_WORDS:]).rstrip("?.! ")
    text = f'Asked "{strip_quotation_marks(wish)}?", {inside_sentence(parsed.turn.speaker)} named {", ".join(heads)}.'
    source = Source(parsed.turn.id, items[0].start(), items[-1].end())
    return Candidate(text, None, "event", (source,), 0.2, confidence("event", "", parsed.turn.role))


def _item_head(item: str) -> str:
    """The name of a list item: what stands before its colon or dash, or its first words."""
    head = _HEAD.match(item)
    return strip_quotation_marks(" ".join((head[1] if head else item).split()[:HEAD_WORDS]).strip(" *_`"))


def _is_name(head: str) -> bool:
    """Return True for `The Bulldog Hostel`, not for `Drink enough water`."""
    first, *rest = head.split() or [""]
    if not first[:1].isupper():
        return False
    return not rest or (any(word[:1].isupper() for word in rest) and all(_fits_name(word) for word in rest))


def _fits_name(word: str) -> bool:
    return not word[:1].islower() or word in _SMALL


def extract_from_tool(parsed: ParsedTurn) -> Iterator[Candidate]:
    """Candidates for what a tool states in plain words."""
    plain = [one for one in parsed.statements if _is_plain_statement(one)]
    for statement in plain if len(plain) <= MAX_TOOL_STATEMENTS else ():
        yield _to_candidate(parsed, statement, resolve_dates(statement.text.rstrip("."), parsed.turn.day).text, 0.2)


def _is_plain_statement(statement: Statement) -> bool:
    text = statement.text
    if statement.own or statement.to_other or statement.dangling or len(text) > _MAX_LENGTH:
        return False
    return text[:1].isupper() and text.endswith(".") and _DATA.search(text) is None and _STATES.search(text) is not None


def _to_candidate(parsed: ParsedTurn, statement: Statement, text: str, importance: float) -> Candidate:
    turn = parsed.turn
    kind: Kind = "decision" if turn.role == "assistant" else "statement"
    source = Source(turn.id, statement.start, statement.end)
    subject = turn.speaker if turn.known and turn.role == "assistant" else None
    return Candidate(
        f"{text[:1].upper()}{text[1:]}.", subject, kind, (source,), importance, confidence(kind, text, turn.role)
    )
