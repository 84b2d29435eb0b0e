"""Decide which sentences of a turn are kept. Every dropped sentence gets its reason, one of `Drop`, in this file.

1. `parse_turn` blanks text that the speaker does not state, and drops sentences that are not statements.
2. `select_groups` selects among a person's statements: those that are certainly facts, and as many others as the score of the
   turn allows. `reports.select_reports` selects among the statements of assistants and tools.
3. `drop_duplicates` drops sentences with the same candidate.

Kept sentences become candidates. `reconcile.py` decides what happens to a candidate, and
`plan_builder.py` plans it for all candidates of a turn.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...text.word_sets import load_sections, load_words, word_set
from ..datatypes import NOT_PEOPLE, Candidate, DroppedSentence, ReasonCode, Turn
from .foreign import find_language, is_ironic, is_unreal, says_nothing, split_question, strip_lead
from .irony import Tone, find_tone, is_praise_of_trouble
from .passages import (
    MAX_SENTENCE,
    Sentence,
    blank_code,
    blank_pasted_lines,
    blank_quotes,
    blank_recalled_memory,
    find_blanks,
    is_chat_question,
    is_english,
    is_foreign_greeting,
    is_question,
    may_be_mixed,
    split_brackets,
    split_clauses,
    split_list,
    split_off_question,
    split_remarks,
    split_sentences,
)
from .requests import is_command
from .statement import TRAITS, Statement, content_stems, is_only_chat, parse_sentence


class Drop(ReasonCode):
    """The reason why a sentence did not become a candidate, in the order of the checks."""

    SYSTEM_TURN = "system_turn", "It is in a turn of the role `system`."
    RECALLED_MEMORY = "recalled_memory", "It is memory in a prompt, between `<memory …>` marks."
    CODE = "code", "It is code, a log or a traceback."
    BRACKETS = "brackets", "It is a remark in brackets, such as `[laughs]`."
    QUOTE = "quote", "It is from somebody else (a mail, a letter, a transcript), or a text to work on."
    TOO_LONG = "too_long", "It has more than 600 characters, or the turn has 2,000 sentences before it."
    SARCASM = "sarcasm", "It is ironic or a joke: it says so, or nobody says it in earnest."
    QUESTION = "question", "It is a question."
    GREETING = "greeting", "It is a greeting in another language."
    HYPOTHETICAL = "hypothetical", "It supposes something, or asks to write a text."
    HEADING = "heading", "It ends with a colon."
    NO_WORDS = "no_words", "It has no words."
    NOT_AN_ACTION = "not_an_action", "It is from an assistant, and not about what the assistant did or promised."
    NOT_A_STATEMENT = "not_a_statement", "It is from a tool, and is data or belongs to a long output."
    CORRECTED = "corrected", "A later sentence of the turn corrects it."
    SMALL_TALK = "small_talk", "It has fewer than two words with a meaning of their own, or only agrees."
    MOMENT = "moment", 'It is about this moment only: "The bus is here".'
    LINK = "link", "It is only a link."
    ADVICE = "advice", "It is advice, encouragement or a farewell."
    PROPOSAL = "proposal", "It proposes something."
    COMMAND = "command", "It asks the agent to do something once."
    LOW_SCORE = "low_score", "Its turn has a low score, or has better sentences."
    DUPLICATE = "duplicate", "Another sentence of the turn gives the same fact."


# -- sentences

MAX_SENTENCES = 2000
"""Maximum number of sentences of a turn. The rest is dropped."""
_HAS_WORD = re.compile(r"[^\W_]")


class ParsedTurn(NamedTuple):
    turn: Turn
    statements: tuple[Statement, ...] = ()
    question: str = ""
    """The last question, or empty."""
    questions: int = 0
    only: Sentence | None = None
    """The sentence that is not a question, if the turn has exactly one."""
    attachments: tuple[Sentence, ...] = ()
    """Descriptions of pictures and files in brackets: "[shares a photo of a dog]"."""
    words: frozenset[str] = frozenset()
    ironic: bool = False
    """A sentence is certainly or perhaps ironic."""
    language: str | None = None
    """The language, unless it is English or unknown."""
    dropped: tuple[DroppedSentence, ...] = ()


class Manner(NamedTuple):
    """How the speaker of a turn has spoken before."""

    alone: bool = False
    """The speaker is the only person in the conversation."""
    ironic: bool = False
    language: str | None = None
    """The language of the turns before, unless it is English or unknown. Short turns do not show their language."""


def parse_turn(turn: Turn, names: Collection[str], manner: Manner) -> ParsedTurn:
    """Split a turn into statements. `names`: the names by which a speaker may be addressed, in lower case."""
    if turn.role == "system":
        return ParsedTurn(turn, dropped=(DroppedSentence(turn.id, 0, len(turn.text), Drop.SYSTEM_TURN),))
    dropped: list[DroppedSentence] = []
    text, attachments = _mask(turn, dropped)
    pieces = split_sentences(text)
    pieces, too_many = pieces[:MAX_SENTENCES], pieces[MAX_SENTENCES:]
    dropped += [to_dropped(turn, one, Drop.TOO_LONG) for one in too_many]
    sincere = _remove_sarcasm(pieces)
    if len(sincere) < len(pieces):
        dropped += [to_dropped(turn, one, Drop.SARCASM) for one in pieces if one not in sincere]
    alone = manner.alone and turn.role not in NOT_PEOPLE
    manner = manner._replace(alone=alone, language=_find_language(text, manner.language))
    clauses = _split(turn, text, sincere, manner)
    questions: list[str] = []
    plain: list[Sentence] = []
    statements: list[Statement] = []
    for at, (sentence, is_in_english, language, tone) in enumerate(clauses):
        last = at + 1 == len(clauses) if turn.note else None
        asks = is_question(sentence.text) or (alone and is_in_english and is_chat_question(sentence.text))
        if asks:
            questions.append(sentence.text)
        else:
            plain.append(sentence)
        reason = _find_sentence_drop(sentence, asks, last) or _TONE_DROPS.get(tone)
        if reason is None and alone and is_in_english and is_only_chat(sentence.text):
            reason = Drop.SMALL_TALK
        if reason is None and not is_in_english and not turn.note:
            reason = _find_foreign_drop(sentence.text, language)
        if reason is None:
            statement = parse_sentence(at, sentence, names, turn.note, is_in_english, tone, alone)
            if _HAS_WORD.search(statement.text):
                statements.append(statement)
                continue
            reason = Drop.NO_WORDS
        dropped.append(to_dropped(turn, sentence, reason))
    return ParsedTurn(
        turn,
        tuple(statements),
        question=questions[-1] if questions else "",
        questions=len(questions),
        only=plain[0] if len(plain) == 1 else None,
        attachments=tuple(attachments),
        words=content_stems(text),
        dropped=tuple(dropped),
        language=manner.language,
        ironic=any(one.tone is Tone.IRONIC or is_praise_of_trouble(one.sentence.text) for one in clauses)
        if alone
        else False,
    )


class _Clause(NamedTuple):
    """A clause, its language, and how it is meant."""

    sentence: Sentence
    english: bool
    language: str | None
    tone: Tone


_TONE_DROPS = {Tone.IRONIC: Drop.SARCASM, Tone.UNREAL: Drop.HYPOTHETICAL}


def _find_language(text: str, before: str | None) -> str | None:
    """Return the language of a turn, or of the turns before if it does not show; None for English and other languages."""
    if is_english(text, otherwise=False):
        return None
    return find_language(text) or before if not is_english(text) else before


def _split(turn: Turn, text: str, sentences: Sequence[Sentence], manner: Manner) -> list[_Clause]:
    """Split sentences into clauses that can stand alone."""
    english, mixed = is_english(text, otherwise=manner.language is None), may_be_mixed(text)
    alone, ironic, of_turn = manner.alone, manner.ironic, manner.language
    clauses: list[_Clause] = []
    for n, one in enumerate(sentences):
        is_in_english = is_english(one.text, english) if mixed else english
        if not is_in_english:
            language = find_language(one.text) or of_turn
            parts = [strip_lead(part, language) for part in split_question(strip_lead(one, language), language)]
            clauses += [_Clause(part, is_english(part.text, english), language, Tone.SINCERE) for part in parts]
            continue
        following = sentences[n + 1].text if n + 1 < len(sentences) else ""
        tone = find_tone(one.text, following, ironic) if alone and not turn.note else Tone.SINCERE
        ironic = ironic or tone is Tone.IRONIC or is_praise_of_trouble(one.text)
        parts = [clause for part in split_off_question(one, alone) for clause in split_clauses(part)]
        if alone:
            parts = [item for part in parts for remark in split_remarks(part) for item in split_list(remark, TRAITS)]
        clauses += [_Clause(part, is_english(part.text, english) if mixed else english, None, tone) for part in parts]
    return clauses


def _find_foreign_drop(text: str, language: str | None) -> Drop | None:
    """Return the reason to drop a sentence in another language."""
    if is_unreal(text):
        return Drop.HYPOTHETICAL
    if is_ironic(text):
        return Drop.SARCASM
    return Drop.SMALL_TALK if says_nothing(text, language) else None


def to_dropped(turn: Turn, sentence: Sentence | Statement, reason: Drop) -> DroppedSentence:
    return DroppedSentence(turn.id, sentence.start, sentence.end, reason)


def _mask(turn: Turn, dropped: list[DroppedSentence]) -> tuple[str, list[Sentence]]:
    """Blank text that the speaker does not state; return the text, and the attachments that brackets describe."""
    memory = blank_recalled_memory(turn.text)
    code = blank_code(memory)
    brackets, attachments = split_brackets(code)
    quotes = pasted = brackets
    if turn.role != "tool":
        quotes = blank_quotes(brackets, turn.speaker)
        pasted = blank_pasted_lines(quotes)
    texts = (turn.text, memory, code, brackets, quotes, pasted)
    for before, after, reason in zip(texts[:-1], texts[1:], _MASK_REASONS, strict=True):
        if before is not after:
            dropped += [DroppedSentence(turn.id, *span, reason) for span in find_blanks(before, after)]
    return pasted, attachments


_MASK_REASONS = (Drop.RECALLED_MEMORY, Drop.CODE, Drop.BRACKETS, Drop.QUOTE, Drop.CODE)


def _find_sentence_drop(sentence: Sentence, asks: bool, is_last_of_note: bool | None) -> Drop | None:
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


def _remove_sarcasm(sentences: list[Sentence]) -> list[Sentence]:
    """Remove "Yeah right, and I'm the Queen", also if it is two sentences."""
    sincere, before = [], ""
    for one in sentences:
        goes_on = _GOES_ON.match(one.text) and _ONLY_SARCASM.fullmatch(before)
        if not _SARCASM.match(one.text) and not goes_on:
            sincere.append(one)
        before = one.text
    return sincere


# -- the statements of a person

_PROPOSAL = re.compile(r"\W*(?:let's|let us|let me|how about|what about|why don't)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
MIN_CONTENT = 2
_LASTING = word_set("attribute relation possession decision preference")
"""Kinds of lasting statements, which are kept even if they are very short."""


_AGREES = re.compile(
    r"\W*(?:[\w' ]{1,24} )?(?:is|are|sounds?|looks?|works?|would be|will be|seems?)(?: (?:just|also|totally|perfectly|all"
    r"|really|so))* (?:fine|ok|okay|good|great|perfect|nice|lovely|cool|right"
    r"|better|awesome|wonderful|it)(?: (?:with|by|for|to) (?:me|us)| then| now| too| as well| thanks)*\W*\Z"
    r"|\W*[\w' ]{1,24} works(?:,? (?:nice|great|thanks|perfect|cool))?\W*\Z|\W*(?:dunno|idk|no idea|not sure|beats me"
    r"|who knows|whatever)\b"
    r"|\W*(?:i )?(?:agree|approve|understand|see|got it|love (?:it|that|this)|like (?:it|that|this))(?: (?:that|it"
    r"|too))?\W*\Z|\W*skip (?:it|that)\W*\Z",
    re.IGNORECASE,
)
"""Agreement and answers without content."""
_MOMENT = re.compile(
    r"\W*(?:(?:i'?m |i am |i |just |still |ok |nothing,? |not much,? )*(?:waiting for|on my way|heading (?:out|home|off)"
    r"|off to (?:bed|lunch|work)|about to leave|sitting (?:in|on|at) (?:a|the)|stuck in"
    r"|bored|hungry|tired|sleepy|freezing|back now|at (?:lunch|the gym)|watching|scrolling|in a (?:meeting|queue|rush))\b"
    r"|.{0,40}\b(?:is|are) here\b\W*$|(?:have|enjoy) (?:a |an |your )?(?:nice|good|great|lovely|wonderful)? ?(?:day"
    r"|weekend|evening|one|night|rest of)\b.*|lunch time|lunchtime|coffee time|bed ?time"
    r"|.{0,30}\b(?:bbl|brb|cya|ttyl|gtg|g2g|gotta (?:go|run)|talk (?:to you )?(?:soon|later)|see (?:ya|you)(?: (?:soon"
    r"|later|then))?|good ?night|back in (?:a|five|ten|5|10))\b"
    r"|(?:i )?(?:gotta|have to|need to|must) (?:go|run|dash|leave)(?: now)?\W*$|mind\s*=\s*blown|one (?:sec|second|moment"
    r"|minute)|(?:let me|lemme) (?:check|think|see|look)"
    r"|it'?s (?:raining|snowing|sunny|hot|cold|late|early)\b)",
    re.IGNORECASE,
)
"""Statements about this moment, and farewells of a chat."""


_SUBJECT = (
    r"(?!(?:it|that|this|there|these|those|here|he|she|they|we|i|you|what|who|which|everything|nothing|all|and|but|so|if|when"
    r"|who|one|someone|somebody|nobody|another)\b)[\w'’-]+(?: [\w'’-]+){0,3}?"
)
_HAPPENED = re.compile(
    rf"\W*{_SUBJECT} (?:(?:has|have|had|just|sadly|suddenly|recently|peacefully) )*(?:died|passed (?:away|on)"
    rf"|flew (?:away|off)|ran (?:away|off)"
    r"|run away|escaped|expired|(?:got|was|were|is|are|(?:has|have) been) (?:run over|stolen|put (?:down|to sleep)"
    r"|killed|dead|gone|divorced|fixed|repaired|replaced"
    r"|fired|promoted|cancelled|canceled|sold|lost)|retired|resigned|moved (?:away|out|in)|fell through|broke (?:down|up))\b"
    r"|\W*(?:i|we) (?:just )?(?:had to|have to) put [\w ]{1,30} (?:down|to sleep)\b",
    re.IGNORECASE,
)
"""An end of somebody or something: "Rex died". It is a fact, however short it is."""
_OWN_STATE = re.compile(
    r"\W*(?:my|our) (?!(?:god|gosh|bad|pleasure|turn|goodness|word|guess|point|question|fault|mistake|thoughts?"
    r"|apologies|condolences"
    r"|head hurts)\b)(?:[a-z][\w-]*|[A-Z]\w+)(?: [a-z][\w-]*)?? "
    r"(?:(?:doesn't|don't|does not|do not|can't|cannot|won't|can) [a-z]+|[a-z]{2,}(?:s|ed)|broke|hurts?|began|fell|froze"
    r"|(?:is|are|was|feels?|has) (?:\w+ ){0,2}\w+)(?: (?:again|now|already))?\W*",
    re.IGNORECASE,
)
"""A short statement about something of the speaker's: "My heating works"."""
_IS_WELL = re.compile(
    rf"\W*{_SUBJECT} (?:is|are|works?|feels?|looks?) (?:(?:all|much|totally|completely|quite) )?(?:fine|ok|okay|good"
    rf"|better|great|easy"
    r"|well|alright)? ?(?:now|again)\W*"
    rf"|\W*{_SUBJECT} (?:is|are) (?:now )?(?:the|my|our) (?:real |main |big |biggest )?(?:problem|issue|hard part"
    rf"|bottleneck|worst|hardest)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(r"\d[\d.,/:]*\s?(?:[a-z%€$£°]|\Z)", re.IGNORECASE)


def _tells_plainly(statement: Statement) -> bool:
    """Return True for a statement that is a fact although it is short: an end, a state, a solved problem, a measure."""
    if not statement.english or statement.to_other or not statement.content:
        return False
    if statement.own and _MEASURE.search(statement.text) and _OWN_MEASURE.match(statement.text):
        return True
    text = statement.text.replace("’", "'")
    return (
        any(pattern.match(text) for pattern in (_HAPPENED, _IS_WELL, _THERE_ARE))
        or _OWN_STATE.fullmatch(text) is not None
    )


_OWN_MEASURE = re.compile(
    r"\W*(?:i|we) (?:(?:am|are|weigh|was|were|need|have|earn|pay|do|run)|'m|'re)\b|\W*(?:i|we)'(?:m|re)\b",
    re.IGNORECASE,
)


def _find_statement_drop(statement: Statement, alone: bool = False) -> Drop | None:
    """Return the reason to drop a statement without information."""
    if statement.wanted or (statement.kind in _LASTING and not (alone and _AGREES.match(statement.text))):
        return None if statement.content else Drop.SMALL_TALK
    if _ADDRESS.fullmatch(statement.text):
        return Drop.LINK
    if not statement.english:
        return Drop.SMALL_TALK if statement.text.isascii() and not statement.content else None
    if alone and _tells_plainly(statement):
        return None
    if alone and _MOMENT.match(statement.text):
        return Drop.MOMENT
    if alone and _AGREES.match(statement.text):
        return Drop.SMALL_TALK
    if statement.urging:
        return Drop.ADVICE
    if len(statement.content) < MIN_CONTENT:
        return Drop.SMALL_TALK
    if alone and is_command(statement.text) and not _SPECIFIC.search(statement.text):
        return Drop.COMMAND
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

Group = tuple[Statement, ...]


class Context(NamedTuple):
    """The conversation before a turn."""

    asked: bool
    """The previous turn asked a question."""
    fresh: int
    """Number of content words of the turn that are new in the conversation."""
    alone: bool
    """The speaker is the only person in the conversation."""


def select_groups(
    parsed: ParsedTurn, settled: Collection[int], corrected: Collection[int], context: Context
) -> tuple[list[Group], list[DroppedSentence]]:
    """Select the statements of a person to keep, and drop the others. Each group becomes one candidate.

    `settled` and `corrected`: the starts of statements that are instructions or corrections, and that a correction replaces.
    """
    turn = parsed.turn
    dropped = [to_dropped(turn, one, Drop.CORRECTED) for one in parsed.statements if one.start in corrected]
    statements = [one for one in parsed.statements if one.start not in settled and one.start not in corrected]
    reasons = [_find_statement_drop(one, context.alone) for one in statements]
    informative = [one for one, reason in zip(statements, reasons, strict=True) if reason is None]
    groups = _select_informative(parsed, statements, informative, context) if informative else []
    if context.alone:
        more = {one.at: one for one in statements if _is_continuation(one)}
        groups = [_append_continuations(group, more) for group in groups]
    kept = {one.at for group in groups for one in group}
    left = [(one, reason) for one, reason in zip(statements, reasons, strict=True) if one.at not in kept]
    return groups, dropped + [to_dropped(turn, one, reason or Drop.LOW_SCORE) for one, reason in left]


def _select_informative(
    parsed: ParsedTurn, statements: Sequence[Statement], informative: list[Statement], context: Context
) -> list[Group]:
    texts = [one.text for one in statements]
    features = TurnFeatures(texts, parsed.questions, context.asked, bool(parsed.attachments), context.fresh)
    score = score_turn(features)
    if parsed.turn.note or score >= RICH_SCORE:
        return _group_statements(informative)
    tells_of_others = context.alone and len(statements) <= MAX_OF_OTHERS
    kept = [
        one for one in informative if _is_always_kept(one, context) or (tells_of_others and _is_about_named_person(one))
    ]
    if score < MIN_SCORE:
        return _group_statements(kept)
    gist = _pick_gist(informative)
    places = {one.at for one in [*kept, *gist]}
    if context.alone:  # each fact can change on its own
        return _group_statements([one for one in informative if one.at in places])
    return _group_statements([one for one in informative if one.at in places]) if kept else [gist]


def _is_always_kept(statement: Statement, context: Context) -> bool:
    if statement.wanted or not statement.english:
        return True
    if statement.tone is Tone.UNSURE:
        return statement.own
    if context.alone and (_is_plain_fact(statement) or _tells_of_somebody(statement) or _tells_plainly(statement)):
        return True
    if context.alone and context.asked and statement.at == 0 and _is_continuation(statement):
        return True
    if statement.to_other or not statement.own:
        return False
    return context.alone or (statement.kind != "statement" and not statement.dangling)


_PLAIN_FACT = re.compile(
    r"(?!(?:that|this|these|those|there|here|what|which|who|how|why|one|nothing|everything|something|anything|all|it|sounds|looks|let|maybe|perhaps)\b)"
    r"(?:[\w'’./+-]+ ){1,6}?(?:is|are|was|were|has|have|had|must|needs?|comes?|goes|starts?|ends?|runs?|uses?|takes?"
    r"|costs?|lives?|works?|arrived?|broke|died|leaks?|crash(?:es|ed)|sits?|stays?"
    r"|closes?|opens?|expires?|belongs?|means?|cannot|can't|can|will|won't|gets?|makes?|joins?|wants?|prefers?|hates?|likes?|sends?|pays?|found|told|gave|handles?|owns?|reports?|approves?)\b",
    re.IGNORECASE,
)
_THERE_ARE = re.compile(
    r"there (?:is|are|was|were|will be) (?:about |around |almost |over )?(?:\d|a dozen)", re.IGNORECASE
)
_SPECIFIC = re.compile(r"\d|(?<=\w )(?-i:[A-Z])[\w-]+|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)


def _is_plain_fact(statement: Statement) -> bool:
    """Return True for a statement about something in the speaker's world: "Tiles come from Fliesen Huber"."""
    if statement.to_other or statement.dangling or statement.urging or statement.text.endswith("!!"):
        return False
    if _PLAIN_FACT.match(statement.text):
        return len(statement.content) >= MIN_CONTENT
    return len(statement.content) > MIN_CONTENT and _SPECIFIC.search(statement.text) is not None


_OF_SOMEBODY = re.compile(
    r"(?:she|he|they|his|her|their)(?:'[a-z]+)? [a-z]|(?:it|its) (?!is\b|was\b|has been|seems|looks|sounds|would|will|may"
    r"|might|depends|makes|feels|means|takes)[a-z]{2,}(?:s|ed) \w",
    re.IGNORECASE,
)


_GUESS = re.compile(r"\b(?:would|might|(?-i:may)|perhaps|maybe|probably|could|should)\b", re.IGNORECASE)


def _tells_of_somebody(statement: Statement) -> bool:
    """Return True for a statement about somebody named before: "Her name is Ines, she lives in Faro"."""
    if statement.to_other or statement.urging or len(statement.content) < MIN_CONTENT:
        return False
    return statement.dangling and _OF_SOMEBODY.match(statement.text) is not None and not _GUESS.search(statement.text)


def says_little(text: str) -> bool:
    """Return True for agreement, and for statements about this moment only."""
    return _AGREES.match(text) is not None or _MOMENT.match(text) is not None


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


# -- candidates


def drop_duplicates(candidates: Iterable[Candidate]) -> tuple[list[Candidate], list[DroppedSentence]]:
    """Keep the first of the candidates with the same text."""
    kept: dict[str, Candidate] = {}
    repeated = [one for one in candidates if kept.setdefault(one.text, one) is not one]
    return list(kept.values()), [DroppedSentence(*one.sources[0], Drop.DUPLICATE) for one in repeated]


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
    score = sum(_WEIGHTS.get(name, 0.0) * value for name, value in features.items())
    return 1 / (1 + math.exp(-score))


_OPENINGS = {
    "opens_with_I": re.compile(r"(?:I|I'\w+|My|We|We'\w+|Our)\b"),
    "opens_with_you": re.compile(r"(?:You|You'\w+|Your)\b"),
    "opens_with_it": re.compile(r"(?:It|It's|That|That's|This|They|These|Those)\b"),
}
_SCORE_WORDS = load_sections(__package__, "score_words")
_WEIGHTS = {name: float(weight) for name, weight in map(str.split, _SCORE_WORDS["WEIGHTS"])}
_CLASSES_OF = {
    word: tuple(name for name, words in _SCORE_WORDS.items() if word in words)
    for word in frozenset[str]().union(*_SCORE_WORDS.values())
}
