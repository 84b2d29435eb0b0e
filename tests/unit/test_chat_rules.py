"""The rules on messages to an assistant: requests, short style, pronouns, irony, hearsay, importance, and other languages."""

from __future__ import annotations

from datetime import date

from memwell.facts.datatypes import Candidate, Turn
from memwell.facts.rules.extractor import extract, extract_with_reasons

from ..cases import cases

DAY = date(2025, 3, 3)


def facts(*lines: str, name: str = "Alice") -> list[Candidate]:
    """What is made of messages; a message of the assistant begins with "…"."""
    return extract(turns(*lines, name=name))


def turns(*lines: str, name: str = "Alice") -> list[Turn]:
    return [
        Turn(str(number), "assistant", "The assistant", line[1:], DAY, known=False)
        if line.startswith("…")
        else Turn(str(number), "user", name, line, DAY)
        for number, line in enumerate(lines)
    ]


def texts(*lines: str) -> list[str]:
    return [fact.text for fact in facts(*lines)]


def reasons(line: str) -> list[str]:
    return [one.reason for one in extract_with_reasons(turns(line)).dropped]


def test_traits_without_a_verb_are_facts_of_their_own() -> None:
    found = texts("Allergic to nuts, vegetarian, no alcohol.")
    assert found == ["Alice is allergic to nuts.", "Alice is vegetarian.", "Alice wants no alcohol."]


@cases(
    ("lines", "fact"),
    [
        (("Her name is Ingrid, she lives in Malmö",), 'Alice said: "Her name is Ingrid, she lives in Malmö."'),
        (("My sister moved in with me.", "…How nice!", "Her name is Ingrid, she lives in Malmö"),
         "Alice's sister's name is Ingrid, she lives in Malmö."),
        (("My boss is on leave. My brother is ill.", "He is in hospital until May."),
         "Alice's brother is in hospital until May."),
        (("My laptop is from 2019.", "…OK.", "It crashes every day."), "Alice's laptop crashes every day."),
        (("My mother and my aunt came.", "…OK.", "She lives in Porto."),
         'Alice said: "My mother and my aunt came. She lives in Porto."'),
        (("…What is your sister called?", "Her name is Ingrid, she lives in Malmö"),
         'Asked "What is your sister called?", Alice said: "Her name is Ingrid, she lives in Malmö."'),
    ],
)  # fmt: skip
def test_a_pronoun_is_resolved_or_quoted_with_the_sentence_before(lines: tuple[str, ...], fact: str) -> None:
    assert texts(*lines)[-1] == fact


@cases(
    ("lines", "fact"),
    [
        (("We deploy every second Thursday.",), "Alice's team deploys every second Thursday."),
        (("Our kids are small, we moved to Bonn.",), "Alice's family moved to Bonn."),
        (("The database is Postgres.", "We freeze it in December."), "Alice's team freezes it in December."),
        (("We met at five.",), 'Alice said: "We met at five."'),
        (("My husband and I are vegan.",), "Alice's husband and Alice are vegan."),
    ],
)  # fmt: skip
def test_we_is_the_team_the_family_or_quoted(lines: tuple[str, ...], fact: str) -> None:
    assert texts(*lines)[-1] == fact


@cases(
    "line",
    [
        "Yeah right, and I'm the Queen.", "I just love waiting on hold for an hour.", "I'm a millionaire. Just kidding.",
        "If I had a yacht, I would sail to Crete.", "oh wow a miracle", "Wonderful support, said no one ever.",
        "lol my boss would explode", "I love my new phone /s", "Wenn ich reich wäre, würde ich nach Rom ziehen.",
        "Si j'étais riche, j'achèterais une île.", "Se fossi ricco comprerei una barca.",
    ],
)  # fmt: skip
def test_what_is_not_meant_is_no_fact(line: str) -> None:
    assert texts(line) == []
    assert {"sarcasm", "hypothetical"} & set(reasons(line))


@cases(
    "line",
    [
        "Great, my train was cancelled again.", "It's not like I run a bakery.", "My boss said: I quit.",
        "I want to marry a toaster lol",
    ],
)  # fmt: skip
def test_what_may_be_irony_is_a_quote_of_low_confidence(line: str) -> None:
    (fact,) = facts(line)
    assert fact.text.startswith('Alice said: "')
    assert fact.confidence <= 0.4
    assert fact.importance <= 0.3


def test_irony_colours_what_the_speaker_says_next() -> None:
    assert texts("I am delighted with the blender.") == ["Alice is delighted with the blender."]
    assert texts("Great, another broken blender.", "I am delighted.") == []


@cases("line", ["Apparently the office moves to Bonn.", "I heard that the tram closes in May."])
def test_hearsay_is_unsure(line: str) -> None:
    (fact,) = facts(line)
    assert fact.confidence <= 0.5


def test_health_matters_more_than_a_seat() -> None:
    lines = (
        "I'm allergic to penicillin.", "I take 20 mg of warfarin.", "We must never deploy on Fridays.", "I prefer aisle seats.",
        "Soy celíaca.", "Je suis enceinte de trois mois.",
    )  # fmt: skip
    allergy, medicine, constraint, seat, *foreign = (fact.importance for fact in facts(*lines))
    assert min(allergy, medicine, *foreign) > constraint > seat


@cases(
    ("lines", "fact"),
    [
        (("Please refund me.", "…I've refunded £6.99."), "The assistant has refunded £6.99."),
        (("Thanks.", "…Redelivery is booked for Tuesday between 9 and 12."),
         "According to the assistant: Redelivery is booked for Tuesday between 9 and 12."),
        (("My SIM is dead.", "…I see, the SIM was never activated. I have activated it now."),
         "The assistant has activated the SIM now."),
        (("Which hotel should I take?", "…I'd recommend Hotel Adler, room 12, for 80 euros."),
         "The assistant recommended Hotel Adler, room 12, for 80 euros."),
    ],
)  # fmt: skip
def test_what_an_assistant_did_or_recommended_is_kept(lines: tuple[str, ...], fact: str) -> None:
    assert texts(*lines)[-1] == fact


@cases(
    "line",
    ["Noted.", "Noted!", "I'll keep that in mind.", "I've noted that.", "I'll set that up.", "I'd recommend a walk."],
)
def test_polite_words_of_an_assistant_are_not_kept(line: str) -> None:
    assert texts("I live in Rome.", f"…{line}") == ["Alice lives in Rome."]


@cases(
    ("line", "kept"),
    [
        ("Guten Tag! Ja klar, ich habe zwei Kinder. Wie geht das?", ["Ich habe zwei Kinder."]),
        ("Ab dem 20. bin ich drei Wochen weg.", ["Ab dem 20. bin ich drei Wochen weg."]),
        ("D'accord, merci ! Je n'utilise aucun pesticide.", ["Je n'utilise aucun pesticide."]),
        ("Vale, genial. Soy alérgica al polen, ¿hay otra opción?", ["Soy alérgica al polen."]),
        ("Obrigada! Moro em Braga com dois gatos.", ["Moro em Braga com dois gatos."]),
        ("Va bene. Lavoro a Monza, in ospedale.", ["Lavoro a Monza, in ospedale."]),
        ("Prima, dank je wel! Ik ben allergisch voor noten.", ["Ik ben allergisch voor noten."]),
        ("Super, danke dir!", []), ("Perfetto, grazie mille!", []), ("Oké, tot morgen!", []), ("C'est gentil !", []),
    ],
)  # fmt: skip
def test_of_other_languages_statements_are_chosen_and_quoted(line: str, kept: list[str]) -> None:
    assert texts(line) == [f'Alice said: "{words}"' for words in kept]


@cases(
    ("line", "reason"),
    [
        ("what's the weather tomorrow", "question"), ("Please cancel my order.", "command"), ("ok great!", "small_talk"),
        ("I'm waiting for the bus", "moment"), ("dunno, maybe", "small_talk"), ("¿Cuánto cuesta?", "question"),
        ("Gracias, vale, está bien.", "small_talk"),
    ],
)  # fmt: skip
def test_everything_else_has_a_reason(line: str, reason: str) -> None:
    assert texts(line) == []
    assert reasons(line) == [reason]


def test_a_short_message_is_in_the_language_of_those_before() -> None:
    assert len(texts("Tengo dos hijos pequeños.", "Vale, genial.", "Perfecto.")) == 1


def test_statements_joined_by_commas_are_facts_of_their_own() -> None:
    found = texts("budget is 18k, the fitter is Mr Huber, he starts on 4 August")
    assert found == [
        "According to Alice: Budget is 18k.",
        "According to Alice: The fitter is Mr Huber.",
        "According to Alice: The fitter Mr Huber starts on 4 August.",
    ]


@cases(
    ("line", "expected"),
    [
        ("My parents live in Umeå and I live in Luleå.", ["Alice's parents live in Umeå.", "Alice lives in Luleå."]),
        ("My mum is a nurse but I'm a teacher.", ["Alice's mum is a nurse.", "Alice is a teacher."]),
        ("My dog is called Fips, he is four.", ["Alice's dog is called Fips.", "Alice's dog Fips is four."]),
        (
            "My boss is Ms Vega and she works from Oslo.",
            ["Alice's boss is Ms Vega.", "Alice's boss Ms Vega works from Oslo."],
        ),
        ("My sister and I own a kayak.", ["Alice's sister and Alice own a kayak."]),
        ("My mother told my aunt, she cried.", ["Alice's mother told their aunt, she cried."]),
        ("I live in Bath and if I moved to York, would I pay more?", ["Alice lives in Bath."]),
        ("I just sold my boat, can I deduct the mooring fee?", ["Alice just sold their boat."]),
        ("If I sold my boat, could I deduct the mooring fee?", []),
        ("Unless I move to Faro, can I keep my doctor?", []),
        ("I'm down to 85 kg.", ["Alice is down to 85 kg."]),
        ("Down to 88 kg now!", ["Alice is down to 88 kg now."]),
        ("new job title: lead analyst", ["Alice's new job title is lead analyst."]),
        ("Email: tom@b.example", ["Alice's email is tom@b.example."]),
        ("My heating works.", ["Alice's heating works."]),
        ("My knee is fine now.", ["Alice's knee is fine now."]),
        ("I take ramipril.", ["Alice takes ramipril."]),
        ("I'm asthmatic.", ["Alice is asthmatic."]),
        ("Hoppel passed away.", ["According to Alice: Hoppel passed away."]),
        ("There are 5 kids at the daycare now.", ["According to Alice: There are 5 kids at the daycare now."]),
        ("Nunca uso gorra.", ['Alice said: "Nunca uso gorra."']),
        ("Sempre uso óculos.", ['Alice said: "Sempre uso óculos."']),
        ("My turn.", []),
        ("Sure, and I'm the King of Sweden.", []),
        ("Right, and I have a yacht in Monaco, obviously.", []),
        ("Oh yeah, I totally can't wait to squeeze into seat 34B again.", []),
        ("Sure, and I'm allergic to wasps.", ["Alice is allergic to wasps."]),
        ("Oh, I really can't wait to see my sister again.", ["Alice really cannot wait to see their sister again."]),
    ],
)
def test_short_and_joined_statements_are_facts_if_they_are_meant(line: str, expected: list[str]) -> None:
    assert texts(line) == expected
