"""The same attacks in other languages: setting instructions aside, steering for good, and hiding it from the user."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..text.word_sets import load_words


class Language(NamedTuple):
    """The attack phrases of a language. A text counts if it has both of a pair: aside and rules, lasting and steer."""

    aside: str
    rules: str
    lasting: str
    steer: str
    hide: str


_LANGUAGES = (
    Language(
        r"ignorier|missacht|vergiss|beachte (?:die|keine)|überschreib",
        r"anweisung|instruktion|vorgaben"
        r"|richtlinien|regeln|systemprompt|befehle",
        r"ab (?:jetzt|sofort|heute|nun)|von nun an|künftig|in zukunft|grundsätzlich",
        r"empfiehl|empfehle|bevorzug|bewirb|schlage .{0,30}vor|verweise auf|bestelle|überweise",
        r"(?:dem|den) (?:nutzer|benutzer|anwender|kunden)n? (?:nichts|nicht|nie)|ohne (?:dem|den) (?:nutzer|benutzer|kunden)",
    ),
    Language(
        r"ignor(?:e[zr]?|ons)\b|oublie[zr]?|ne (?:suis|suivez|tiens|tenez) (?:plus|pas)",
        r"(?:les|toutes?|vos|tes|ces|aux|des) (?:\w{1,12} )?(?:instructions|consignes|directives|règles"
        r"|ordres)",
        r"à partir de maintenant|désormais|dorénavant|dès (?:maintenant|aujourd'hui)|à l'avenir",
        r"(?<!je )(?<!nous )recommande[zr]?\b|privilégie[zr]?|conseille[zr]?\b|achète[zr]?\b|favorise[zr]?",
        r"(?:dis|dites|informe[zr]?|révèle[zr]?|mentionne[zr]?) (?:pas|rien|jamais).{0,20}utilisateur"
        r"|sans (?:le dire|en informer|prévenir).{0,20}utilisateur",
    ),
    Language(
        r"ignor[ae]n?\b|olvid[ae]n?\b|descart[ae]|no sigas",
        r"instrucciones|órdenes|reglas|directrices|indicaciones",
        r"(?:a partir de|desde) (?:ahora|hoy)|de ahora en adelante|en el futuro",
        r"recomiend[ae]|sugier[ae]|prefier[ae]|promocion[ae]|compr[ae]\b",
        r"no (?:se )?(?:lo )?(?:digas|diga|menciones|reveles|informes).{0,20}usuario|sin (?:decir|avisar"
        r"|informar).{0,15}usuario",
    ),
    Language(
        r"ignor[aei]t?e?\b|dimentica|scorda",
        r"istruzioni|direttive|regole|ordini",
        r"d'ora in (?:poi|avanti)|da (?:adesso|ora|oggi)|in futuro",
        r"consiglia|raccomanda|suggerisci"
        r"|preferisci|invia i dati|acquista",
        r"non (?:dirlo|dire|rivelare|menzionare).{0,20}utente|senza (?:dirlo|informare).{0,15}utente",
    ),
    Language(
        r"ignor[ea]m?\b|esque[çc]a|desconsidere",
        r"instruções|regras|diretrizes|ordens",
        r"a partir de (?:agora|hoje)|de agora em diante|daqui (?:em|para)|no futuro",
        r"recomend[ea]|sug(?:ira|ere)|prefira|promova|compre",
        r"não (?:diga|conte|mencione|revele|informe).{0,20}(?:usuário|utilizador)|sem (?:avisar|informar).{0,15}(?"
        r":usuário|utilizador)",
    ),
    Language(
        r"игнорир|забудь|не обращай внимания|не следуй",
        r"инструкци|указани|правил|команд",
        r"отныне|с этого момента|впредь|с сегодняшнего дня|всегда",
        r"рекомендуй|советуй|предлагай|предпочитай|покупай",
        r"не (?:говори|сообщай|рассказывай|упоминай).{0,20}пользовател",
    ),
    Language(
        r"忽略|无视|無視|忘记|忘掉|不要遵守",
        r"指令|指示|规则|規則|提示词|命令|说明",
        r"从现在(?:起|开始)|今后|以后|從現在|始终|总是|一律|永远",
        r"推荐|推薦|建议购买|优先选择|首选",
        r"不要(?:告诉|告知|让|通知)用户|(?:别|勿)告诉用户|不要告訴使用者",
    ),
    Language(
        r"無視|忘れて|従わない",
        r"指示|命令|ルール|プロンプト",
        r"今後|これから|常に|必ず|以後",
        r"勧めて|おすすめして|推奨して|推薦して|薦めて",
        r"ユーザーに(?:は)?.{0,8}(?:言わない|伝えない|知らせない|教えない)",
    ),
    Language(
        r"무시",
        r"지시|명령|규칙|지침|프롬프트",
        r"앞으로|항상|지금부터|이제부터",
        r"추천하|권하|권장하",
        r"사용자에게.{0,8}(?:말하지|알리지)",
    ),
    Language(
        r"تجاهل|انسَ?\b",
        r"التعليمات|الأوامر|القواعد|التوجيهات",
        r"من الآن فصاعد|دائم[اً]",
        r"أوصِ?\b|انصح|رشّح",
        r"لا تخبر المستخدم",
    ),
    Language(
        r"negeer|vergeet|zignoruj|pomiń|görmezden gel|yok say",
        r"instructies|instrukcje|polecenia|talimatlar|regels",
        r"vanaf nu|voortaan|od teraz|bundan sonra|şu andan itibaren",
        r"(?:raad|beveel) .{0,40} aan|polecaj|zalecaj|öner\b|tavsiye et",
        r"vertel .{0,20}gebruiker niet|nie mów użytkownik",
    ),
)

_ASIDE, _RULES, _LASTING, _STEER, _HIDE = (
    tuple(re.compile(rf"(?<![a-zà-ÿ]){one}" if one[0].isascii() else one) for one in (f"(?:{said})" for said in column))
    for column in zip(*_LANGUAGES, strict=True)
)
_LATIN = re.compile("[\x00-\u024f\u2000-\u206f]*")
_OWN = re.compile(
    r"\b(?:meine|mein|mes|mon|mi|mis|mia|mie|meus|minhas|moje|mijn)\b|(?:letzte|dernier|último|ultim\w+) (?:nachri"
    r"cht|message|mensaje|messaggio|mensagem)"
)


_REMEMBER = re.compile(
    r"merke? dir|vergiss nicht|souviens-toi|retiens|mémorise|recuerda|guarda|ricorda|memorizza|lembre-se"
    r"|memorize|запомни|记住|記住|覚えて"
    r"|기억해|تذكر|onthoud|zapamiętaj|unutma"
)
_SOURCE = re.compile(
    r"vertrauenswürdig|zuverlässigste|(?:seriöse|verlässliche) quelle|source (?:fiable|sûre|officielle)"
    r"|fuente (?:fiable|de confianza|oficial)"
    r"|fonte (?:più )?(?:affidabile|attendibile|confiável|oficial)|fonte de confiança|надёжн|надежн"
    r"|достоверн|可信|可靠|信頼できる|신뢰할|موثوق|betrouwbar|zaufan|wiarygodn|güvenilir"
)

_STEMS = load_words(__package__, "foreign_stems")
_STEM = 5


def has_foreign_cue(words: Iterable[str], lowered: str) -> bool:
    """Return True if a text is worth searching: it has a cue word, or other than Latin letters."""
    return not (lowered.isascii() or _LATIN.fullmatch(lowered)) or not _STEMS.isdisjoint(word[:_STEM] for word in words)


def find_foreign_injection(lowered: str) -> str | None:
    """Describe the attack in a sentence of another language; None if there is none."""
    for aside, rules, lasting, steer, hide in zip(_ASIDE, _RULES, _LASTING, _STEER, _HIDE, strict=True):
        if aside.search(lowered) and rules.search(lowered) and not _OWN.search(lowered):
            return "sets instructions aside"
        if hide.search(lowered):
            return "asks for concealment"
        if lasting.search(lowered) and steer.search(lowered) and not _OWN.search(lowered):
            return "steers what is recommended"
    return "plants trust" if _REMEMBER.search(lowered) and _SOURCE.search(lowered) else None
