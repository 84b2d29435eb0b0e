"""Select and phrase the statements of assistants and tools.

Of an assistant, Memwell keeps what it did or promised ("I've refunded £6.99"), what it confirmed ("Redelivery is booked for
Tuesday"), what it recommended when it was asked, and names that it listed. Its other statements about a user are dropped, because
they only repeat the user or recalled memory. Of a tool, it keeps plain sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...text.word_sets import word_set
from ..datatypes import Candidate, DroppedSentence, Kind, Source, Turn
from .keep_or_drop import Drop, ParsedTurn, to_dropped
from .phrase import (
    MODALS,
    PARTICIPLES,
    Speaker,
    inside_sentence,
    is_adverb,
    is_past,
    quote_speaker,
    resolve_dates,
    strip_quotation_marks,
    third_person,
)
from .referents import resolve_object
from .statement import Statement, confidence, content_stems

MAX_TOOL_STATEMENTS = 16
"""Maximum number of statements of a tool turn. A tool with more only prints a document."""
ReportSort = Literal["action", "confirmation", "recommendation", "foreign", "output"]


class Report(NamedTuple):
    """A statement of an assistant or a tool that is kept."""

    statement: Statement
    sort: ReportSort


_OPENING = re.compile(r"(?:I|We)(?:'ve| have| just)?\b\s*", re.IGNORECASE)
_ADVERBS = word_set("just now also already successfully then and gone ahead instead")
_ACTS = (
    "book|reserve|schedul|send|order|creat|add|updat|cancel|sav|mov|delet|remov|pay|buy|fil|submit|email|call|fix|deploy|"
    "merg|renam|remind|set up|set|sign|arrang|confirm|contact|post|upload|reschedul|renew|subscrib|unsubscrib|transfer|"
    "chang|turn|enabl|disabl"
)
_ACTED = re.compile(
    rf"(?:{_ACTS})\w*ed|sent|paid|bought|set|made|put|decided|agreed|chose|chosen|picked|promised", re.IGNORECASE
)
_FREE = word_set(
    "decided agreed chose chosen promised confirmed signed called contacted emailed reminded posted subscribed "
    "unsubscribed paid turned"
)
"""Verbs of actions that need no object."""
_STANCES = word_set(
    "noted recorded understood thought meant said mentioned saw seen heard hoped wanted forgot forgotten remembered "
    "knew known felt loved liked "
    "believed assumed "
    "apologized apologised noticed realized realised learned learnt tried looked read been was were had got asked told did done "
    "went come came "
    "needed enjoyed worried expected guessed supposed stopped used wished laughed smiled lived worked moved visited "
    "grew bore borne taken took kept written"
)
"""Verbs that do not tell what an assistant did for somebody."""
_NO_OBJECT = re.compile(
    r"(?:\W*\Z|[^\w\s£$€#]|\s+(?:to|for|on|at|in|until|till|from|by|with|and|as|successfully|already|now)\b)",
    re.IGNORECASE,
)
_PROMISE = re.compile(
    rf"(?:I|We)(?:'ll| will|'m going to| am going to)(?:\s+(?:also|then|always|never|not|only|now))*\s+"
    rf"(?:{_ACTS}|make sure|avoid|follow up|use|keep|answer|reply|ask|focus|include|exclude|skip|leave|refund|ship"
    rf"|replace|notify|limit|stick|switch|explain|write|check|unlock|adapt)\w*\b",
    re.IGNORECASE,
)
_EMPTY_PROMISE = re.compile(
    r"\b(?:in mind|note of|noted?|everything|that|this|it)\b[\s.!]*(?:down|up|out|now|right away|for you|then|too)?[\s.!]*\Z",
    re.IGNORECASE,
)
_SETTLED = (
    "booked|confirmed|scheduled|rescheduled|reserved|cancelled|canceled|extended|moved|refunded|changed|updated|set|activated|deactivated|approved|rejected|"
    "shipped|dispatched|delivered|due|registered|enrolled|renewed|assigned|delayed|blocked|closed|resolved|fixed|excluded|included|upgraded|downgraded|"
    "credited|transferred|paused|submitted|merged|deployed|released|created|removed|added|issued|sent"
)
_CONFIRMED = re.compile(
    rf"(?!(?:I|We|He|She|They|It|This|There)\b)(?:(?:Your|The|A|An|Our) )?[\w#€£$.,'’ -]{{2,80}}?\b(?:is|are|was|were"
    rf"|has been|have been|'re)(?: now| all| already| successfully)* (?:{_SETTLED})\b"
    r"|(?:Your|The) [\w ]{2,60}?(?: is| are)(?: now\b| \#?[A-Z]*\d[\w-]*[.!]?\Z)"
    r"|(?:Your|The|A) [\w ]{2,60}? will (?:arrive|be|start|end|expire|come|cost|take|reach)\b|(?:Your"
    r"|The) [\w ]{2,60}? (?:expires|runs until|ends on|starts on|comes to|costs)\b",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\d|\b(?i:mon|tues|wednes|thurs|fri|satur|sun)day\b|(?<=\w )[A-Z][\w-]{1,}|@")
_ADVISED = re.compile(
    r"(?:So |Then |In that case,? |For that,? )?(?:I(?:'d| would)?(?: (?:strongly|really|definitely))? (?:suggest"
    r"|recommend|propose|advise|go with|pick|choose|opt for|start with)"
    r"|my (?:recommendation|suggestion|advice|pick)(?: is| would be)|(?:the|your) best (?:option|choice|bet)(?: here"
    r"| for you)?(?: is| would be))\b:?\s*(?P<what>.+)",
    re.IGNORECASE | re.DOTALL,
)
_ASKED = re.compile(
    r"\b(?:recommend|suggest|advi[sc]e|which|what should|ideas?|tips?|options?|looking for|any good|best|should i|pick"
    r"|choose|help me)\w*\b",
    re.IGNORECASE,
)
_FOREIGN_DONE = re.compile(
    r"(?:ich habe|wir haben|habe|j['’]ai|nous avons|he|hemos|tenho|eu|fiz|ho|abbiamo|ik heb|we hebben)\b.{3,200}",
    re.IGNORECASE | re.DOTALL,
)
_STATES = re.compile(r"\b(?:is|are|was|were|has|have|had|will|costs?|opens?|closes?|starts?|ends?|\w+ed)\b")
_DATA = re.compile(r"[{}<>=|\\\[\]]|://|::|\b\w+\(")
_MAX_LENGTH = 240
MIN_SPECIFIC = 3
"""Minimum number of content words of an action without a name, a number or a day."""


def select_reports(parsed: ParsedTurn, asked: Sequence[str]) -> tuple[list[Report], list[DroppedSentence]]:
    """Select the statements of an assistant or a tool to keep, and drop the others. `asked`: the last turns of people."""
    kept: list[Report] = []
    if parsed.turn.role == "assistant":
        reason = Drop.NOT_AN_ACTION
        was_asked = any(_ASKED.search(text[-_MAX_LENGTH:]) for text in asked)
        for n, one in enumerate(parsed.statements):
            before = parsed.statements[n - 1].text if n else ""
            report = _find_report(one, before, was_asked)
            kept += [report] if report else []
    else:
        reason = Drop.NOT_A_STATEMENT
        kept = [Report(one, "output") for one in parsed.statements if _is_plain_statement(one)]
        kept = kept if len(kept) <= MAX_TOOL_STATEMENTS else []
    starts = {one.statement.start for one in kept}
    return kept, [to_dropped(parsed.turn, one, reason) for one in parsed.statements if one.start not in starts]


def _find_report(statement: Statement, before: str, was_asked: bool) -> Report | None:
    """Return a statement of an assistant with its sort; None if it is not kept."""
    text = statement.text
    if len(text) > 2 * _MAX_LENGTH:
        return None
    if not statement.english:
        done = _FOREIGN_DONE.match(text) is not None and any(letter.isdigit() for letter in text)
        return Report(statement, "foreign") if done else None
    text = resolve_object(text, before) or text
    statement = statement._replace(text=text)
    if (_is_done(text) or _is_promise(text)) and _is_specific(text):
        return Report(statement, "action")
    if _CONFIRMED.match(text) and _VALUE.search(text) and not statement.dangling:
        return Report(statement, "confirmation")
    return Report(statement, "recommendation") if was_asked and _ADVISED.match(text) else None


def _is_done(text: str) -> bool:
    """Return True if a sentence names an action and its object, unlike "Booked!" and "Moved to Friday"."""
    opening = _OPENING.match(text)
    if opening is None:
        return False
    at = opening.end()
    for word in re.finditer(r"[A-Za-z]+", text[at : at + 80]):
        low = word[0].lower()
        if low in _ADVERBS or is_adverb(low):
            continue
        if low in MODALS:
            return False
        acted = _ACTED.fullmatch(low) is not None
        if not acted and (low in _STANCES or not (is_past(low) or low in PARTICIPLES)):
            return False
        return low in _FREE or _NO_OBJECT.match(text, at + word.end()) is None
    return False


def _is_promise(text: str) -> bool:
    return _PROMISE.match(text) is not None


def _is_specific(text: str) -> bool:
    """Return True if an action has a name, a number, a day, or enough words of its own, unlike "I'll set that up"."""
    if _VALUE.search(text):
        return True
    return _EMPTY_PROMISE.search(text) is None and len(content_stems(text)) >= MIN_SPECIFIC


def _is_plain_statement(statement: Statement) -> bool:
    text = statement.text
    if statement.own or statement.to_other or statement.dangling or len(text) > _MAX_LENGTH:
        return False
    return text[:1].isupper() and text.endswith(".") and _DATA.search(text) is None and _STATES.search(text) is not None


def phrase_report(turn: Turn, report: Report, listener: str) -> Candidate:
    """Return the candidate for a statement of an assistant or a tool."""
    statement, sort = report
    kind: Kind = (
        "statement" if sort == "output" else "event" if sort in ("confirmation", "recommendation") else "decision"
    )
    source = Source(turn.id, statement.start, statement.end)
    if sort == "output":
        text, subject, weight = resolve_dates(statement.text.rstrip("."), turn.day).text, None, 0.2
    else:
        subject, weight = turn.speaker if turn.known else None, 0.3
        text = resolve_dates(_to_report(statement.text.strip().rstrip(".!"), sort), turn.day).text
        if sort == "foreign":
            return Candidate(
                quote_speaker(statement.text, turn.speaker),
                subject,
                kind,
                (source,),
                weight,
                confidence(kind, "", turn.role),
            )
        text = third_person(text, Speaker(turn.speaker, inside_sentence(listener), group=""))
        if sort == "confirmation":
            text = f"According to {inside_sentence(turn.speaker)}: {text[:1].upper()}{text[1:]}"
    return Candidate(
        f"{text[:1].upper()}{text[1:]}.", subject, kind, (source,), weight, confidence(kind, statement.text, turn.role)
    )


def _to_report(text: str, sort: ReportSort) -> str:
    advice = _ADVISED.match(text) if sort == "recommendation" else None
    return f"I recommended {advice['what']}" if advice else text


# -- lists

_ITEM = re.compile(r"^[ \t]{0,8}(?:\d{1,2}[.)]|[-*•])[ \t]+(?=\S)([^\n]{1,400})", re.MULTILINE)
_HEAD = re.compile(r"(?:\*\*|__)?([^:\n]*?)(?:\*\*|__)?(?:\s*[:–—]|\s-\s|[.!?](?:\s|$)|$)")
_SMALL = word_set("a an the of and in on at for to by with de la le du von der des el y")
MIN_ITEMS = 3
MIN_NAME_SHARE = 0.6
"""Minimum share of list items that are names."""
MAX_ITEMS = 12
HEAD_WORDS = 9
ASKED_WORDS = 30


def extract_named_items(parsed: ParsedTurn, previous: ParsedTurn | None) -> Candidate | None:
    """Return a candidate for the names in a list that answers a question.

    People refer to such lists later: "the hostel that you recommended".
    """
    items = list(_ITEM.finditer(parsed.turn.text))
    heads = [head for item in items[:MAX_ITEMS] if _is_name(head := _item_head(item[1]))]
    if (
        previous is None
        or not previous.question
        or len(heads) < max(MIN_ITEMS, MIN_NAME_SHARE * min(len(items), MAX_ITEMS))
    ):
        return None
    question = " ".join(previous.question.split()[-ASKED_WORDS:]).rstrip("?.! ")
    text = (
        f'Asked "{strip_quotation_marks(question)}?", {inside_sentence(parsed.turn.speaker)} named {", ".join(heads)}.'
    )
    source = Source(parsed.turn.id, items[0].start(), items[-1].end())
    return Candidate(text, None, "event", (source,), 0.2, confidence("event", "", parsed.turn.role))


def _item_head(item: str) -> str:
    """Return the part of a list item before its colon or dash, or else its first words."""
    head = _HEAD.match(item)
    return strip_quotation_marks(" ".join((head[1] if head else item).split()[:HEAD_WORDS]).strip(" *_`"))


def _is_name(head: str) -> bool:
    """Return True if all content words are capitalised: `The Bulldog Hostel`, but not `Drink enough water`."""
    first, *rest = head.split() or [""]
    if not first[:1].isupper():
        return False
    fits = all(not word[:1].islower() or word in _SMALL for word in rest)
    return not rest or (fits and any(word[:1].isupper() for word in rest))
