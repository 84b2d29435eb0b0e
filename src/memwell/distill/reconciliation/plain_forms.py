"""The wordings by which a statement is brought into a plain form, as tables of rules.

Each rule has cues: words one of which must be there for its pattern to be worth trying, which most often none is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from .thesaurus import PAST

Polarity = Literal["is", "not", "was"]
"""Affirmed, denied, or over: "no longer", "used to", "quit"."""
Mood = Literal["if", "maybe", "will"]


@dataclass(frozen=True)
class Rule:
    """A pattern, compiled when it is first needed, and what replaces what it finds."""

    cues: frozenset[str]
    source: str
    plain: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.source, re.IGNORECASE)

    def apply(self, text: str, words: frozenset[str]) -> str:
        return text if self.cues.isdisjoint(words) else self.pattern.sub(self.plain, text)

    def finds(self, text: str, words: frozenset[str]) -> re.Match[str] | None:
        return None if self.cues.isdisjoint(words) else self.pattern.search(text)


def rule(cues: str, pattern: str, plain: str = "") -> Rule:
    return Rule(frozenset(cues.split()), pattern, plain)


def seen(text: str) -> frozenset[str]:
    """The words by which rules are chosen, and the person's sign."""
    return frozenset(_WORDS.findall(text.lower()))


_WORDS = re.compile(r"@|'?[a-z]+")
_SAYS = "said says wrote stated mentioned told corrected"
_QUOTED = (
    r"^\W*(?:on [\w ]+, )?(?:@|\w+)(?: (?:has|also))* (?:"
    + _SAYS.replace(" ", "|")
    + r")(?: \S+)?(?: that)?:?\s*\"(.+)\"\W*$"
)

REWRITES = (
    rule("dr mr mrs ms st prof", r"\b(Dr|Mr|Mrs|Ms|St|Prof)\.", r"\1"),
    rule("asked", r"^asked \"[^\"]*\", "),
    rule(_SAYS, _QUOTED, r"\1"),
    rule("'m", r"\bI'm\b", "@ is"),
    rule("i we", r"\b(?:I am|we are|we're)\b", "@ is"),
    rule("'ve", r"\b(?:I|we)'ve\b", "@ has"),
    rule("'ll", r"\b(?:I|we)'ll\b", "@ will"),
    rule("'d", r"\b(?:I|we)'d\b", "@ would"),
    rule("i we me us", r"\b(?:I|we|me|us)\b", "@"),
    rule("my our", r"\b(?:my|our)\b", "@'s"),
    rule("@", r"@'(?=\s)", "@'s"),
    rule("others", r"@ and others\b", "@"),
    rule("said says stated mentioned noted remembers knows confirmed corrected",
         r"^@ (?:has )?(?:said|says|stated|mentioned|noted|remembers|knows|confirmed|corrected)(?: that|:)? (?=\w+ \S|@)"),
    rule("as", r"^as @ (?:said|mentioned|told)\b[^,]*, (?:they|she|he|@) ", "@ "),
    rule("according", r"^according to @, "),
    rule("sorry", r"^@ is sorry,? (?:but )?|, sorry(?=[.!]*$)"),
    rule("sorry actually well so oh oops yes no and but much nope yeah honestly anyway way correction as",
         r"^(?:sorry|actually|well|so|oh|oops|yes|no|and|but|not much|nope|yeah|honestly|anyway|by the way|correction|as for @)\b"
         r"[\s,:]+"),
    rule("meant means", r"^(?:@|they|she|he) (?:meant|means)(?: that)?,? "),
    rule("'t cannot won", r"\bwon't\b", "will not"),
    rule("'t cannot", r"\bcan't\b|\bcannot\b", "can not"),
    rule("'t don doesn didn isn aren wasn weren hasn haven hadn wouldn couldn shouldn", r"n't\b", " not"),
    rule("stand bear", r"\b(?:can|could) not (?:stand|bear)\b", "hates"),
    rule("any", r"\bany more\b(?! \w)", "anymore"),
    rule("would 'd", r"\b(?:would|'d) (?:like|love)\b", "wants"),
    rule("got", r"\b(?:has|have) got\b", "has"),
    rule("@", r"^([\w -]+?), (@'s [\w ]+?),", r"\2 \1"),
    rule("@", r"^(@'s [\w ]+?), ([\w-]+),", r"\1 \2"),
    rule("fan fans", r"\b(?:is|are) (?:a )?(?:big|huge|great|real)? ?fans? of\b", "likes"),
    rule("non", r"\bnon-smoker\b", "not smoker"),
    rule("twice", r"\btwice\b", "2 times"),
)  # fmt: skip

MOODS: dict[Mood, Rule] = {
    "if": rule(
        "if unless would could wish wishes wished imagine imagines imagining suppose",
        r"\b(?:if|unless|would|could|wish(?:es|ed)?|imagin\w+|suppose)\b",
    ),
    "maybe": rule(
        "might maybe perhaps possibly probably considering considers consider thinking thinks think sure almost nearly",
        r"\b(?:might|maybe|perhaps|possibly|probably|consider\w*|think(?:s|ing)? (?:of|about)|not sure|almost|nearly)\b",
    ),
    "will": rule(
        "will shall plan plans planning intends intending intend hope hopes hoping want wants wanted dream dreams dreaming "
        "dreamed about going try tries trying looking next",
        r"\b(?:will|shall|plans?|planning|intends?|intending|hop(?:es?|ing)|wants? to|wanted to|dream(?:s|ed|ing)? (?:of|about)|"
        r"about to|going to (?-i:(?!the |a )[a-z]+)|tr(?:ies|ying) to|looking (?:to|for|forward)|next (?:week|month|year))\b",
    ),
}

POLARITIES: tuple[tuple[Polarity, Rule], ...] = (
    ("was", rule("longer", r"\b(is|are|has|have|does|do)? ?\bno longer\b", r" \1 ")),
    ("was", rule("anymore", r"\b(?:(is|are|has|have|can)|does|do|will) not\b(.*?) anymore\b", r"\1\2")),
    ("was", rule("used", r"(?<!is )(?<!are )(?<!got )(?<!get )\bused to (?:be )?")),
    ("was", rule("quit quits quitting stopped given gave giving ceased gone",
                 r"\b(?:has |have |is )?(?:quit|quits|quitting|stopped|given up|gave up|giving up|ceased|gone off) (?:on )?"
                 r"(?=\w+ing\b)")),
    ("was", rule("to", r"\b(?:had to|has to|decided to) (?:sell|cancel|give away|give up|call off|quit|stop)\b", "has")),
    ("was", rule("quit dropped", r"\b(?:has |have )?(?:quit|dropped out of) (?=(?:@'s|his|her|their|the)\b)", "has ")),
    ("was", rule("sold cancelled canceled called rid gave given",
                 r"\b(?:has |have )?(?:sold|cancelled|canceled|called off|got rid of|gave away|gave up|given up)\b", "has")),
    ("not", rule("not never",
                 r"\b(?:(is|are|was|were|has|have|had|will|would|can|could|should)|does|do|did) (?:not|never)\b", r"\1")),
    ("not", rule("never", r"\b(?:has |have )?never\b")),
    ("not", rule("no", r"\b(has|have|had|is|are|with) no\b(?! \w+ (?:problem|issue)s?\b)", r"\1")),
    ("not", rule("not nor neither without nobody nothing refuses hardly avoids",
                 r"\b(?:not|nor|neither|without|nobody|nothing|refuses to|hardly|avoids)\b")),
)  # fmt: skip

CHANGED = rule(
    "now nowadays longer anymore recently new newly instead moved switched changed became becomes turned started joined promoted "
    "rescheduled postponed pushed transferred went currently again replaced",
    "",
).cues
ADVERBS = rule(
    "now currently still just recently really actually already finally also too always days nowadays moment present basically "
    "definitely absolutely as you very truly anymore once far right",
    r"\b(?:now|currently|still|just|recently|really|actually|already|finally|also|too|always|these days|nowadays|at the moment|"
    r"at present|basically|definitely|absolutely|as (?:you|@) (?:know|said)|you know|very|truly|anymore|once more|for now|so far|"
    r"right now)\b",
    " ",
)
CONTRAST = rule(
    "not instead rather from",
    r"(?:, not| \(not|,? instead of|,? rather than) (?P<other>[^,.;!?()]+)\)?(?=[.!?]*$)"
    r"|(?<=ed) from (?P<former>[^,.;!?]+?)(?= to )",
)
TAIL = re.compile(
    r"(?:, so|,? (?:because|but|although|though|which|even though|as well as|whereas)) (?!far\b|that\b|much\b)"
    r"|, (?=(?:@(?:'s)?|they|she|he|it|their|his|her)[ '])|, by the way\b",
    re.IGNORECASE,
)
"""Where a reason, a consequence, an objection or another sentence begins. Its denial does not deny the statement."""
COMPARED = rule(
    "than over prefer prefers preferred",
    r"(?<= )(?:more |better |rather )?than\b|(?<=\w )over (?=\w+[.!]?$)"
    r"|(?<=prefers )([\w-]+) to (?=\w)|(?<=prefer )([\w-]+) to (?=\w)",
    r"\1\2" + "\n",
)
"""What follows is what something is compared with."""
PAST_TENSE = re.compile(
    r"@ (?:has (?:been )?|have (?:been )?)?(?!(?:married|divorced|based|named|called|retired|engaged)\b)(?:\w+ed|"
    + "|".join(PAST)
    + r")\b",
    re.IGNORECASE,
)
SUFFERED = re.compile(
    r"(?<=\w )@(?=$|[.,;!?]| (?:a|an|the|his|her|their|some|in|on|at|to|with|for|about|from|by|that|@'s|\d+)\b)",
    re.IGNORECASE,
)
