"""The rules: which statements of turns they keep, and in which words."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from memwell.facts.datatypes import Candidate, Turn
from memwell.facts.reconcile import Reason
from memwell.facts.rules.extractor import extract, extract_with_reasons
from memwell.facts.rules.keep_or_drop import Drop

from ..cases import cases

DAY = date(2023, 5, 8)
Line = tuple[str, str]


def said(lines: list[Line], note: bool = False) -> list[Turn]:
    """Turns of somebody by name, or of one of those who have none: `user`, `assistant`, `tool`, `system`."""
    roles = {"user": "The user", "assistant": "The assistant", "tool": "The tool", "system": "The system"}
    return [
        Turn(str(n), who if who in roles else "user", roles.get(who, who), text, DAY, who not in roles, note)
        for n, (who, text) in enumerate(lines)
    ]


def facts(*lines: Line, note: bool = False) -> list[Candidate]:
    return extract(said(list(lines), note))


def texts(*lines: Line, note: bool = False) -> list[str]:
    return [fact.text for fact in facts(*lines, note=note)]


@cases(
    "text",
    [
        "Hello!", "Hi there! How are you?", "Thanks so much, that is great!", "Wow, awesome!", "Where do you live?",
        "Haha, yeah.", "You're welcome! Take care!", "😀😀 🎉", "...", "", "   ", "Guten Morgen!", "你好！",
        "شكرا!", "Wie heißt du?", "你好吗？",
    ],
)  # fmt: skip
def test_greetings_questions_and_filler_are_dropped(text: str) -> None:
    assert texts(("user", text)) == []


@cases(
    ("text", "fact"),
    [
        ("I have a dog.", "Caroline has a dog."),
        ("I don't like cheese.", "Caroline does not like cheese."),
        ("I think I am a nurse by heart.", "Caroline thinks they are a nurse by heart."),
        ("My sister and I moved to Porto.", "Caroline's sister and Caroline moved to Porto."),
        ("We have two cats.", "Caroline's family has two cats."),
        ("Hey! I've never owned a car!", "Caroline has never owned a car."),
        ("I can't eat nuts.", "Caroline cannot eat nuts."),
        ("I sing and play guitar.", "Caroline sings and plays guitar."),
        ("Just moved into my new flat.", "Caroline just moved into their new flat."),
        ("My favourite song is \"My Way\".", "Caroline's favourite song is \"My Way\"."),
        ("It's cold here, but I like it.", 'Caroline said: "It\'s cold here, but I like it."'),
    ],
)  # fmt: skip
def test_the_speaker_is_named(text: str, fact: str) -> None:
    assert texts(("Caroline", text)) == [fact]


def test_a_speaker_without_a_name_is_the_user() -> None:
    (fact,) = facts(("user", "I live in Porto."))
    assert (fact.text, fact.subject, fact.kind) == ("The user lives in Porto.", None, "attribute")


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("I live in Porto.", "Caroline"),
        ("My sister Ana lives in Rome.", "Caroline's sister Ana"),
        ("My dog is called Rex.", "Caroline's dog"),
    ],
)
def test_a_fact_is_about_somebody(text: str, subject: str) -> None:
    assert [fact.subject for fact in facts(("Caroline", text))] == [subject]


@cases(
    ("question", "answer", "fact"),
    [
        ("How many dogs do you have?", "Two", "The user has two dogs."),
        ("How many people will come?", "Three.", "Three people will come."),
        ("How many?", "Two", 'Asked "How many?", the user said: "Two."'),
        ("Where do you live?", "Lisbon.", "The user lives in Lisbon."),
        ("What's your name?", "Max", "The user's name is Max."),
        ("Do you have any pets?", "No", "The user does not have any pets."),
        ("Do you smoke?", "Yes!", "The user smokes."),
    ],
)
def test_a_short_answer_becomes_a_statement(question: str, answer: str, fact: str) -> None:
    (found,) = facts(("assistant", question), ("user", answer))
    assert found.text == fact
    assert [source.id for source in found.sources] == ["1", "0"]


@cases(
    "text",
    ["I never eat meat.", "I don't have a car.", "I'm not married.", "I haven't been to Rome.",
     "My brother can't swim, I was told."],
)  # fmt: skip
def test_a_negation_is_never_lost(text: str) -> None:
    (fact,) = texts(("user", text))
    assert any(word in fact.split() for word in ("never", "not", "cannot"))


@cases(
    "sentence",
    ["Eu moro em Lisboa.", "Ich wohne seit März in Berlin.", "我住在上海。", "أعيش في القاهرة.", "J'habite à Lyon."],
)
def test_other_languages_are_quoted(sentence: str) -> None:
    assert texts(("Ana", sentence), ("Bob", "Okay.")) == [f'Ana said: "{sentence}"']


@pytest.mark.parametrize(
    "text", ["Hallo! Ich habe zwei Kinder. Und du?", "你好！我有两个孩子。你呢？", "مرحبا! عندي طفلان. وأنت؟"]
)
def test_greetings_and_questions_in_other_languages_are_dropped(text: str) -> None:
    assert len(texts(("Ana", text))) == 1


def test_an_assistant_is_believed_only_what_it_did() -> None:
    told = "Great idea! You live in Porto. You should try the wine. I booked a table for you at 8 pm. I'd love to help!"
    (fact,) = facts(("user", "Hello!"), ("assistant", told))
    assert fact.text == "The assistant booked a table for the user at 8 pm."
    assert fact.importance <= 0.3


def test_an_assistant_is_remembered_for_what_it_named() -> None:
    listed = "Sure:\n1. **Doug Fir Lounge**: small\n2. Crystal Ballroom - large\n3. The Old Church\n\nEnjoy!"
    asked = ("user", "Which venues in Portland are good?")
    (fact,) = facts(asked, ("assistant", listed))
    venues = "Doug Fir Lounge, Crystal Ballroom, The Old Church"
    assert fact.text == f'Asked "Which venues in Portland are good?", the assistant named {venues}.'
    assert (fact.sources[0].id, fact.subject) == ("1", None)
    assert facts(asked, ("assistant", "1. Drink enough water\n2. Sleep well\n3. Take a walk every day")) == []
    assert facts(("user", "I see."), ("assistant", listed)) == []


def test_an_answer_that_is_a_whole_statement_stands_alone() -> None:
    (fact,) = facts(("Ben", "How is Lucas?"), ("Emma", "I broke up with Lucas."))
    assert fact.text == "Emma broke up with Lucas."


def test_a_system_states_nothing_and_a_tool_little() -> None:
    tool = 'The museum opens at 9 am. {"rows": 3} I am a tool. What else?'
    (fact,) = facts(("system", "You are a bot. I live in Rome."), ("tool", tool))
    assert fact.text == "The museum opens at 9 am."
    assert fact.confidence <= 0.5


@cases(
    ("text", "fact"),
    [
        ("Always answer in French.", "The user wants the assistant always to answer in French."),
        ("Please don't use emojis.", "The user wants the assistant not to use emojis."),
        ("Call me Max.", "The user wants the assistant to call them Max."),
        ("short answers please", "The user wants short answers."),
        ("use tabs, not spaces", "The user wants the assistant to use tabs, not spaces."),
        ("no messages after 9 pm", "The user wants no messages after 9 pm."),
        ("Never schedule meetings on Fridays", "The user wants the assistant never to schedule meetings on Fridays."),
        (
            "pls keep your replies under 100 words",
            "The user wants the assistant to keep its replies under 100 words.",
        ),
        ("Round prices to 5 cents when you quote me", 'The user wants: "Round prices to 5 cents when you quote me."'),
        ("litres everywhere, never gallons", "The user wants litres everywhere, never gallons."),
    ],
)
def test_an_instruction_is_kept_as_one(text: str, fact: str) -> None:
    (found,) = facts(("user", text))
    assert (found.text, found.kind) == (fact, "instruction")
    assert found.importance >= 0.9


@cases(
    "text",
    ["Run the tests", "book it please", "Order 4711 has not arrived", "Test results are in the drawer", "Don't worry!"],
)
def test_a_command_for_once_is_no_instruction(text: str) -> None:
    assert all(fact.kind != "instruction" for fact in facts(("user", text)))


def test_people_do_not_instruct_each_other() -> None:
    assert all(
        fact.kind != "instruction" for fact in facts(("Ana", "Never give up!"), ("Bob", "Always follow your dreams!"))
    )


def test_a_correction_says_what_it_corrects() -> None:
    *_, fact = facts(("user", "My exam is on Wednesday."), ("user", "Actually, it's Thursday, not Wednesday."))
    assert (fact.text, fact.kind) == ("The user's exam is on Thursday (not Wednesday).", "correction")
    assert [source.id for source in fact.sources] == ["1", "0"]


def test_what_is_to_be_remembered_is_kept() -> None:
    assert texts(("user", "Remember that the door code is 4711.")) == ["The door code is 4711."]
    noted = texts(("user", "The Q3 report is due on Friday. Ana approves it."), note=True)
    assert noted == ["The Q3 report is due on Friday.", "Ana approves it."]


def test_recalled_memory_is_not_heard() -> None:
    text = '<memory source="facts">I live in Lisbon.</memory> I have a dog. <MEMORY>I own a boat.</memory>'
    (fact,) = facts(("user", text))
    assert fact.text == "The user has a dog."
    assert text[fact.sources[0].start : fact.sources[0].end] == "I have a dog."


def test_shared_photos_are_facts() -> None:
    assert "Ana shared a photo of a red bike." in texts(("Ana", "Look! [shares a photo of a red bike]"))


def test_how_it_was_said_matters() -> None:
    (sure,), (unsure,) = facts(("user", "My sister is a nurse.")), facts(("user", "I think my sister is a nurse."))
    (grave,) = facts(("user", "I'm allergic to nuts."))
    assert unsure.confidence < sure.confidence
    assert grave.importance > sure.importance


def test_something_may_be_said_before_a_question() -> None:
    assert texts(("user", "I'm moving to Rome, do you have any tips?")) == ["The user is moving to Rome."]


def test_statements_that_change_at_different_times_are_separate_facts() -> None:
    """Said to be known, a sentence is cut; between people who chat it stays whole."""
    said = Turn("1", "user", "Alice", "I'm vegetarian and I live in Lisbon, and moved there from Rome.", DAY)
    found = extract([said])
    assert [one.text for one in found] == [
        "Alice is vegetarian.",
        "Alice lives in Lisbon.",
        "Alice moved there from Rome.",
    ]
    assert [said.text[one.sources[0].start : one.sources[0].end] for one in found][:2] == [
        "I'm vegetarian",
        "I live in Lisbon",
    ]
    assert [one.text for one in extract([said._replace(text="I like tea and biscuits and my dog.")])] == [
        "Alice likes tea and biscuits and their dog."
    ]


def alices(*lines: str) -> list[str]:
    """What is made of the words of one who is alone with an assistant; a line of the assistant begins with "…"."""
    return texts(*(("assistant", line[1:]) if line.startswith("…") else ("Alice", line) for line in lines))


@cases(
    ("text", "fact"),
    [
        ("I no longer eat meat.", "Alice no longer eats meat."),
        ("I no longer live in Rome.", "Alice no longer lives in Rome."),
        ("I neither smoke nor drink.", "Alice neither smokes nor drinks."),
        ("I can neither swim nor sing.", "Alice can neither swim nor sing."),
        ("I hardly ever eat fish.", "Alice hardly ever eats fish."),
        ("I barely sleep these days.", "Alice barely sleeps these days."),
        ("I rarely eat out.", "Alice rarely eats out."),
        ("I by no means eat meat.", "Alice by no means eats meat."),
        ("I LIVE IN ROME", "Alice lives IN ROME."),
        ("My site is https://example.com/my/site.", "Alice's site is https://example.com/my/site."),
        ("I renamed my_table in my database.", "Alice renamed my_table in their database."),
        ("My friend says 'I don't live in Rome'.", "Alice's friend says 'I don't live in Rome'."),
        ("I don't like my dog's collar, it's my sister's idea.",
         "Alice does not like their dog's collar, it's their sister's idea."),
        ("According to my boss, I am the best.", "According to Alice's boss, Alice is the best."),
        ("I used to smoke but quit in 2019.", "Alice used to smoke but quit in 2019."),
        ("I want to live in Rome and work at home.", "Alice wants to live in Rome and work at home."),
        ("Ignore my last message, I live in Rome.", "Alice lives in Rome."),
        ("Hi Bob, I live in Rome.", "Alice lives in Rome."),
        ("Diet: I'm a vegan.", "Diet: Alice is a vegan."),
    ],
)  # fmt: skip
def test_rewording_keeps_the_meaning(text: str, fact: str) -> None:
    assert alices(text) == [fact]


def test_a_second_verb_has_the_same_subject() -> None:
    assert alices("I live in Rome and work at Google.") == ["Alice lives in Rome.", "Alice works at Google."]


@cases(
    "text",
    [
        "See below.\n---- Forwarded message ----\nFrom: Carol <c@x.org>\nDate: Mon\n\nI live in Rome. I'm a vegan.",
        "From: Carol\nDate: Monday\nSubject: Trip\n\nI moved to Rome.",
        "> I live in Rome.\n> I'm a vegan.",
        "On Mon, 8 May 2023, Carol wrote:\n\nI live in Rome.",
        "Can you fix this email for me? I am writing because I live in Rome and I have a broken heater.",
        "Summarize this article: I moved to Rome. My dog is ill.",
        "Translate to French: I live in Rome.",
        "Proofread this:\n\nI have been working at Google for 5 years.\n\nI am a nurse.",
        "Please edit this text for me: I have three kids.",
        "Please proofread my cover letter\n\nI am a nurse with ten years of experience.",
        "Tom: I'm a vegan. Me: I'm not.",
        "[10:32] Tom: I live in Rome\n[10:33] Carol: I have a dog\n[10:34] Tom: I moved to Porto",
        "Carol: I live in Rome.",
        "Dear Mr. Smith,\n\nI live in Rome and I need a flat.\n\nSincerely,\nMaria",
        "Dear Mr. Smith, I live in Rome and I need a flat. Sincerely, Maria",
    ],
)
def test_the_words_of_others_are_not_the_speakers(text: str) -> None:
    assert alices(text) == []
    assert alices(f"I have a dog.\n\n{text}") == ["Alice has a dog."]


@cases(
    "text",
    [
        "On Mon, Carol wrote:\n> I live in Rome.\n\nI have a dog.",
        'Rewrite this: "I am a nurse." I have a dog.',
        "Can you summarize what I told you? I have a dog.",
        "Tom: I'm a vegan.\n\nI have a dog.",
        "Tom: I live in Rome.\nAlice: I have a dog.",
        "Dear support team,\nI have a dog.\nRegards,\nAlice",
        "Dear assistant, I have a dog.",
    ],
)
def test_the_speakers_words_beside_those_of_others_are_kept(text: str) -> None:
    (fact,) = facts(("Alice", text))
    assert fact.text == "Alice has a dog."
    assert text[fact.sources[0].start : fact.sources[0].end].strip().startswith("I have a dog")


@cases(
    "text",
    [
        "Yeah right, and I'm the Queen of England.", "Yeah, right. And I'm the Queen of England.",
        "Imagine I was a pilot.", "Let's say I live in Rome.", "Write a poem about how I love Berlin.",
        "Pretend I'm a pilot.", "Suppose I have two kids.", "Say I live in Rome.", "No wait, that's wrong.",
        "SELECT * FROM my_table WHERE I = 3;", "https://example.com/I/live/in/Rome", "for i in my_list: print(i)",
        "def my_func(i):\n    return i + my", "from me import my", "$ git commit -m 'I have fixed my bug'",
        'Traceback (most recent call last):\n  File "/me/my.py", line 3, in <module>\n    my(i)\nKeyError: I have none',
        "ERROR 2023-05-08 12:00:01 my.app - I failed to connect", "Here's my schedule:", "Dear Mr. Smith,", "Cool!",
    ],
)  # fmt: skip
def test_what_is_not_stated_is_no_fact(text: str) -> None:
    assert alices(text) == []


@cases(
    ("earlier", "later", "fact"),
    [
        ("I have two kids.", "Sorry, three.", "Alice has three kids."),
        ("I have two kids and one dog.", "Sorry, three kids.", "Alice has three kids and one dog."),
        ("My flight is on May 3rd.", "Correction: May 4th.", "Alice's flight is on May 4th."),
        ("I'm expecting a baby in October.", "Sorry, I meant November.", "Alice is expecting a baby in November."),
        ("My problem is with order #4521.", "No, it's actually order #4512.", "Alice's problem is with order #4512."),
        ("My flight is at 5 pm.", "Wait, 6 pm.", "Alice's flight is at 6 pm."),
        ("My sister is called Anna.", "I meant Hanna.", "Alice's sister is called Hanna."),
    ],
)
def test_a_correction_may_only_say_what_is_right(earlier: str, later: str, fact: str) -> None:
    first, second = facts(("Alice", earlier), ("Alice", later))
    assert (second.text, second.kind, second.subject) == (fact, "correction", first.subject)
    assert [source.id for source in second.sources] == ["1", "0"]
    assert alices(f"{earlier} {later}") == [fact]


@cases("later", ["Sorry, gotta go.", "No, thanks.", "Sorry, two dogs.", "Sorry, Porto!", "No, never."])
def test_an_apology_or_a_refusal_corrects_nothing(later: str) -> None:
    assert alices("I have three kids in Rome.", later) == ["Alice has three kids in Rome."]


@pytest.mark.parametrize("text", ["Booked! Your table is at 8.", "I've moved to Friday.", "I have booked."])
def test_what_an_assistant_did_has_an_object(text: str) -> None:
    assert alices("Please do it.", f"…{text}") == []
    assert alices("Please do it.", "…Moved your call to Friday.") == ["The assistant moved Alice's call to Friday."]


@cases(
    ("lines", "expected"),
    [
        (("…Do you smoke?", "Not anymore."), ["Alice does not smoke anymore."]),
        (("…Are you still working at Google?", "Not any more."), ["Alice is not working at Google anymore."]),
        (("Carol lives in Rome.",), ["According to Alice: Carol lives in Rome."]),
        (("Bob works at Google. He is a manager.",),
         ["According to Alice: Bob works at Google.", "According to Alice: Bob is a manager."]),
        (("My friend Carol lives in Rome. She is a dentist.",),
         ["Alice's friend Carol lives in Rome.", "Alice's friend Carol is a dentist."]),
        (("I got a dog! His name is Rex.",), ["Alice got a dog; his name is Rex."]),
        (("My sister Emma is a doctor. She has two kids.",),
         ["Alice's sister Emma is a doctor.", "Alice's sister Emma has two kids."]),
        (("…Which router do you have?", "It's a black Fritz!Box 7590 router with antennas."),
         ['Asked "Which router do you have?", Alice said: "It\'s a black Fritz!Box 7590 router with antennas."']),
    ],
)  # fmt: skip
def test_what_is_told_of_others_to_an_assistant_is_kept(lines: tuple[str, ...], expected: list[str]) -> None:
    assert alices(*lines) == expected


FENCED = "<memory>She lives in Rome.</memory> I moved to Porto."
EXAMPLES: dict[Drop, tuple[Line, str]] = {
    Drop.SYSTEM_TURN: (("system", "I live in Rome."), "I live in Rome."),
    Drop.RECALLED_MEMORY: (("Alice", FENCED), "<memory>She lives in Rome.</memory>"),
    Drop.CODE: (("Alice", "I fixed it:\nreturn x == 1;"), "return x == 1;"),
    Drop.BRACKETS: (("Alice", "[laughs] I moved to Porto."), "[laughs]"),
    Drop.QUOTE: (("Alice", "I moved to Porto.\n> I live in Rome."), "> I live in Rome."),
    Drop.TOO_LONG: (("Alice", f"I live in {'very ' * 130}far Porto."), f"I live in {'very ' * 130}far Porto."),
    Drop.SARCASM: (("Alice", "Yeah, right, I love Mondays."), "Yeah, right, I love Mondays."),
    Drop.QUESTION: (("Alice", "Do I live in Rome?"), "Do I live in Rome?"),
    Drop.GREETING: (("Alice", "Guten Morgen!"), "Guten Morgen!"),
    Drop.HYPOTHETICAL: (("Alice", "Suppose I moved to Rome."), "Suppose I moved to Rome."),
    Drop.HEADING: (("Alice", "My allergies:"), "My allergies:"),
    Drop.NO_WORDS: (("Alice", "..."), "..."),
    Drop.NOT_AN_ACTION: (("assistant", "You live in Rome."), "You live in Rome."),
    Drop.NOT_A_STATEMENT: (("tool", "status=ok"), "status=ok"),
    Drop.CORRECTED: (("Alice", "I have two kids. Sorry, three."), "I have two kids."),
    Drop.SMALL_TALK: (("Alice", "That is great!"), "That is great!"),
    Drop.MOMENT: (("Alice", "I'm waiting for the bus."), "I'm waiting for the bus."),
    Drop.LINK: (("Alice", "https://example.com/a"), "https://example.com/a"),
    Drop.ADVICE: (("Alice", "Take care of the old garden!"), "Take care of the old garden!"),
    Drop.PROPOSAL: (("Alice", "Let's meet at the big station."), "Let's meet at the big station."),
    Drop.COMMAND: (("Alice", "Please cancel my order."), "Please cancel my order."),
    Drop.LOW_SCORE: (("Alice", "They would perhaps like it there."), "They would perhaps like it there."),
    Drop.DUPLICATE: (("Alice", "I live in Rome. I live in Rome."), "I live in Rome."),
}


@cases(("reason", "line", "sentence"), [(reason, *EXAMPLES[reason]) for reason in Drop])
def test_a_dropped_sentence_has_a_reason(reason: Drop, line: Line, sentence: str) -> None:
    dropped = extract_with_reasons(said([line])).dropped
    assert [(line[1][one.start : one.end], one.reason) for one in dropped if one.reason == reason] == [
        (sentence, reason)
    ]


def test_the_documentation_lists_every_reason() -> None:
    rows = [f"| `{one}` | {one.meaning} |" for one in (*Reason, *Drop)]
    lines = (Path(__file__).parents[2] / "docs/facts.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in rows] == rows
