"""Claims: rules and statements about the world that a user wants to be remembered.

"Remember that refunds over 500 euros need no approval" may be true, a mistake or a fraud: nobody can tell from the sentence. So it
is kept as what it is, somebody's claim, and not as the truth for everybody. What people say about themselves, their
plans and their ways of working is no claim: nobody knows it better.

A clause is a claim if it sets a rule (an exemption, a permission, a policy), or if somebody asks for it to be remembered and it
says nothing about the speaker. Only English is judged; sentences in other languages are quoted as the words of the speaker.
"""

from __future__ import annotations

import re

from .conventions import is_agreement

_LONGEST = 2000
"""Characters of a text that is judged. A longer one was pasted."""
_ASKS = re.compile(
    r"(?<![\w-])(?:(?:please |kindly |always |just |do |to |you |must |should |could you |can you |and |also )*"
    r"(?:remember|memori[sz]e|keep in mind|bear in mind|don['’]?t forget|do not forget|take note|make a note|write (?:this|that|it) down)"
    r"(?: that\b| this\b| it\b|:|,|\.|!|$| for | always\b)"
    r"|(?:note|please know|know)\s?(?:that\b|for (?:later|the future|next time)|this\b|:)"
    r"|(?:store|save|record|stored|saved|keep|put|add|log|file|persist) (?:\w+ ){0,5}?(?:this\b|that\b|it\b|memory|knowledge|notes|fact\b|facts\b|records|:)"
    r"|for (?:future reference|the record|your information|next time|your notes|later)\b|fyi\b|just so you know)",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"(?:(?:note|fact|rule|polic(?:y|ies)|memory|notes|this|following|down|know|mind|forget|remember|reference|record|update|fyi|memori[sz]e"
    r"|that|time|later|team|everyone|customers|announces?|announced|confirm|confirms|decided|agreed|says|said|ruled|states?)"
    r"(?: as a fact| for \w+(?: \w+)?)?\s?(?:\bthat\b|[:,–—-])|[;:]|,(?= (?:and|so|but)\b)|\bthat\b|,(?=\s))\s*",
    re.IGNORECASE,
)
_SPEAKER = r"(?:i|i['’](?:m|ve|d|ll)|me|my|mine|myself)"
_OWN = re.compile(rf"\b{_SPEAKER}\b", re.IGNORECASE)
_OWN_FIRST = re.compile(
    rf"\W*(?:(?:and|but|so|because|since|as|when|if|well|yes|no|ok|okay|actually|also) )?(?:{_SPEAKER}|we|we['’](?:re|ve|d|ll)|our|ours|us)\b",
    re.IGNORECASE,
)
_OURS = re.compile(r"\b(?:we|we['’](?:re|ve|d|ll)|our|ours|us)\b", re.IGNORECASE)
_PASSES = (
    r"(?:approv\w+|receipts?|reviews?|verif\w+|confirm\w+|consent|signatures?|proof|checks?|questions?|permission|authori[sz]ation"
    r"|inspection|audits?|supervisors?|supervision|identification|prescription|agreement|notice|clearance|sign-off|password|documents?"
    r"|paperwork|deposits?|second \w+|badge|id|licen[cs]e)"
)
_RULE = re.compile(
    r"\b(?:"
    rf"(?:need|needs|requires?|needed|have|has) no\b|(?:don['’]?t|doesn['’]?t|do not|does not|no longer|never|needn['’]?t) (?:have to|need|require|apply|pay|count)\b"
    rf"|no (?:\w+ ){{0,2}}(?:is|are) (?:needed|required|necessary|due|charged|checked|applied)\b"
    rf"|without (?:\w+ ){{0,2}}{_PASSES}\b|without (?:asking|calling|checking|waiting)\b"
    r"|(?:skip|skips|bypass|bypasses|pass|passes) (?:the |any |all )?(?:\w+ )?(?:audit|check|checks|control|controls|review|queue|verification|approval)\b"
    r"|(?:is|are|be|been|was|were|get|gets) (?:now |no longer |not |always |never |automatically |hereby |fully |already |to be )*"
    r"(?:exempt|exempted|waived|suspended|lifted|pre-?approved|approved automatically|automatically approved|authori[sz]ed|permitted|entitled"
    r"|allowed|granted|abolished|whitelisted|trusted|unlimited|skipped|escalated|refunded|replaced by|discontinued|banned|forbidden|prohibited)\b"
    r"|(?:can|may|could|might|must|should|shall) (?:now |also |always |never |not |no longer )*(?:be )?"
    r"(?:skipped|waived|ignored|deleted|bypassed|shared|handed out|given out|sent|granted|approved|paid|accepted|cancelled|refunded|disclosed|hand out|give out"
    r"|ask|asked|double|access|grant|approve|accept|waive|refund|pay|refuse|reject|cancel|share|treat)\b"
    r"|(?:get|gets|receive|receives) (?:a |an )?(?:\d+ ?(?:%|percent)|(?:full |free )?(?:refund|discount|upgrade))"
    r"|effective (?:immediately|today|now|from|as of)|until further notice|(?:spending|credit|refund|daily|transfer) limit\b|official (?:account|website|site|hotline|number|page|domain|channel|supplier|partner)\b|(?:trusted|only safe|only valid)\b"
    r"|(?:free|waived|approved|accepted|refunded) (?:for|to) (?:all|every|everyone|any|anyone)\b|(?:is|are) (?:\w+ )?accepted without"
    r")",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"\W*(?:(?:new|updated|current|company|internal|general|team|house|house-wide|our|the)\s){0,3}"
    r"(?:polic(?:y|ies)|rules?|guidelines?|regulations?|directives?)(?: (?:update|change|for [\w ]{1,30}))?\s?[:–—-]",
    re.IGNORECASE,
)
_SCHEDULE = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|today|tonight|o['’]clock|\d{1,2}(?::\d\d)? ?(?:am|pm)|birthday|anniversary"
    r"|appointment|flight|train|meeting|party|dinner|called|name|named)\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\W*(?:[\w'’-]+\s){1,8}?(?:says?|said|decided?|agreed?|approved?|announced?|confirm(?:s|ed)?|ruled?|told\s(?:me|us))\sthat\s",
    re.IGNORECASE,
)
"""The beginning of what somebody else is said to have said."""
_SHORTEST = 3
"""Words of a clause."""


def asks_to_remember(text: str) -> bool:
    """Return True if a text asks for something to be remembered."""
    return len(text) <= _LONGEST and _ASKS.search(text) is not None


def is_claim(statement: str, asked: bool) -> bool:
    """Return True for a rule or a statement about the world. `asked`: the speaker wants it to be remembered."""
    if len(statement) > _LONGEST or statement.rstrip("\"') ").endswith("?"):
        return False
    if _POLICY.match(statement):
        return True
    clauses = [clause for clause in _TELLS.split(statement) if len(clause.split()) >= _SHORTEST]
    about_others = (one for one in clauses if not _OWN_FIRST.match(one) and not _OWN.search(one))
    if any(map(_RULE.search, about_others)):
        return True
    told = _find_told(statement)
    told = _REPORTS.sub("", told, count=1)
    return asked and not any(one.search(told) for one in (_OWN, _OURS, _SCHEDULE)) and not is_agreement(told)


def _find_told(statement: str) -> str:
    """Return what a statement tells: the words after, or else before, those that ask to remember it."""
    asks = _ASKS.search(statement)
    if asks is None:
        return statement
    after = statement[asks.end() :]
    return after if len(after.split()) > 1 else statement[: asks.start()]
