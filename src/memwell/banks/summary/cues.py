"""Score single sentences by their wording, independent of what the whole conversation is about.

In favour of a sentence count facts, decisions, numbers, names, wishes and corrections; against it greetings, thanks, questions
and praise. Languages without word lists are judged by numbers and spelling. The weights were tuned on hand-written conversations
so that summaries contain what readers wanted to find, and verified on others.
"""

from __future__ import annotations

import re

from ...facts.rules.keep_or_drop import MIN_SCORE, TurnFeatures, score_turn
from ...facts.rules.parse import classify, importance
from ...facts.rules.passages import is_question
from ...text.word_sets import word_set
from .sentences import content_words, guess_language, split_words

ORDINARY = 0.3
"""The importance that extraction gives to any statement."""
WORTH = 0.9
"""Weight of the probability that people would mark the sentence as a fact."""
CORRECTION, DENIAL, NUMBER, NAME = 0.3, 0.1, 0.15, 0.1
UNSPACED_CUE = 0.4
"""Weight of a cue word in a script without spaces."""
MAX_CUES = 1.0
"""Upper limit of all cues together, because a long sentence has a bit of everything."""
QUESTION, HEADING, PRAISE = -1.0, -0.5, -0.2
FILLER, SHORT = -1.4, -0.5
FEW_WORDS = 2
"""A sentence with fewer content words hardly says anything."""

_HARM = word_set(
    """allergic allergy allergies intolerant intolerance diabetic diabetes diagnosed medication pregnant epilepsy epileptic
    seizures asthma asthmatic celiac coeliac insulin anaphylaxis anaphylactic epipen pacemaker allergisch allergie allergien
    unverträglichkeit diabetiker diabetikerin schwanger medikament medikamente alérgico alérgica alergia embarazada diabético
    medicamento allergique enceinte diabétique médicament allergico allergica incinta diabetico grávida zwanger аллергия
    беременна диабет"""
)
_CUES = (
    (0.65, _HARM),
    (0.4, word_set(  # preferences
        """prefer prefers preferred favourite favorite love loves hate hates dislike dislikes rather vegan vegetarian
        bevorzuge lieber liebe hasse mag möchte vegetarisch prefiero odio encanta gusta préfère déteste adore aime preferisco
        amo prefiro adoro gosto liever"""
    )),
    (0.35, word_set(  # decisions and deeds
        """decided decision agreed chose chosen settled picked booked ordered scheduled confirmed cancelled canceled fixed
        solved deployed merged released signed bought paid moved changed updated renamed registered switched reserved
        beschlossen entschieden entscheidung vereinbart gebucht bestellt beauftragt reserviert bezahlt gekauft geändert
        decidí decidido decidimos acordamos reservé compré pagué cambié décidé réservé acheté payé choisi deciso prenotato
        comprato pagato decidi comprei reservei besloten geboekt besteld gekocht"""
    )),
    (0.25, word_set(  # personal data
        """name named called born birthday married lives lived works worked owns address phone email wohne wohnt lebe arbeite
        arbeitet heiße heißt adresse geburtstag ziehe ziehen umziehen vivo vive trabajo trabaja llamo dirección cumpleaños
        habite travaille appelle anniversaire abito lavoro chiamo moro trabalho chamo woon werk heet adres"""
    )),
    (0.2, word_set(  # duties and faults
        """must never always only important urgent deadline required need needs cannot can't remember avoid muss müssen soll
        sollen darf immer nie niemals wichtig dringend frist debe siempre nunca importante urgente necesito puedo doit
        toujours jamais faut deve sempre mai preciso moet altijd nooit belangrijk fails failed failing failure error broken
        breaks crashes crashed bug wrong missing lost delayed late kaputt fehler defekt verloren fehlt roto falla perdido
        falta erreur cassé perdu manque rotto errore quebrado kapot fout"""
    )),
    (0.15, word_set(  # reasons and dates
        """because cause caused causes reason due since weil grund ursache wegen porque causa parce raison perché motivo omdat
        january february march april june july august september october november december monday tuesday wednesday thursday
        friday saturday sunday tomorrow yesterday tonight januar februar märz juni juli oktober dezember montag dienstag
        mittwoch donnerstag freitag samstag sonntag morgen gestern enero febrero marzo abril mayo junio julio agosto
        septiembre octubre noviembre diciembre lunes martes miércoles jueves viernes sábado domingo mañana ayer janvier
        février mars avril juin juillet août septembre octobre novembre décembre lundi mardi mercredi jeudi vendredi samedi
        dimanche demain hier"""
    )),
)  # fmt: skip
_WEIGHTS = {word: weight for weight, words in reversed(_CUES) for word in words}
_CUE_WORDS = frozenset(_WEIGHTS)
_UNSPACED_CUES = re.compile(
    "喜欢|喜歡|过敏|過敏|讨厌|討厭|最爱|決定|决定|预订|预约|订了|确认|住在|搬到|我叫|名字|生日|地址|工作|必须|必須|不能|需要|重要"
    "|截止|不要|好き|嫌い|アレルギー|予約|住んで|名前|働いて|좋아|싫어|알레르기|결정|예약|이름|살고"
)
_PRAISE_WORDS = word_set(
    """great good nice cool awesome amazing wonderful lovely fun fine perfect beautiful exciting fantastic excellent toll schön
    super spannend bueno bonito genial bon beau bello ótimo mooi"""
)
_DENIAL = re.compile(
    r"\b(?:not|no|never|none|nothing|nobody|without|cannot|neither|nor|nicht|keine?[mnrs]?|nie|niemals|ohne|nada|nunca|sin|ne|pas"
    r"|jamais|sans|non|mai|senza|não|nem|sem|niet|geen|nooit|zonder|не|нет|без|никогда|لا|لم|لن|ليس)\b|n['’]t\b"
    "|[不没沒无無未别別]|ない|ません|않|못|안 ",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|instead|no longer|anymore|i meant|scratch that|turn(?:s|ed) out|mistake|postponed?|rescheduled?"
    r"|(?:moved?|changed?) (?:it|this|that|the \w+) to|eigentlich|korrektur|stattdessen|doch (?:nicht|kein|lieber|erst)"
    r"|(?:nicht|kein\w*) mehr|verschoben|en realidad|corrección|ya no|mejor dicho|aplazad[oa]|en fait|finalement|plutôt|reporté"
    r"|in realtà|correzione|anzi|rinviat[oa]|na verdade|aliás|adiad[oa]|eigenlijk|toch niet|на самом деле)\b"
    r"|, (?:and )?(?:not|nicht|no|pas|non|não|niet)\b"
    "|其实|其實|改到|推迟|改成|改为|改為|更正|而不是|不再|実は|訂正|사실은|في الواقع",
    re.IGNORECASE,
)
_UNSPACED_HARM = re.compile("过敏|過敏|怀孕|懷孕|糖尿病|アレルギー|妊娠|알레르기|임신|당뇨")
_WISH = re.compile(
    r"\A\W*(?:never|always|don['’]t|do not|make sure|remember|nie(?:mals)?|immer|nunca|siempre|ne|jamais|toujours|mai|sempre)\b"
    r"|\b(?:please|bitte|por favor|s['’]il (?:vous|te) pla[iî]t|per favore|als(?:je|tu)blieft|пожалуйста|من فضلك)\b"
    r"|\bi (?:don['’]t|do not|never) want\b|请|請|ください|주세요",
    re.IGNORECASE,
)
_OPENERS = (
    r"\W*+(?:(?:actually|so|well|but|and|wait|hm+|oh|ok(?:ay)?|sorry|no|correction|in fact|(?:it )?turn(?:s|ed) out(?: that)?"
    r"|scratch that|eigentlich|korrektur|nein|en realidad|corrección|en fait|in realtà|correzione|na verdade|eigenlijk)\b\W*+)*+"
)
_OPENER = re.compile(_OPENERS, re.IGNORECASE)
_TENTATIVE = re.compile(
    rf"\A{_OPENERS}(?:"
    r"(?:is|are|was|were|did|does|do|has|have|had|can|could|would|will|shall|should)(?:n['’]t)? "
    r"(?:i|you|we|they|he|she|it|the|this|that|there|my|your|our|his|her|their)\b(?<!do it)(?<!do this)(?<!do that)"
    r"|(?:if|whether|suppose|imagine|maybe|perhaps|possibly|what if|falls|wenn|vielleicht|ob|quizás?|tal vez|si|peut-être"
    r"|forse|se|talvez|misschien|als|если|может)\b)"
    r"|\b(?:might|wonder(?:ed|ing)?|not sure|unsure|no idea|don['’]t know (?:if|whether))\b|可能|也许|也許|かもしれ",
    re.IGNORECASE,
)
_ARTICLES = word_set(
    """my our your his her their the a an this that mein meine meinem unser unsere der die das ein eine mi mis su el la los las
    un una mon ma mes notre le les une il lo i mio mia minha meu o os as mijn onze de het een"""
)
_NAME_WORD = re.compile(r"[^\W\d_]+")
_GOOD = (
    "(?:great|good|nice|cool|awesome|amazing|wonderful|lovely|fun|fine|perfect|beautiful|exciting|interesting|fantastic"
    "|excellent)"
)
_SMALL_TALK_PHRASES = (
    rf"(?:that )?sounds {_GOOD}|that's (?:all|it|(?:\w+ )?{_GOOD})|(?:so|very|really) {_GOOD}|thank you|so much|a lot|me too",
    r"you're (?:very |most )?welcome|good (?:morning|evening|afternoon|night|luck|job|point)|my pleasure|take care|see you",
    r"you're the best|got it|i changed my mind|sure thing|of course|no problem|no worries|long time no see|will do",
    r"i (?:see|understand|agree)|guten (?:tag|morgen|abend)|vielen dank|gerne? geschehen|kein problem|alles klar|sehr gut",
    r"de nada|muy bien|tomo nota|buen[oa]s \w+|de rien|avec plaisir|d'accord|très bien|bien sûr|va bene|tudo bem",
    r"graag gedaan|geen probleem",
)
_SMALL_TALK_WORDS = (
    rf"hi|hey|hello|ok|okay|oh|ah|aw+|wow|yeah|yes|yep|no|nope|so|and|well|sure|thanks?|thx|alright|hm+|wait|lol|haha+|{_GOOD}",
    r"noted|done|understood|absolutely|definitely|certainly|right|bye|please|congrat\w*|morning|welcome|again|there|everyone",
    r"hallo|danke\w*|bitte|gerne?|super|prima|tschüss|genau|verstanden|notiert|ja|nein|schön|hola|gracias|claro|entendido|sí",
    r"perfecto|vale|adiós|genial|bonjour|salut|merci|parfait|oui|non|ciao|grazie|prego|certo|perfetto|buongiorno|olá",
    r"obrigad[oa]|perfeito|hoi|dank\w*|привет|здравствуйте|спасибо|пожалуйста|хорошо|отлично|понятно|пока",
    r"شكرا|شكراً|مرحبا|مرحباً|أهلا|أهلاً|عفوا|حسنا|نعم",
)
_UNSPACED_SMALL_TALK = (
    "你好|您好|谢谢[您你]?|謝謝|好的|不客气|不客氣|没问题|沒問題|再见|明白了?|收到|太好了|嗯|是的|はい|ありがとう(?:ございます)?"
    "|わかりました|かしこまりました|こんにちは|네|안녕하세요|감사합니다"
)
_SMALL_TALK_CLAUSES = (
    r"(?:i'?m|i'd be|i am) (?:\w+ )?(?:glad|happy|pleased|delighted) (?:to (?:help|hear|assist|be)|you|that you|it|i could)",
    r"i'?m (?:\w+ )?sorry (?:to hear|about|for|you)|i'?m here (?:to help|for you|if)|i'?m doing (?:\w+ )?(?:well|okay)",
    rf"i'?m doing (?:\w+ )?{_GOOD}|i(?:'ve| have) been (?:\w+ )?(?:well|okay|busy|{_GOOD})|i apologi[sz]e|my apologies",
    r"(?:glad|happy|sorry|pleased|great|good|nice) (?:to (?:help|hear|see|meet|know)|it (?:work|help)|you (?:like|ask)|for you)",
    rf"{_GOOD} (?:question|choice|idea|work|day|news)|what an? {_GOOD}|have an? {_GOOD}|(?:it was )?my pleasure",
    rf"(?:that|this|it|they)(?:'s| is| are| was| sounds?| looks?| must be) (?:\w+ )?{_GOOD}|i understand (?:how|that this)",
    r"(?:thanks|thank you) (?:\w+ )?(?:\w+ )?for|(?:please )?(?:let me know|feel free|don't hesitate|do not hesitate)",
    r"let me (?:think|check|see|look)|i'?ll keep (?:that|this|it) in mind|i hope (?:this|that|it|you)\b|what's up|really\?",
    r"is there anything|anything else|can i help|(?:what|how) (?:else )?(?:can|may|could) i|how (?:are|have) you|what happened",
    r"let'?s (?:go|start|begin|do it)|what would you like",
    r"(?:wie|womit) (?:kann|darf) ich|kann ich (?:sonst|noch|ihnen|dir)|wie geht|mir geht|das (?:klingt|freut)|einen? schönen?",
    r"das ist (?:toll|super|schön)|schönen (?:tag|abend)|viel (?:erfolg|spaß|glück)|ich (?:hoffe|helfe|kümmere)|danke für",
    r"vielen dank für|es freut|bis (?:bald|dann|später)|qué (?:bien|tal|interesante|bueno|bonito)|hasta (?:luego|pronto|mañana)",
    r"en qué puedo|algo más|gracias por|que tengas|me alegr|cómo est|comment (?:puis|ça|allez)|bonne \w+|n'hésite",
    r"je suis (?:là|ravi|désolé)|merci (?:pour|de)|à bientôt|autre chose|come posso|buona \w+|como posso|(?:bom|boa) \w+",
    r"hoe kan ik|fijne dag|как (?:дела|я могу)|чем (?:я )?мог|очень приятно|до свидания",
    r"很高兴|很高興|恭喜|祝[您你]|请问|請問|还有什么|還有什麼|有什么可以|感谢|加油|我记住了|我記住了|どういたしまして|よろしく|何か|무엇을",
)
"""Beginnings of clauses that are small talk up to their end."""
_SMALL_TALK = re.compile(
    rf"(?:\W*(?:(?:{'|'.join(_SMALL_TALK_CLAUSES)})[^,;，；]*"
    rf"|(?:{'|'.join((*_SMALL_TALK_PHRASES, *_SMALL_TALK_WORDS))})(?!['-]?\w)|(?:{_UNSPACED_SMALL_TALK})))*\W*",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_NAMED = re.compile(r"(?<=[\w,;] )(?!I\b)[A-Z]\w|\b[A-Z]{2}")
_FIRST_PERSON = re.compile(r"\b(?:I|I'\w+|[Mm]y|[Ww]e|[Ww]e'\w+)\b")
_SUBJECT = re.compile(r"(?:I|we|it|he|she|they|the|my|our|there)\b(?:'\w+)?(?: \S+){2}", re.IGNORECASE)
_OFFER = re.compile(
    r"(?:can|could|would|will|shall|should|may) (?:you|we|i)\b|do you want|soll(?:en)? (?:ich|wir)", re.IGNORECASE
)


def count_denials(text: str) -> int:
    return len(_DENIAL.findall(text))


def is_correction(text: str) -> bool:
    """Return whether it says that something else was wrong or has changed."""
    return _CORRECTION.search(text) is not None


def is_tentative(text: str) -> bool:
    """Return whether it asks or supposes something rather than states it."""
    return is_question(text) or _TENTATIVE.search(text) is not None


def is_grave(text: str) -> bool:
    """Return whether it is about harm or states a wish, so that it must not be lost by mistake."""
    if not _HARM.isdisjoint(_NAME_WORD.findall(text.lower())) or _WISH.search(text):
        return True
    return not text.isascii() and _UNSPACED_HARM.search(text) is not None


def first_subject(text: str) -> str:
    """The person or thing a sentence begins with, after words that only announce a correction: `my sister`, `i`."""
    match = _OPENER.match(text)
    words = _NAME_WORD.findall(text[match.end() if match else 0 :][:200].lower())
    return " ".join(words[: 2 if words[:1] and words[0] in _ARTICLES and words[0] != "i" else 1])


def needs_question(answer: str, question: str) -> bool:
    """Return whether a short answer says something, but only together with its question. Agreeing to an offer says nothing."""
    question = _strip_small_talk(question)
    if not question or answer.endswith(":") or _SUBJECT.match(answer):
        return False
    return _strip_small_talk(answer) != "" or _OFFER.match(question) is None


def score_quickly(text: str) -> float:
    """A cheap estimate of `score_cues`."""
    return _strongest_cue(text) + (NUMBER if _DIGIT.search(text) else 0.0)


def score_cues(text: str, language: str) -> float:
    """The score in favour of a sentence."""
    text = text.replace("’", "'")
    cue = _strongest_cue(text)
    if not text.isascii() and _UNSPACED_CUES.search(text):
        cue = max(cue, UNSPACED_CUE)
    # by how much it is more important than any statement, if it is about its speaker
    own = importance(classify(text), text) - ORDINARY if language == "en" and _FIRST_PERSON.search(text) else 0.0
    name = NAME if language != "de" and _NAMED.search(text) else 0.0
    against = CORRECTION if is_correction(text) else DENIAL if count_denials(text) else 0.0
    number = NUMBER if _DIGIT.search(text) else 0.0
    return min(MAX_CUES, max(cue, own) + name + against + number) + _score_worth(text)


def score_penalties(text: str, language: str) -> float:
    """The score against a sentence, 0 or less."""
    rest = _strip_small_talk(text)
    words = len(content_words(rest, language))
    penalty = QUESTION if is_question(text) else HEADING if text.endswith((":", "：")) else 0.0
    if words < FEW_WORDS or (len(rest) < len(text) and words == FEW_WORDS):
        return penalty + (SHORT if score_cues(rest, language) > 0 else FILLER)
    praises = text.endswith(("!", "！")) or not _PRAISE_WORDS.isdisjoint(split_words(text))
    return penalty + (PRAISE if praises else 0.0)


def _strongest_cue(text: str) -> float:
    return max(map(_WEIGHTS.__getitem__, _CUE_WORDS.intersection(split_words(text))), default=0.0)


def _strip_small_talk(sentence: str) -> str:
    """A sentence without greetings, thanks, praise and offers at its beginning; empty if there is nothing else."""
    match = _SMALL_TALK.match(sentence.replace("’", "'"))
    return sentence[match.end() :] if match else sentence


def _score_worth(text: str) -> float:
    if guess_language(text) != "en":
        return 0.0
    features = TurnFeatures((text,), questions=0, answers=False, shows=False, fresh=len(content_words(text, "en")))
    return WORTH * (score_turn(features) - MIN_SCORE)
