"""What the rules make of turns: which statements they keep, and how they word them."""

from __future__ import annotations

from datetime import date

import pytest

from memwell.distill.extraction.extract import extract
from memwell.distill.values import Candidate, Said

DAY = date(2023, 5, 8)
Line = tuple[str, str]


def said(lines: list[Line], note: bool = False) -> list[Said]:
    """Turns of somebody by name, or of one of those who have none: `user`, `assistant`, `tool`, `system`."""
    roles = {"user": "The user", "assistant": "The assistant", "tool": "The tool", "system": "The system"}
    return [
        Said(str(n), who if who in roles else "user", roles.get(who, who), text, DAY, who not in roles, note)
        for n, (who, text) in enumerate(lines)
    ]


def facts(*lines: Line, note: bool = False) -> list[Candidate]:
    return extract(said(list(lines), note))


def texts(*lines: Line, note: bool = False) -> list[str]:
    return [fact.text for fact in facts(*lines, note=note)]


@pytest.mark.parametrize(
    "text",
    [
        "Hello!", "Hi there! How are you?", "Thanks so much, that is great!", "Wow, awesome!", "Where do you live?",
        "Haha, yeah.", "You're welcome! Take care!", "😀😀 🎉", "...", "", "   ", "Guten Morgen!", "你好！",
        "شكرا!", "Wie heißt du?", "你好吗？",
    ],
)  # fmt: skip
def test_greetings_questions_and_filler_are_dropped(text: str) -> None:
    assert texts(("user", text)) == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("I have a dog.", "Caroline has a dog."),
        ("I don't like cheese.", "Caroline does not like cheese."),
        ("I think I am a nurse by heart.", "Caroline thinks they are a nurse by heart."),
        ("My sister and I moved to Porto.", "Caroline's sister and Caroline moved to Porto."),
        ("We have two cats.", "Caroline and others have two cats."),
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


def test_who_is_not_known_is_the_user() -> None:
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "text",
    ["I never eat meat.", "I don't have a car.", "I'm not married.", "I haven't been to Rome.",
     "My brother can't swim, I was told."],
)  # fmt: skip
def test_a_negation_is_never_lost(text: str) -> None:
    (fact,) = texts(("user", text))
    assert any(word in fact.split() for word in ("never", "not", "cannot"))


@pytest.mark.parametrize(
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


def test_an_answer_that_is_a_whole_statement_is_told_as_one() -> None:
    (fact,) = facts(("Ben", "How is Lucas?"), ("Emma", "I broke up with Lucas."))
    assert fact.text == "Emma broke up with Lucas."


def test_a_system_states_nothing_and_a_tool_little() -> None:
    tool = 'The museum opens at 9 am. {"rows": 3} I am a tool. What else?'
    (fact,) = facts(("system", "You are a bot. I live in Rome."), ("tool", tool))
    assert fact.text == "The museum opens at 9 am."
    assert fact.confidence <= 0.5


@pytest.mark.parametrize("text", ["Always answer in French.", "Please don't use emojis.", "Call me Max."])
def test_an_instruction_is_kept_as_one(text: str) -> None:
    (fact,) = facts(("user", text))
    assert (fact.text, fact.kind) == (f'The user wants: "{text}"', "instruction")
    assert fact.importance >= 0.9


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


def test_what_is_shown_is_told() -> None:
    assert "Ana shared a photo of a red bike." in texts(("Ana", "Look! [shares a photo of a red bike]"))


def test_how_it_was_said_matters() -> None:
    (sure,), (unsure,) = facts(("user", "My sister is a nurse.")), facts(("user", "I think my sister is a nurse."))
    (grave,) = facts(("user", "I'm allergic to nuts."))
    assert unsure.confidence < sure.confidence
    assert grave.importance > sure.importance


def test_something_may_be_said_before_a_question() -> None:
    assert texts(("user", "I'm moving to Rome, do you have any tips?")) == ["The user is moving to Rome."]


def test_what_changes_at_different_times_is_not_one_fact() -> None:
    """Said to be known, a sentence is cut; between people who chat it stays whole."""
    said = Said("1", "user", "Alice", "I'm vegetarian and I live in Lisbon, and moved there from Rome.", DAY)
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
