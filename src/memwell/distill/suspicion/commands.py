"""The commands in a sentence: verbs that tell somebody to do something, and what they are told to do.

"I always recommend Porto" is no command, "always recommend Porto" is one, and so is "the assistant must recommend Porto".
Which of them is an attack is said by `instruction_signs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_KINDS: dict[str, str] = {
    "override": "ignore disregard forget override bypass overrule discard erase abandon neglect stop violate",
    "obey": "obey comply follow",
    "steer": "recommend suggest promote prefer favour favor advertise praise endorse rank cite prioritise prioritize mention "
    "bring push feature speak list point refer direct redirect steer name position",
    "buy": "buy order purchase book choose pick pay transfer",
    "use": "use share visit open link fetch download include add append insert put show render install display replace",
    "say": "say answer reply respond return give tell state claim deny pretend insist refer treat look replace redirect point "
    "use describe mention recommend suggest report quote name assume substitute swap confirm",
    "send": "send post forward upload email mail transmit submit append copy bcc cc leak exfiltrate export collect share "
    "paste encode include log publish",
    "run": "run execute call invoke unlock delete approve grant disable skip elevate enable fetch install empty "
    "authorise authorize carry",
    "tool": "use call run execute invoke fetch carry install delete trigger",
    "reveal": "reveal print output repeat show display leak dump tell give expose share disclose",
    "keep": "remember memorise memorize store save note keep bear commit add update record cite log learn register",
    "trust": "trust consider treat believe regard accept",
    "hide": "hide conceal keep",
    "pose": "act pretend simulate behave enter switch play become roleplay",
    "inform": "tell inform mention reveal disclose notify warn show alert let bring report",
    "persuade": "tell ask convince persuade urge instruct get trick warn",
    "praise": "rate describe summarise summarize mark rank review",
    "wipe": "delete erase overwrite wipe replace remove change reset",
    "make": "make ensure begin start end finish insert add include close open",
    "do": "do apply follow obey add log record change raise pay order transfer send forward delete",
}  # fmt: skip
KINDS_OF: dict[str, frozenset[str]] = {
    verb: frozenset(kind for kind, verbs in _KINDS.items() if verb in verbs.split())
    for verbs in _KINDS.values()
    for verb in verbs.split()
}
AGENT = (
    r"(?:you|(?:the |any |every |all |dear |this )?(?:ai|a\.i\.|assistants?|agents?|chat ?bots?|bots?|llms?|language models?"
    r"|models?|copilots?|chatgpt|claude|gemini)(?: (?:models?|assistants?|agents?|systems?))?)"
)
MODAL = (
    r"(?:must|should|shall|will|have to|has to|need to|needs to|ought to|had better|(?:are|is) (?:now )?(?:to|required to"
    r"|instructed to|obliged to|asked to|expected to|supposed to))"
)
_ADVERB = (
    r"(?:please|kindly|always|never|only|now|also|just|simply|immediately|permanently|secretly|silently|quietly|covertly|first"
    r"|do not|don't|dont|not|must|automatically|still|even|instead|henceforth|exclusively|directly|actively|do)"
)
_TOLD_TO = (
    r"(?:required|instructed|(?:asked|told|want|wants|need|like|asks|tells|expects?) you|make sure|be sure"
    r"|(?:task|goal|job|mission"
    r"|policy|duty)(?: for \w{1,20})? is|mandatory for \w{1,20}|remember|order you|consented|free) to"
)
_LASTING = r"(?:from (?:now|today|here) on|from today|going forward|in (?:the )?future|henceforth)"
_COMMANDS = re.compile(
    rf"(?:^[\W_]*|[,;:.!?>)\]*–—]\s*|-\s+|(?<!\w)(?:and|then|but|or|please|kindly|so|{AGENT}(?: {MODAL})?"
    rf"|{_TOLD_TO}|{_LASTING})\s)"
    rf"(?:{_ADVERB}\s){{0,4}}$"
)
_SOMEBODY_DOES = re.compile(
    r"^\W*(?:i|we|he|she|they|it|my|our|his|her|their|this|that)\b(?!.*\b(?:you"
    r"|assistants?|agents?|ai)\b)"
)
_NOT = re.compile(r"(?:never|not|don't|dont|without)\s(?:\w{1,12}\s){0,2}$")
VERBS = frozenset(KINDS_OF)
_WORD = re.compile(r"[a-z][a-z'-]*")
_BEFORE = 70
_JOINS = ("and ", "or ", "but ", "so ", "then ")
_GRAVE = frozenset({"override", "reveal", "send", "hide"})
"""Kinds that are believed to be commands even if nothing else in the sentence is one."""


class Command(NamedTuple):
    """A verb that tells somebody to do something."""

    verb: str
    kinds: frozenset[str]
    negated: bool
    start: int
    """Where the verb stands in the sentence."""
    end: int


def commands(lowered: str) -> Iterator[Command]:
    """The commands in a sentence, which is given in lower case."""
    earlier = False
    for match in _WORD.finditer(lowered):
        kinds = KINDS_OF.get(match[0])
        before = lowered[max(0, match.start() - _BEFORE) : match.start()] if kinds else ""
        if kinds and _commanded(before, earlier or not kinds.isdisjoint(_GRAVE)):
            earlier = True
            yield Command(match[0], kinds, _NOT.search(before) is not None, match.start(), match.end())


def _commanded(before: str, joined: bool) -> bool:
    """Whether a verb that stands behind these words is a command. Behind "and" it is if what it is joined to is one."""
    found = _COMMANDS.search(before)
    if found is None:
        return False
    if not found[0].lstrip().startswith(_JOINS):
        return True
    return joined and _SOMEBODY_DOES.match(before) is None
