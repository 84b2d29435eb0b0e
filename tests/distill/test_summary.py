"""A summary says what matters, once, in order, in the words that were said, and never takes more than it may."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memwell.context.tokens import estimate
from memwell.distill.summary import Line, Summary, summarise

from ..thorough import examples

SPEAKERS = {"U": "user", "A": "assistant", "C": "Caroline", "M": "Mel"}


class Talk(NamedTuple):
    """A conversation, and what a reader wants to find in its summary, written down before anything was tuned."""

    told: str
    """A line for each, after who says it: U and A for user and assistant, S for an earlier summary, N for a note."""
    max_tokens: int
    must: tuple[str, ...]
    must_not: tuple[str, ...]


def lines(told: str) -> list[Line]:
    """What is told; `\\n` stands for a line break inside of a turn."""
    return [_line(*row.split(": ", 1)) for row in told.strip().splitlines()]


def _line(who: str, text: str) -> Line:
    return Line(text.replace("\\n", "\n"), SPEAKERS.get(who), summary=who == "S")


TALKS = {
    "travel": Talk(
        """
U: Hi there! How are you today?
A: Hello! I'm doing great, thanks for asking. How can I help you?
U: I'm planning a trip to Portugal in October with my sister Ana. We want to spend four nights in Porto and three in Lisbon.
A: That sounds wonderful! Porto and Lisbon are both amazing cities. Do you have a budget in mind?
U: Our budget is 1800 euros for both of us. I hate flying, so we'd rather take the train where we can.
A: Great choice! Trains between Porto and Lisbon take about three hours. Would you like me to look for tickets?
U: Yes please.
A: I booked the 9:40 train from Porto to Lisbon on 14 October for 62 euros. Is there anything else I can do for you?
U: Ana is vegetarian, so the restaurants must have vegetarian food.
A: Of course! I'll keep that in mind. Let me know if you need anything else!
U: Hmm, let me think.
U: Actually, our budget is 2200 euros for both of us, I forgot the bonus.
A: No problem, I've updated the budget.
U: Thanks a lot, you're the best!
A: You're welcome! Have a great day!
""",
        150,
        (
            "I'm planning a trip to Portugal in October with my sister Ana.",
            "We want to spend four nights in Porto and three in Lisbon.",
            "I hate flying, so we'd rather take the train where we can.",
            "I booked the 9:40 train from Porto to Lisbon on 14 October for 62 euros.",
            "Actually, our budget is 2200 euros for both of us, I forgot the bonus.",
        ),
        (
            "Our budget is 1800 euros",
            "Hi there",
            "How can I help",
            "Great choice",
            "anything else",
            "you're the best",
            "let me think",
            "sounds wonderful",
        ),
    ),
    "bug hunt": Talk(
        """
U: Our nightly export job fails since Tuesday with a timeout after 300 seconds.
A: I'm sorry to hear that. Can you share the traceback?
U: Sure:\\n```\\nTraceback (most recent call last):\\n  File "export.py", line 88, in run\\n    rows = cursor.fetchall()\\npsycopg.errors.QueryCanceled: canceling statement due to statement timeout\\n```
A: Thanks for sharing! It looks like the query on the orders table is cancelled by the statement timeout.
U: The orders table grew to 40 million rows last week.
A: Could you run EXPLAIN on the query?
U: It does a sequential scan, the index on created_at is not used.
A: The index is not used because the query casts created_at to date. I suggest that you compare with a range instead.
U: I rewrote the query with a range and it takes 4 seconds now.
A: Awesome! Glad it worked.
U: We decided to raise the timeout to 600 seconds anyway and to fetch in batches of 10,000 rows.
A: Sounds good! Do you want me to open a ticket?
U: No, don't open a ticket, Priya already has one: OPS-4417.
A: Got it.
""",
        170,
        (
            "Our nightly export job fails since Tuesday with a timeout after 300 seconds.",
            "The index is not used because the query casts created_at to date.",
            "I rewrote the query with a range and it takes 4 seconds now.",
            "We decided to raise the timeout to 600 seconds anyway and to fetch in batches of 10,000 rows.",
            "No, don't open a ticket, Priya already has one: OPS-4417.",
        ),
        ("Traceback", "fetchall", "sorry to hear", "Awesome", "Glad it worked", "Got it", "Sure:"),
    ),
    "health": Talk(
        """
A: Good morning! Welcome to the practice. Before we start, do you have any allergies?
U: Penicillin and peanuts.
A: Thank you. Do you take any medication?
U: I take 50 mg of metoprolol every morning for my blood pressure.
A: Understood. And do you smoke?
U: No.
U: I don't want to be called by phone, please write emails only.
A: Noted. We will only write emails.
U: I'd prefer appointments on Thursday afternoons because I work in the mornings.
A: That's fine. How are you feeling today?
U: A bit tired, but okay.
A: I hope you feel better soon!
U: My mother had breast cancer at 45.
A: I'm sorry to hear that. Thank you for telling me.
U: Also, I'm not diabetic, that is a mistake in my file.
A: I corrected your file: you are not diabetic.
U: I take 100 mg of metoprolol every morning now, not 50 mg, Dr. Lee changed it.
A: Thank you, is there anything else?
U: No, that's all. Bye!
""",
        150,
        (
            "do you have any allergies?",
            "Penicillin and peanuts.",
            "I don't want to be called by phone, please write emails only.",
            "I'd prefer appointments on Thursday afternoons because I work in the mornings.",
            "My mother had breast cancer at 45.",
            "I take 100 mg of metoprolol every morning now, not 50 mg, Dr. Lee changed it.",
            "not diabetic",
        ),
        ("I take 50 mg of", "Thank you for telling me", "feel better soon", "anything else", "that's all", "Good morning"),
    ),
    "German": Talk(
        """
U: Hallo! Wie geht's?
A: Guten Tag! Mir geht es gut, danke. Wie kann ich Ihnen helfen?
U: Wir ziehen am 1. September von Köln nach Leipzig um.
A: Das klingt spannend! Haben Sie schon eine Spedition?
U: Ich habe die Firma Krüger für 1.450 Euro beauftragt.
A: Sehr gut. Vielen Dank für die Information!
U: Unsere neue Adresse ist Karl-Heine-Straße 12.
U: Der Nachsendeauftrag soll ab dem 25. August gelten.
A: Ich habe den Nachsendeauftrag ab dem 25. August angelegt. Kann ich sonst noch etwas für Sie tun?
U: Ich möchte keine Werbung per Post bekommen.
A: Gerne! Ich kümmere mich darum.
U: Eigentlich soll der Nachsendeauftrag erst ab dem 28. August gelten.
A: Kein Problem, das habe ich geändert.
U: Danke schön!
A: Gern geschehen! Einen schönen Tag noch!
""",
        130,
        (
            "Wir ziehen am 1. September von Köln nach Leipzig um.",
            "Ich habe die Firma Krüger für 1.450 Euro beauftragt.",
            "Unsere neue Adresse ist Karl-Heine-Straße 12.",
            "Ich möchte keine Werbung per Post bekommen.",
            "Eigentlich soll der Nachsendeauftrag erst ab dem 28. August gelten.",
        ),
        (
            "Hallo",
            "Danke schön",
            "Gern geschehen",
            "Wie kann ich",
            "Der Nachsendeauftrag soll ab dem 25. August gelten",
            "sonst noch etwas",
            "klingt spannend",
        ),
    ),
    "Chinese": Talk(
        """
U: 你好！
A: 您好！很高兴为您服务。请问有什么可以帮您？
U: 我下个月要搬到上海工作，公司在浦东。
A: 恭喜您！上海是一个很棒的城市。
U: 我对海鲜过敏，不能吃虾和螃蟹。
A: 好的，我记住了。
U: 我想租一个离地铁站近的公寓，预算是每月6000元。
A: 我为您找到了三套公寓，最近的离地铁站只有200米。您喜欢哪一套？
U: 我决定租第二套公寓，合同从3月1日开始。
A: 好的！还有什么可以帮您的吗？
U: 我不喜欢早上开会，请安排在下午。
U: 谢谢！
A: 不客气！祝您生活愉快！
""",
        150,
        (
            "我下个月要搬到上海工作，公司在浦东。",
            "我对海鲜过敏，不能吃虾和螃蟹。",
            "我决定租第二套公寓，合同从3月1日开始。",
            "我不喜欢早上开会，请安排在下午。",
        ),
        ("你好", "很高兴为您服务", "谢谢", "不客气", "还有什么可以帮您"),
    ),
    "notes": Talk(
        """
N: Standup 3 June: the search index is rebuilt every night at 02:00.
N: Anna owns the billing service. Bert owns the search service.
N: Decision: we keep PostgreSQL 16 and do not migrate to MySQL.
N: Lunch was good today.
N: The search index takes 14 GB and must fit on the small disk.
N: TODO
N: - buy coffee\\n- renew the TLS certificate before 30 June\\n- ask Bert about the search latency
N: The search index is rebuilt every night at 2:00.
N: Correction: Carla owns the billing service since May, not Anna.
N: ok
N: The search latency went from 120 ms to 45 ms after the new index.
""",
        140,
        (
            "Decision: we keep PostgreSQL 16 and do not migrate to MySQL.",
            "The search index takes 14 GB and must fit on the small disk.",
            "renew the TLS certificate before 30 June",
            "Correction: Carla owns the billing service since May, not Anna.",
            "The search latency went from 120 ms to 45 ms after the new index.",
        ),
        ("Lunch was good", "TODO", "Anna owns the billing service.", "Note:"),
    ),
    "earlier summaries": Talk(
        """
S: User: I'm allergic to penicillin. My daughter Mia starts school in Bern in August. Assistant: I ordered the school bag for 89 francs.
U: Morning!
A: Good morning! What can I do for you?
U: Mia needs new shoes for the sports lessons, size 33.
A: I found three pairs of shoes in size 33. The cheapest pair costs 45 francs.
U: Take the cheapest pair, please.
A: I ordered the cheapest pair of shoes, they arrive on Friday.
U: Great, thanks!
A: You're welcome!
U: The sports lessons are on Monday and Wednesday.
A: Noted!
U: The swimming lessons start in October, I haven't registered Mia yet.
A: Would you like me to register her?
U: Let me ask my husband first.
""",
        140,
        (
            "I'm allergic to penicillin.",
            "My daughter Mia starts school in Bern in August.",
            "Mia needs new shoes for the sports lessons, size 33.",
            "I ordered the cheapest pair of shoes, they arrive on Friday.",
            "The sports lessons are on Monday and Wednesday.",
            "The swimming lessons start in October, I haven't registered Mia yet.",
        ),
        ("Morning", "What can I do", "You're welcome", "Great, thanks", "User: User:", "Noted!"),
    ),
    "junk": Talk(
        """
U: 😀😀😀
U: asdf
A: I'm here to help! What would you like to know?
U: Here is my config:\\n{\\n  "host": "10.0.0.7",\\n  "port": 8443,\\n  "tls": {"enabled": true, "cert": "/etc/tls/cert.pem"}\\n}
A: Thanks!
U: | name | qty | price |\\n|------|-----|-------|\\n| bolt | 100 | 0.10 |\\n| nut | 250 | 0.05 |
U: The gateway listens on port 8443 and must not be reachable from outside.
A: Here is an example:\\n```python\\nimport socket\\nfor port in range(8443, 8450):\\n    listener = socket.create_server(("127.0.0.1", port))\\n    print(listener, port)\\n```\\nThe gateway then listens on the loopback address only.
U: lol
U: ................................................
U: aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=
U: We roll out the gateway on Thursday at 22:00, Jonas is on call.
A: ok
""",
        90,
        (
            "The gateway listens on port 8443 and must not be reachable from outside.",
            "The gateway then listens on the loopback address only.",
            "We roll out the gateway on Thursday at 22:00, Jonas is on call.",
        ),
        ("asdf", "😀", "import socket", "create_server", "lol", "....", "aGVs", "---", "I'm here to help"),
    ),
    "friends": Talk(
        """
C: Hey Mel! Long time no see! How have you been?
M: Hey Caroline! I've been good, thanks. Work has been crazy.
C: I went to a support group last Wednesday and it was so powerful.
M: Wow, that's great! What happened?
C: They told their stories and I felt accepted. I decided to study counseling next year.
M: That's awesome, good luck! I painted a sunrise over the lake in 2022, it hangs in my living room.
C: So beautiful!
M: Thanks! My kids Tom and Lea love pottery, we go to the workshop every Saturday.
C: Sounds fun!
M: My marathon is on 12 November. I run ten miles twice a week.
C: Cool! Take care!
M: Bye!
""",
        120,
        (
            "I went to a support group last Wednesday and it was so powerful.",
            "I decided to study counseling next year.",
            "I painted a sunrise over the lake in 2022",
            "My kids Tom and Lea love pottery, we go to the workshop every Saturday.",
            "My marathon is on 12 November.",
        ),
        ("Long time no see", "Sounds fun", "Take care", "So beautiful", "Bye", "What happened"),
    ),
    "Spanish": Talk(
        """
U: ¡Hola! ¿Qué tal?
A: ¡Hola! Muy bien, gracias. ¿En qué puedo ayudarte?
U: Vivo en Valencia y trabajo como enfermera en el hospital La Fe.
A: ¡Qué interesante!
U: Mi turno empieza a las 7:00 y no puedo contestar mensajes antes de las 15:00.
A: Entendido. Tomo nota.
U: Prefiero que me escribas por la tarde.
U: Mi hijo Pablo es alérgico a los frutos secos.
A: Gracias por avisarme. ¿Algo más?
U: No, gracias. ¡Hasta luego!
""",
        110,
        (
            "Vivo en Valencia y trabajo como enfermera en el hospital La Fe.",
            "Mi turno empieza a las 7:00 y no puedo contestar mensajes antes de las 15:00.",
            "Prefiero que me escribas por la tarde.",
            "Mi hijo Pablo es alérgico a los frutos secos.",
        ),
        ("¡Hola!", "Gracias por avisarme", "Hasta luego", "puedo ayudarte"),
    ),
}


@pytest.mark.parametrize("name", TALKS)
def test_what_matters_is_in_and_what_does_not_is_out(name: str) -> None:
    talk = TALKS[name]
    summary = summarise(lines(talk.told), talk.max_tokens)
    assert [words for words in talk.must if words not in summary.text] == [], summary.text
    assert [words for words in talk.must_not if words in summary.text] == [], summary.text
    assert estimate(summary.text) <= talk.max_tokens
