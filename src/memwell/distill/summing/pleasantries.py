"""What is said to be kind: greetings, thanks, praise, offers of help. Nothing is lost where it is left out."""

from __future__ import annotations

import re

_GOOD = (
    "(?:great|good|nice|cool|awesome|amazing|wonderful|lovely|fun|fine|perfect|beautiful|exciting|interesting|fantastic"
    "|excellent)"
)
_PHRASES = (
    rf"(?:that )?sounds {_GOOD}|that's (?:all|it|(?:\w+ )?{_GOOD})|(?:so|very|really) {_GOOD}|thank you|so much|a lot|me too",
    r"you're (?:very |most )?welcome|good (?:morning|evening|afternoon|night|luck|job|point)|my pleasure|take care|see you",
    r"you're the best|got it|i changed my mind|sure thing|of course|no problem|no worries|long time no see|will do",
    r"i (?:see|understand|agree)|guten (?:tag|morgen|abend)|vielen dank|gerne? geschehen|kein problem|alles klar|sehr gut",
    r"de nada|muy bien|tomo nota|buen[oa]s \w+|de rien|avec plaisir|d'accord|très bien|bien sûr|va bene|tudo bem",
    r"graag gedaan|geen probleem",
)
_WORDS = (
    rf"hi|hey|hello|ok|okay|oh|ah|aw+|wow|yeah|yes|yep|no|nope|so|and|well|sure|thanks?|thx|alright|hm+|wait|lol|haha+|{_GOOD}",
    r"noted|done|understood|absolutely|definitely|certainly|right|bye|please|congrat\w*|morning|welcome|again|there|everyone",
    r"hallo|danke\w*|bitte|gerne?|super|prima|tschüss|genau|verstanden|notiert|ja|nein|schön|hola|gracias|claro|entendido|sí",
    r"perfecto|vale|adiós|genial|bonjour|salut|merci|parfait|oui|non|ciao|grazie|prego|certo|perfetto|buongiorno|olá",
    r"obrigad[oa]|perfeito|hoi|dank\w*|привет|здравствуйте|спасибо|пожалуйста|хорошо|отлично|понятно|пока",
    r"شكرا|شكراً|مرحبا|مرحباً|أهلا|أهلاً|عفوا|حسنا|نعم",
)
_UNSPACED = (
    "你好|您好|谢谢[您你]?|謝謝|好的|不客气|不客氣|没问题|沒問題|再见|明白了?|收到|太好了|嗯|是的|はい|ありがとう(?:ございます)?"
    "|わかりました|かしこまりました|こんにちは|네|안녕하세요|감사합니다"
)
_CLAUSES = (
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
"""How clauses begin that are kind to their end."""
_PLEASANT = re.compile(
    rf"(?:\W*(?:(?:{'|'.join(_CLAUSES)})[^,;，；]*|(?:{'|'.join((*_PHRASES, *_WORDS))})(?!['-]?\w)|(?:{_UNSPACED})))*\W*",
    re.IGNORECASE,
)


def without_pleasantries(sentence: str) -> str:
    """What a sentence says beside what is only kind; empty if that is all it is."""
    match = _PLEASANT.match(sentence.replace("’", "'"))
    return sentence[match.end() :] if match else sentence
