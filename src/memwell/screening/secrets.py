"""Secrets: tokens with a known format, and passwords, PINs and cards that the text calls so.

Every format has hints, pieces of text of which each of its tokens holds one, and which are searched first. No pattern has two
unbounded repetitions of the same characters, so that the time is linear. After a word such as "password", the value decides:
"the password is wrong" contains no secret. A commit, a UUID or an order number is a secret only if the text calls it one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

from ..text.word_sets import load_words, word_set

_START = r"(?<![A-Za-z0-9_+/-])"
_END = r"(?![A-Za-z0-9_+/-])"
_ADDRESS = r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@'\"<>]{0,80}:(?![$<{*]|x{3})[^\s/@'\"<>]{3,120}@[^\s/]"
_HEADER = r"uthorization\"?\s{0,3}[:=]\s{0,3}[\"']?(?:[Bb]earer|Basic|[Tt]oken)\s{1,3}[A-Za-z0-9_.~+/=-]{12,}"


class Shape(NamedTuple):
    """A format of token."""

    name: str
    hints: tuple[str, ...]
    """Every token of the format contains one of these."""
    pattern: re.Pattern[str]


def _shape(name: str, hints: str, body: str) -> Shape:
    return _anywhere(name, hints, _START + body + _END)


def _anywhere(name: str, hints: str, body: str) -> Shape:
    return Shape(name, tuple(hints.split()), re.compile(body, re.ASCII))


_SHAPES = (
    # Clouds
    _shape("AWS access key id", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    _shape("AWS Bedrock key", "ABSK", r"ABSK[A-Za-z0-9+/]{100,280}={0,2}"),
    _shape("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    _shape("Google OAuth token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    _shape("Google OAuth client secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _shape("Google refresh token", "1//0", r"1//0[A-Za-z0-9_-]{30,}"),
    _anywhere("Azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,100}={0,2}"),
    _anywhere("Azure shared access key", "SharedAccessKey=", r"SharedAccessKey=[A-Za-z0-9+/]{40,100}={0,2}"),
    _anywhere("Azure shared access signature", "sig=", r"[?&]sig=[A-Za-z0-9%+/]{40,120}"),
    _shape("Azure client secret", "8Q~", r"[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{31,34}"),
    _shape("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _shape("Alibaba access key id", "LTAI", r"LTAI[A-Za-z0-9]{17,21}"),
    _shape("Tencent secret id", "AKID", r"AKID[A-Za-z0-9]{32}"),
    _shape("Yandex key", "AQVN", r"AQVN[A-Za-z0-9_-]{35,38}"),
    _shape("Heroku token", "HRKU-", r"HRKU-[A-Za-z0-9_-]{36,64}"),
    _shape("Fly.io token", "fo1_ FlyV1", r"(?:fo1_[A-Za-z0-9_-]{43}|FlyV1 fm[12][ar]?_[A-Za-z0-9+/=,_-]{40,})"),
    _shape("Cloudflare origin key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{140,150}"),
    _shape("Vercel token", "vck_ vcp_", r"vc[kp]_[A-Za-z0-9]{24,60}"),
    _shape("Pulumi token", "pul-", r"pul-[a-f0-9]{40}"),
    _anywhere("Terraform Cloud token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    _shape("Vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _shape("Doppler token", "dp.pt. dp.st. dp.ct.", r"dp\.[psc]t\.[A-Za-z0-9_.-]{40,60}"),
    _shape("1Password service account", "ops_ey", r"ops_ey[A-Za-z0-9+/=_-]{100,}"),
    _shape("age secret key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    # Code and packages
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,251}"),
    _shape("GitHub fine-grained token", "github_pat_", r"github_pat_[A-Za-z0-9_]{60,100}"),
    _shape("GitLab token", "gl", r"gl(?:pat|dt|ptt|ft|imt|oas|cbt|soat|agent|rt)-[A-Za-z0-9_.-]{20,60}"),
    _shape("GitLab runner registration token", "GR1348941", r"GR1348941[A-Za-z0-9_-]{20}"),
    _shape("Bitbucket or Atlassian token", "ATBB ATATT3 ATCTT3", r"(?:ATBB|ATATT3|ATCTT3)[A-Za-z0-9_=-]{28,220}"),
    _shape("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _anywhere("npm registry password", "_authToken= _password=", r"(?:_authToken|_password)=[^\s$]{8,}"),
    _shape("PyPI token", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{50,}"),
    _shape("RubyGems key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _shape("crates.io token", "cio", r"cio[A-Za-z0-9]{32}"),
    _shape("NuGet key", "oy2", r"oy2[a-z0-9]{43}"),
    _shape("Clojars token", "CLOJARS_", r"CLOJARS_[A-Za-z0-9]{60}"),
    _shape("Docker token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,32}"),
    _shape("Sourcegraph token", "sgp_", r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[a-fA-F0-9]{40}"),
    _shape("Linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    _shape("Buildkite token", "bkua_", r"bkua_[a-f0-9]{40}"),
    _shape("CircleCI token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9_]{22,70}"),
    _shape("Postman key", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _shape("Sentry token", "sntrys_ sntryu_", r"sntry[su]_[A-Za-z0-9+/=_-]{60,}"),
    _shape("SonarQube token", "squ_ sqp_ sqa_", r"sq[upa]_[a-z0-9]{40}"),
    _shape("Snyk or Figma token", "figd_ snyk_", r"(?:figd|snyk_[a-z]{2,4})_[A-Za-z0-9_-]{30,}"),
    # Models
    _shape("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9]{3,8}-[A-Za-z0-9_-]{24,}"),
    _shape("OpenRouter key", "sk-or-", r"sk-or-v1-[a-f0-9]{64}"),
    _shape("OpenAI key", "sk-", r"sk-(?:(?:proj|svcacct|admin|None)-)?(?=[A-Za-z_-]{0,60}\d)[A-Za-z0-9_-]{20,}"),
    _shape("Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,40}"),
    _shape("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,60}"),
    _shape("xAI key", "xai-", r"xai-[A-Za-z0-9]{60,100}"),
    _shape("Replicate token", "r8_", r"r8_[A-Za-z0-9]{37,40}"),
    _shape("Perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,60}"),
    _shape("Tavily or Pinecone key", "tvly- pcsk_", r"(?:tvly-|pcsk_)[A-Za-z0-9_-]{20,90}"),
    _shape("LangSmith key", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    # Messages and mail
    _shape("Slack token", "xox xapp-", r"(?:xox[abeoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9-]{10,}"),
    _anywhere("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+]{30,}"),
    _anywhere("Discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{15,20}/[A-Za-z0-9_-]{50,}"),
    _anywhere("Teams webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,}"),
    _shape("Discord bot token", ".", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"),
    _shape("Telegram bot token", ":A", r"\d{8,10}:A[A-Za-z0-9_-]{34}"),
    _shape("SendGrid key", "SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    _shape("Mailgun key", "key-", r"key-[a-f0-9]{32}"),
    _shape("Mailchimp key", "-us", r"[a-f0-9]{32}-us\d{1,2}"),
    _shape("Brevo key", "xkeysib- xsmtpsib-", r"(?:xkeysib|xsmtpsib)-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    _shape("Twilio key", "SK AC", r"(?:SK|AC)[a-f0-9]{32}"),
    _shape("Resend key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}"),
    # Money and shops
    _shape("Stripe key", "_live_ _test_", r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,250}"),
    _shape("Stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,}"),
    _shape("Square token", "EAAA sq0", r"(?:EAAA[A-Za-z0-9_-]{60}|sq0[a-z]{3}-[A-Za-z0-9_-]{22,43})"),
    _shape("Shopify token", "shp", r"shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32}"),
    _shape("PayPal or Braintree token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    _shape("Plaid token", "access-", r"access-(?:sandbox|development|production)-[a-f0-9-]{36}"),
    _shape("Flutterwave key", "FLWSECK", r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?"),
    # Data and monitoring
    _shape("Databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?"),
    _shape("Grafana service account token", "glsa_", r"glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}"),
    _shape("Grafana key", "glc_ eyJrIjoi", r"(?:glc_[A-Za-z0-9+/=]{32,}|eyJrIjoi[A-Za-z0-9+/=]{40,})"),
    _shape("New Relic key", "NRAK- NRII- NRJS-", r"NR(?:AK|II|JS)-[A-Za-z0-9_-]{19,32}"),
    _shape("Dynatrace token", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _shape("Notion token", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43})"),
    _shape("Airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    _shape("PlanetScale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}"),
    _shape("Supabase key", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{22,40})"),
    _shape("Prefect or ReadMe key", "pnu_ rdme_", r"(?:pnu_[a-zA-Z0-9]{36}|rdme_[a-z0-9]{70})"),
    _shape("Typeform or HubSpot token", "tfp_ pat-", r"(?:tfp_[A-Za-z0-9_.=-]{59}|pat-(?:na|eu)\d-[a-f0-9-]{36})"),
    # Common formats
    _shape("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{0,2000}"),
    _anywhere("private key", "PRIVATE", r"-----BEGIN[ A-Z0-9]{0,40} PRIVATE KEY(?: BLOCK)?-----"),
    _anywhere("PuTTY private key", "PuTTY-User-Key-File", r"PuTTY-User-Key-File-[23]:"),
    _shape("extended private key", "xprv", r"[xyz]prv[A-HJ-NP-Za-km-z1-9]{100,112}"),
    _anywhere("address with a password", "://", _ADDRESS),
    _anywhere("authorisation header", "uthorization", _HEADER),
)  # fmt: skip


# -- secrets that the text calls so


_ACCESS_WORDS = (
    r"pass(?:word|code|phrase|wd)|pwd|passwort|kennwort|mot de passe|contrase[nñ]a|senha|wachtwoord|has[lł]o|пароль"
)
_KEY_WORDS = (
    r"(?:api|access|secret|private|encryption|signing|master|account|licen[cs]e|webhook|recovery|backup)[ _-]?(?:key|code)s?"
    r"|(?:secret|shared|access|auth(?:entication|orization)?|refresh|api|bearer|session|id|personal access)[ _-]?tokens?"
    r"|client[ _-]?secret|secret|token|bearer|credentials?|api[ _-]?schl(?:ü|ue)ssel|clave|cl[eé]"
)
_CODE_WORDS = r"cvv2?|cvc2?|otp|(?:one[- ]time|verification|security|2fa|login|sms)[ -](?:code|password|pin)"
_FOR = (
    r"(?:\s(?:for|of|to|on|at|für|de|para|pour)\s(?:my|our|the|his|her|their|your|this|that|meine?n?"
    r"|mi|mon)(?:\s[\w'.-]{1,30}){1,4}?)?"
)
_IS = (
    r"(?:\s{0,3}(?:=>|->|[:=：])\s{0,3}|\s{1,3}(?:is|was|will be|to|ist|lautet|est|es|é|это)\s{1,3}(?:now\s"
    r"|still\s|also\s)?:?\s{0,3})"
)
_OPEN = r"[\"'“”‘’`«]?"
_VALUE = r"([^\s\"'“”’`«»]{4,200})"

_LABELLED_PASSWORD = re.compile(
    rf"(?<![\w-])(?:\w{{1,20}}_)?(?:{_ACCESS_WORDS}){_FOR}[\"']?({_IS}){_OPEN}{_VALUE}", re.IGNORECASE
)
_LABELLED_KEY = re.compile(
    rf"(?<!\w)(?:\w{{1,30}}_)?({_KEY_WORDS}){_FOR}[\"']?(?:{_IS}|\s{{1,3}}){_OPEN}([\w+/=.~-]{{12,400}})", re.IGNORECASE
)
_LABELLED_CODE = re.compile(rf"(?<!\w)(?:{_CODE_WORDS}){_FOR}(?:{_IS}|\s{{1,2}})\d{{3,8}}(?!\d)", re.IGNORECASE)
_LABELLED_PIN = re.compile(rf"(?<!\w)(?:pin|PIN)(?: number)?{_FOR}(?:{_IS}|\s)\d{{4}}(?![\d.,]?\d| ?(?:mm|cm))")
_NEAR_PASSWORD = re.compile(rf"(?<![\w-])(?:{_ACCESS_WORDS})\s{_OPEN}{_VALUE}", re.IGNORECASE)
_WORDS_OF_WALLET = re.compile(
    r"(?:seed|recovery|mnemonic|backup|wallet)\s(?:phrase|words|seed)\W{0,3}(?:is|are)?\W{0,3}"
    r"(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}\b",
    re.IGNORECASE,
)
_SOCIAL_SECURITY = re.compile(
    r"\b(?:ssn|social security (?:number|no\.?))\D{0,15}\d{3}[- ]?\d{2}[- ]?\d{4}\b", re.IGNORECASE
)
_CARD = re.compile(r"(?<![\w.+/-])\d(?:[ -]?\d){12,18}(?![\w-])")
_CARD_START = re.compile(r"4|5[1-5]|2[2-7]|3[0-9]|6(?:011|4|5|2)")
_CARD_GROUPS = re.compile(r"\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}")
_OTHER_NUMBER = re.compile(
    r"order|track|isbn|invoice|imei|serial|parcel|shipment|booking|reference|ticket|barcode|ean|phone", re.IGNORECASE
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"x+|.?\*+|\.+|[<$%{\[(].*|.*(?:your|example|placeholder|redacted|changeme|envir[o]n|process\.env|getenv).*"
    r"|(?:none|null|nil|true|false|undefined|string|str)\b.*|.*[(\[{].*|https?:.*",
    re.IGNORECASE,
)
_ORDINARY_ENDING = re.compile(
    r"[a-zäöüßéè'-]*(?:ed|ing|ly|able|ible|ive|ent|ant|ary|ory|ous|ful|less|wn|ong|ort|ure|ise|ize|tten|ken|den|len)"
)

_NO_VALUES = load_words(__package__, "not_secrets")
_ORDINARY = re.compile(r"[A-Za-z]?[a-z]*\d{0,3}|[A-Z]*|\d{1,4}[a-z]{0,2}|v?\d+")
"""A part of a name with hyphens: a word, a number, a version."""
_NAMES = word_set(
    """pass pwd kenn contras senha wacht haslo hasło пароль key token secret bearer credential code schl clave clé otp cvv cvc
    pin phrase words seed ssn social"""
)
"""Parts of the words for secrets. A text without any of them does not mention a secret."""
_DATA = re.compile(r"data:[\w/+.-]{1,60};base64,[A-Za-z0-9+/=]+")
_SHORTEST_TOKEN = 14
"""The length of the shortest token with a known format. A shorter secret is found only if the text calls it one."""
_RANDOM = 2.8
"""Bits per character from which on letters and digits look random. Words with a number at the end have fewer."""


def find_secret(text: str) -> str | None:
    """Return the kind of the first secret in a text, by its format or by its name in the text; None without a secret."""
    text = _DATA.sub(" ", text) if ";base64," in text else text
    if any(len(word) >= _SHORTEST_TOKEN for word in text.split()):
        for shape in _SHAPES:
            if any(hint in text for hint in shape.hints) and shape.pattern.search(text):
                return shape.name
    lowered = text.lower()
    if any(word in lowered for word in _NAMES) and (found := _find_labelled_secret(text, lowered)):
        return found
    return "a card number" if any(map(_is_card, _CARD.finditer(text))) else None


def _find_labelled_secret(text: str, lowered: str) -> str | None:
    """Return the kind of a value that the text calls a secret and that looks like one."""
    passwords, others = _LABELLED_PASSWORD.finditer(text), _NEAR_PASSWORD.finditer(text)
    if any(map(_is_password, passwords)) or any(map(_is_mixed_password, others)):
        return "a password"
    if any(map(_is_key, _LABELLED_KEY.finditer(text))):
        return "a key or token"
    if _LABELLED_CODE.search(text) or ("pin" in lowered and _LABELLED_PIN.search(text)):
        return "a PIN or code"
    if _WORDS_OF_WALLET.search(text):
        return "the words of a wallet"
    return "a social security number" if _SOCIAL_SECURITY.search(text) else None


def _is_password(match: re.Match[str]) -> bool:
    """Return True for a value that is not a plain word, and for a plain word only at the end of a clause."""
    value = match[2].rstrip(".,;:!?)")
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or value.lower() in _NO_VALUES:
        return False
    if not value.isalpha() or any(map(str.isupper, value[1:])):
        return not _is_compound_word(value)
    if match[1].strip() in ("=", ":"):
        return match[1] in ("=", ":") or _ends_clause(match)
    return _ends_clause(match) and _ORDINARY_ENDING.fullmatch(value.lower()) is None


def _is_compound_word(value: str) -> bool:
    """Return True for compounds of words: "eight-character", "8-12", "and/or", "it's"."""
    parts = re.split(r"[-/'’]", value)
    return 1 < len(parts) < 4 and all((part.isalpha() and part.islower()) or part.isdigit() for part in parts)


def _ends_clause(match: re.Match[str]) -> bool:
    text, end = match.string, match.end()
    return match[2][-1] in ".,;!?)" or text[end : end + 1] in ("", "\n", '"', "'", "”", "’", "`", "»")


def _is_mixed_password(match: re.Match[str]) -> bool:
    """Return True if the word after "password" mixes letters and digits."""
    value = match[1].rstrip(".,;:!?)")
    kinds = (any(map(str.isalpha, value)), any(map(str.isdigit, value)))
    return len(value) >= 6 and all(kinds) and not _PLACEHOLDER.fullmatch(value) and not value[0].isdigit()


def _is_key(match: re.Match[str]) -> bool:
    value = match[2].rstrip(".-")
    if len(value) < 12 or _PLACEHOLDER.fullmatch(value):
        return False
    if _UUID.fullmatch(value):
        return match[1].lower() not in ("session token", "id token", "token", "bearer")
    # letters and digits are mixed as in a token, unlike a name with a version
    if not any(map(str.isalpha, value)) or sum(map(str.isdigit, value)) < 2:
        return False
    parts = re.split(r"[^A-Za-z0-9]+", value)
    if len(parts) > 1 and all(map(_ORDINARY.fullmatch, parts)):
        return False
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values()) >= _RANDOM


def _is_card(match: re.Match[str]) -> bool:
    number = match[0]
    digits = [int(digit) for digit in number if digit.isdigit()]
    before = match.string[max(0, match.start() - 40) : match.start()]
    if not _CARD_GROUPS.fullmatch(number) or not _CARD_START.match(number) or len(set(digits)) < 2:
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]  # the checksum of Luhn
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0 and not _OTHER_NUMBER.search(before)
