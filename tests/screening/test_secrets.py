"""Secrets are seen before a text is cut into sentences, and what overlaps one becomes no fact, no summary and no context."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memwell.screening.found_secret import iterate_matches
from memwell.screening.screen import find_suspicion
from memwell.screening.secrets import MASK, list_answered, list_secrets, mask_secrets

from ..cases import cases
from ..engines import Memory
from ..processor_time import processor_time
from ..scripted import ScriptedServer
from . import later
from .everyday import CLEAN as EVERYDAY
from .look_alikes import ENTRIES, TALK, generate
from .secret_samples import HARMLESS, TOKENS, hexes, mix, upper

Lines = list[str]


def _encode(size: int, width: int) -> Lines:
    text = base64.b64encode(Random(size).randbytes(size)).decode()
    return [text[at : at + width] for at in range(0, len(text), width)]


def _key(kind: str, size: int, width: int = 64, dashes: str = "-----") -> Lines:
    return [
        f"{dashes}BEGIN {kind}{dashes}",
        *_encode(size, width),
        f"{dashes}END {kind}{dashes}",
    ]


KEYS: dict[str, Lines] = {
    "rsa": _key("RSA PRIVATE" + " KEY", 1190),
    "pkcs8": _key("PRIVATE" + " KEY", 1218),
    "encrypted": _key("ENCRYPTED PRIVATE" + " KEY", 1300),
    "ec": _key("EC PRIVATE" + " KEY", 121),
    "openssh": _key("OPENSSH PRIVATE" + " KEY", 390, 70),
    "pgp": ["-----BEGIN PGP PRIVATE" + " KEY BLOCK-----", "", "Version: GnuPG v2", "", *_encode(700, 64), "=kR3f",
            "-----END PGP PRIVATE" + " KEY BLOCK-----"],
    "openssl": ["-----BEGIN RSA PRIVATE" + " KEY-----", "Proc-Type: 4,ENCRYPTED", f"DEK-Info: AES-128-CBC,{hexes(32)}", "",
                *_encode(1190, 64), "-----END RSA PRIVATE" + " KEY-----"],
    "putty": ["PuTTY-User-" + "Key-File-3: ssh-rsa", "Encryption: none", "Comment: laptop", "Public-Lines: 6",
              *_encode(280, 64), "Private-Lines: 14", *_encode(660, 64), f"Private-MAC: {hexes(64)}"],
}  # fmt: skip

PASTED: dict[str, Callable[[Lines], str]] = {
    "as it is": "\n".join,
    "CRLF": "\r\n".join,
    "indented": lambda lines: "\n".join(f"    {line}" for line in lines),
    "quoted": lambda lines: "\n".join(f"> {line}" for line in lines),
    "in quotation marks": lambda lines: 'KEY="' + "\n".join(lines) + '"',
    "JSON": lambda lines: json.dumps({"private_key": "\n".join(lines), "type": "service_account"}),
    "JSON in JSON": lambda lines: json.dumps(json.dumps({"private_key": "\n".join(lines)})),
    "heredoc": lambda lines: "cat > key.pem <<'EOF'\n" + "\n".join(lines) + "\nEOF",
    "string literals": lambda lines: "\n".join(f'"{line}\\n" +' for line in lines),
    "YAML": lambda lines: "key: |\n" + "\n".join(f"  {line}" for line in lines),
    "diff": lambda lines: "\n".join(f"+{line}" for line in lines),
    "numbered": lambda lines: "\n".join(f"{number:>3}  {line}" for number, line in enumerate(lines, 1)),
    "one line": " ".join,
    "blank lines": "\n\n".join,
    "HTML": "<br>".join,
    "fenced": lambda lines: "```\n" + "\n".join(lines) + "\n```",
    "curly dashes": lambda lines: "\n".join(lines).replace("-----", "—–"),
    "without its head": lambda lines: "\n".join(lines[1:]),
    "without its end": lambda lines: "\n".join(lines[:-1]),
    "without both": lambda lines: "\n".join(lines[1:-1]),
    "cut in its head": lambda lines: "\n".join(lines)[14:],
    "first part": lambda lines: "\n".join(lines)[: len("\n".join(lines)) * 2 // 3],
    "last part": lambda lines: "\n".join(lines)[len("\n".join(lines)) // 3 :],
}


def find_leaks(secret: str, text: str, size: int = 12) -> list[str]:
    """Return pieces of a secret that a text repeats."""
    return [secret[at : at + size] for at in range(len(secret) - size + 1) if secret[at : at + size] in text]


def _list_data(lines: Lines) -> Lines:
    return [line for line in lines if len(line) > 30 and " " not in line]


def test_pasted_keys_are_masked_as_a_whole() -> None:
    """No line of a key remains, and what stands before and after it does."""
    failures = []
    for name, lines in KEYS.items():
        for way, paste in PASTED.items():
            masked = mask_secrets(f"Here is my key:\n{paste(lines)}\nI live in Lisbon.")
            rest = any(find_leaks(line, masked, 16) for line in _list_data(lines))
            if rest or "Here is my key" not in masked or "I live in Lisbon." not in masked:
                failures.append((name, way))
    assert failures == []


def test_a_mask_keeps_offsets_and_lines() -> None:
    text = f"My dog is Rex.\n{PASTED['indented'](KEYS['rsa'])}\nI live in Lisbon."
    masked = mask_secrets(text)
    assert len(masked) == len(text)
    assert masked.count("\n") == text.count("\n")
    assert masked.index("I live") == text.index("I live")


@cases(
    "text",
    [
        "\n".join(line.replace("PRIVATE", "PUBLIC") for line in KEYS["rsa"]),
        "\n".join(line.replace("RSA PRIVATE KEY", "CERTIFICATE") for line in KEYS["rsa"]),
        "\n".join(line.replace("RSA PRIVATE KEY", "PGP MESSAGE") for line in KEYS["rsa"]),
        f"ssh-rsa AAAAB3{mix(300)} ana@laptop",
        "/usr/local/share/Projects2024/Documents/Reports\n/usr/local/share/Projects2025/Documents/Reports",
    ],
    ids=lambda text: text[:30],
)
def test_public_data_is_no_secret(text: str) -> None:
    assert list_secrets(text) == []


# -- from end to end

FORMATS: dict[str, str] = {
    **{
        name: TOKENS[name]
        for name in (
            "aws", "google", "google oauth", "azure storage", "github", "github fine", "gitlab", "npm", "pypi", "docker",
            "anthropic", "openai project", "hugging face", "slack bot", "slack webhook", "telegram", "sendgrid", "stripe",
            "shopify", "jwt", "databricks", "card",
        )
    },
    "rsa key": "\n".join(KEYS["rsa"]),
    "openssh key": "\n".join(KEYS["openssh"]),
    "bank account": "DE89 3704 0044 " + "0532 0130 00",
    "netlify": "nf" + "p_" + mix(36),
    "1password": "A3-" + f"{upper(6)}-{upper(6)}-{upper(5)}-{upper(5)}-{upper(5)}-{upper(5)}",
    "bitlocker": "-".join(["135795", "246895"] * 4),
}  # fmt: skip
WRITTEN: dict[str, Callable[[str], str]] = {
    "alone": str,
    "in a sentence": lambda secret: f"I keep {secret} in my notes for later",
    "quoted": lambda secret: "Look what I got:\n" + "\n".join(f"> {line}" for line in secret.split("\n")),
    "JSON": lambda secret: json.dumps({"note": "mine", "value": secret}),
}


def _tell(memory: Memory, user: str, texts: list[str]) -> list[str]:
    """Say each text in a session of its own, and return the ids of the turns."""
    turns = []
    for number, text in enumerate(texts):
        turns += [turn.id for turn in memory.user(user).add(text, session=f"s{number}").turns]
        memory.user(user).consolidate(f"s{number}")
    return turns


def test_secrets_of_28_formats_written_in_4_ways_are_held(tmp_path: Path) -> None:
    """S3.44: each is quarantined, and no fact or context repeats a piece of it, nor does the quarantine."""
    texts = [(name, way, write(FORMATS[name])) for name in FORMATS for way, write in WRITTEN.items()]
    with Memory(tmp_path, worker=False) as memory:
        turns = _tell(memory, "ana", [text for _, _, text in texts])
        me = memory.user("ana")
        held = me.held()
        cited = {evidence.turn for one in held for evidence in me.memory_history(one.id).evidence}
        missing = [(name, way) for turn, (name, way, _) in zip(turns, texts, strict=True) if turn not in cited]
        facts = "\n".join(one.content for one in me.memories())
        shown = me.context(budget=100_000, turns=500).text
        quarantine = "\n".join(one.content for one in held)
        leaks = [
            (name, place)
            for name in FORMATS
            for line in FORMATS[name].split("\n")
            for place, text in {"facts": facts, "context": shown, "held": quarantine}.items()
            if "BEGIN" not in line and "END" not in line and find_leaks(line, text)
        ]
    assert missing == []
    assert leaks == []


@pytest.mark.parametrize("name", ["rsa", "openssh", "ec", "pkcs8"])
def test_a_pasted_key_becomes_no_fact_in_any_way(tmp_path: Path, name: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        texts = [f"Here is my key:\n{paste(KEYS[name])}\nI live in Lisbon." for paste in PASTED.values()]
        _tell(memory, "ana", texts)
        me = memory.user("ana")
        known = "\n".join([*(one.content for one in me.memories()), *(one.content for one in me.held())])
        known += me.context("key", budget=100_000, turns=500).text
        assert "Lisbon" in known
        assert [leak for line in _list_data(KEYS[name]) for leak in find_leaks(line, known)] == []
        assert len(me.held()) >= 1


@cases(
    ("question", "answer", "secret"),
    [
        ("What is your wifi password?", "blue-Horse-42", "Horse"),
        ("What's your wifi password?", "It's blue-Horse-42.", "Horse"),
        ("What is your PIN?", "4821", "4821"),
        ("What's the password for Netflix?", "swordfish", "swordfish"),
    ],
)
def test_an_answer_that_its_question_calls_a_secret_is_one(
    tmp_path_factory: pytest.TempPathFactory, question: str, answer: str, secret: str
) -> None:
    with Memory(tmp_path_factory.mktemp("home"), worker=False) as memory:
        flow = memory.flow("support")
        session = flow.session("s")
        session.history.append(role="assistant", content=question)
        session.history.append(role="user", name="Ana", content=answer)
        session.history.append(role="user", name="Ana", content="I live in Lisbon.")
        flow.consolidate("s")
        known = [one.content for one in (*flow.memories(), *flow.held())]
        assert not any(secret in one for one in [*known, session.context().text])
        assert any("Lisbon" in one for one in known)


@cases("answer", ["Sorry, I forgot.", "Nope.", "I never told you.", "It's on the fridge."])
def test_an_answer_without_a_secret_is_none(answer: str) -> None:
    assert list_answered("What's the wifi password?", answer) == []


def test_a_fact_that_an_earlier_version_made_of_a_line_of_a_key_is_in_no_context(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        flow = memory.flow("support")
        line = KEYS["rsa"][3]
        flow.write(f'Ana said: "{line}".')
        flow.write("Ships to the EU only")
        context = flow.context(budget=10_000)
        assert line not in context.text
        assert "Ships to the EU only" in context.text
        assert [one.reason for one in context.left_out] == ["secret"]
        assert [one.problem for one in flow.audit().findings] == ["secret"]


def test_a_summary_leaves_out_a_key_of_many_lines(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        bank = memory.banks.create("notes", max_turns=2)
        bank.add(
            f"Here is my key:\n{PASTED['indented'](KEYS['rsa'])}\nI moved to Porto in May.", key="k", speaker="user"
        )
        for text in ("I am allergic to nuts.", "We decided to meet on Friday.", "My dog is called Rex."):
            bank.add(text, key="k", speaker="user")
        memory.jobs.wait(bank.compact().job)
        (summary,) = [entry.content for entry in bank.entries(key="k") if entry.summary_of]
        assert [leak for line in _list_data(KEYS["rsa"]) for leak in find_leaks(line, summary)] == []
        assert MASK not in summary


def test_a_model_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(['{"n":1,"do":"keep"}']) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:scripted@{server.url}?timeout_s=5")
        with Memory(tmp_path, worker=False) as memory:
            flow = memory.flow("support")
            text = f"{PASTED['quoted'](KEYS['ec'])}\nI live in Lisbon. The wifi password at home is blue-Horse-42."
            flow.session("s").history.append(role="user", name="Ana", content=text)
            flow.consolidate("s")
            sent = json.dumps(server.requests)
            assert server.requests
            assert [one.content for one in flow.memories()] == ["Ana lives in Lisbon."]
    assert "blue-Horse" not in sent
    assert [leak for line in _list_data(KEYS["ec"]) for leak in find_leaks(line, sent)] == []


# -- values that the text calls a secret

SPOKEN = """\
The wifi password at home is {}
The password for Netflix is {}.
the pw is {}
my pw's {}
Wifi pass: {}
p/w: {}
the new password of my dad's laptop is now {}
PW for the portal - {}
{} is the wifi password
Use {} as the password for the guest network
{} - that's my password
I changed the router password to {} last night
we set the password of the NAS to {}
The wifi password at my parents' house in Porto has been changed to {}
My password, the one for work, is {}
What's the wifi password? It's {}
Please note the wifi password, it's {}
username: anna, password: {}
user anna / pw {}
Password (router): {}
The password you need for the shared drive is {}
The credentials are admin / {}
Das WLAN-Passwort zu Hause ist {}
Das Passwort für Netflix lautet {}
la contraseña del wifi es {}
le mot de passe du wifi est {}
La password del wifi è {}
Het wachtwoord van de wifi is {}
Hasło do wifi: {}
Wi-Fi şifresi: {}
пароль от вайфая: {}
wifi的密码是{}""".splitlines()
PASSWORDS = ("blue-Horse-42", "Tr0ub4dor&3", "Schnitzel!2024", "hunter22x")
CODES = """\
My PIN is {}
my bank card's PIN is {}.
PIN for the alarm: {}
use PIN {} for my debit card
my PIN? {}
my pin's {}
The passcode to my phone is {}.
The door code is {}
Our alarm code is {}
The gate code at the cabin is {}
the code for the garage is {}
The garage code's {}
the code to get in is {}
The door opens with {}
Der PIN-Code für die Garage ist {}
Le code de la porte est {}""".splitlines()
PHRASES = """\
The passphrase of the NAS is correct horse battery staple.
The wifi password at home is "correct horse battery staple"
my password is swordfish
root password is toor
the combination of the safe is 12-34-56
backup codes for 2FA: 4821-9937 1184-2256
curl -u admin:hunter-gatherer7 https://ci.internal/job
My IBAN is GB82 WEST 1234 5698 7654 32.
Please pay to NL91ABNA0417164300, thanks.
My CPF is 529.982.247-25.""".splitlines()


def test_passwords_and_codes_are_found_however_they_are_said() -> None:
    said = [way.format(password) for way in SPOKEN for password in PASSWORDS]
    said += [way.format(code) for way in CODES for code in ("4821", "0429")] + PHRASES
    assert [text for text in said if find_suspicion(text) is None] == []
    values = [(mask_secrets(way.format(password)), password) for way in SPOKEN for password in PASSWORDS]
    assert [text for text, password in values if password[:8] in text] == []


DISGUISED = """\
My p@ssw0rd: {}
The p4ssword is {}
my p a s s w o r d is {}
My pass\u200bword is {}
My p\u0430ssword is {}
My \uff50\uff41\uff53\uff53\uff57\uff4f\uff52\uff44 is {}
My \u1d18\u1d00\ua731\ua731\u1d21\u1d0f\u0280\u1d05 is {}
La contrasen\u0303a del wifi es {}
I log in to the bank with {}.
I signed in to the portal using {} yesterday
{} is what I type at the router login
Wi-Fi: network Casa, key {}
SSID Casa, key: {}""".splitlines()
OPENING = """\
The alarm is disarmed with {}.
The door opens when you type {}
Use {} to disarm the alarm
I unlock my phone with {}, like everyone.
{} opens the gate.
You can turn off the alarm by entering {}""".splitlines()
_CLOUD = "/".join(("wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYzTq8LmWv2a"))
_DOCUMENTED = "/".join(("wJalrXUtnFEMI", "K7MDENG", "bPxRfiCYEXAMPLE" + "KEY"))
KEYS_TOLD = [f"I use {_CLOUD} as my AWS secret.", f"{_CLOUD} is our API key", f"my AWS secret is {_DOCUMENTED}"]
KEYS_TOLD += [f"my AWS secret {_CLOUD}"]
ENCODED = [base64.b64encode(text.encode()).decode() for text in ("my password is blue-Horse-42", TOKENS["github"])]


def test_secrets_in_disguise_or_before_their_names_are_found() -> None:
    """The mask covers the value in the text as it was written."""
    told = [
        (way.format(password), password[:8]) for way in DISGUISED for password in PASSWORDS if password != "hunter22x"
    ]
    told += [(way.format("hunter22x"), "hunter22") for way in DISGUISED]
    told += [(way.format(code), code) for way in OPENING for code in ("4821", "0429")]
    told += [(text, "K7MDENG") for text in KEYS_TOLD] + [(f"Keep {text} for me.", text) for text in ENCODED]
    masked = [(mask_secrets(f"{text}\nI live in Lisbon."), text, secret) for text, secret in told]
    assert [text for after, text, secret in masked if secret in after] == []
    assert all(after.endswith("\nI live in Lisbon.") and len(after) == len(text) + 18 for after, text, _ in masked)


def test_a_secret_in_disguise_becomes_no_fact(tmp_path: Path) -> None:
    """S3.44: its value is in no fact, neither in an active nor in a quarantined one."""
    texts = [way.format("Blue-Horse-42") for way in DISGUISED] + KEYS_TOLD + ENCODED
    with Memory(tmp_path, worker=False) as memory:
        _tell(memory, "ana", texts)
        me = memory.user("ana")
        known = "\n".join(one.content for one in (*me.memories(), *me.held()))
    assert [secret for secret in ("Horse", "K7MDENG", *ENCODED) if secret in known] == []


def test_hidden_characters_are_in_no_fact(tmp_path: Path) -> None:
    """S3.44: what no reader sees could carry a message. Emoji and scripts keep the joiners that they need."""
    with Memory(tmp_path, worker=False) as memory:
        _tell(memory, "ana", ["I live in Lis\u200bbon \U0001f469\u200d\U0001f467."])
        (fact,) = memory.user("ana").memories()
    assert fact.content == "Ana lives in Lisbon \U0001f469\u200d\U0001f467."


def test_check_digits_decide() -> None:
    right = "My account is DE89 3704 0044 0532 0130 00."
    assert find_suspicion(right) is not None
    wrong = [right.replace("DE89", f"DE{check:02}") for check in range(100) if check != 89]
    assert [text for text in wrong if find_suspicion(text) is not None] == []
    assert find_suspicion("My CPF is 529.982.247-26.") is None


# -- look-alikes


def test_at_most_one_percent_of_the_look_alikes_is_held() -> None:
    corpora = {"talk": TALK, "entries": ENTRIES, "identifiers": generate(), "harmless": HARMLESS}
    corpora["everyday"] = [*EVERYDAY, *later.CLEAN, *later.UNSEEN_CLEAN, *later.LAST_CLEAN]
    for name, texts in corpora.items():
        found = [text for text in texts if list_secrets(text)]
        assert 100 * len(found) <= len(texts), (name, found)


# -- cost


@cases(
    "piece",
    [
        "password for ", "the password of the ", "my pw? ", "is my password ", "code to open the ", "pin at ", "key for ",
        "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n", "BEGIN ", f"{mix(64)}\n", f"{mix(40)} ", "\\n", "DE89 ",
        "DE89370400440532013000", "123.456.789-", "135795-", "MII", "> ", "password (", 'password is "', "and for the bank ",
        "login / ", "A: 1\n", "1 ", "=", "5K", "密码是", "combination 12-",
        "p@ss ", "p a s s ", "a", "4", "_", "é", "\u200b", "e\u0301", "\u0301", "а", "aа", "log in ", "log in with ", "A1-",
        "Wi-Fi ",
        "Wi-Fi key ", "is what I type ", "use 4821 to open the ", "the door is opened with ", "aGVsbG8g",
        "aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8g ",
        "x/1", "x/1 is my ", "4821 opens the ",
    ],
)  # fmt: skip
def test_the_search_takes_linear_time(piece: str) -> None:
    times = []
    for size in (1 << 14, 1 << 17):
        text = piece * (size // len(piece.encode()))
        times.append(processor_time(partial(mask_secrets, text)))
    assert times[1] < 24 * max(times[0], 0.05)
    assert times[1] < 5


class Observed:
    """A pattern that notes how many characters each of its searches may read."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.sizes = re.compile(pattern), list[int]()

    def finditer(self, text: str, start: int, end: int) -> Iterator[re.Match[str]]:
        self.sizes.append(end - start)
        return self.pattern.finditer(text, start, end)


@cases(
    "pattern",
    [r"\bpin is (?=\d)", r"pin is \d{4}(?!\d)", r"(?<!x)pin", r"(?:pin is 1234 ){1,60}", r"x{3000}", "absent"],
)
def test_a_long_text_is_searched_in_pieces_and_nothing_is_found_otherwise(pattern: str) -> None:
    """T2: one search of a mebibyte would hold up all other threads."""
    text = ("pin is 1234 " * 5_000 + "x" * 7_000) * 15
    observed: Any = Observed(pattern)
    found = [match.span() for match in iterate_matches(observed, text)]
    assert found == [match.span() for match in re.finditer(pattern, text)]
    assert max(observed.sizes) <= 40_000


def test_a_secret_is_found_wherever_it_is_in_a_long_text() -> None:
    """Also where two pieces meet."""
    secret = "My password is Blue-Horse-42."
    for before in range(32_768 - 40, 32_768 + 10, 3):
        assert [one.kind for one in list_secrets("a " * (before // 2) + "b" * (before % 2) + secret)] == ["a password"]
