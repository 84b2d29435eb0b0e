"""S0: search, in a flow, in a session, on the command line and from node code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memwell.node import runtime
from memwell.node.gateway import run_node
from memwell.sdk import _async, _sync

from ..cases import cases
from ..engines import Memory, two_tenants
from ..live import live
from .conftest import Cli

FACTS = (
    "He bought a red automobile last month",
    "The doctor told her to rest for a week",
    "My cat sleeps on the sofa all day",
    "She lives in Lisbon and works as a nurse",
    "The invoice must be paid before Friday",
    "We ship to the EU only",
    "Our office closes at six in the evening",
    "Bob plays the violin in an orchestra",
    "The wifi password is on the fridge",
    "He is allergic to peanuts",
    "They got married in a small church",
    "The laptop battery dies after an hour",
)
EXACT = [("automobile", 0), ("doctor", 1), ("sofa", 2), ("Lisbon", 3), ("INVOICE", 4), ("violins", 7), ("peanut", 9)]
PARAPHRASES = [
    ("car", 0),
    ("vehicle", 0),
    ("physician", 1),
    ("medical advice", 1),
    ("couch", 2),
    ("delivery in Europe", 5),
    ("musical instrument", 7),
    ("internet login", 8),
    ("food intolerance nuts", 9),
    ("wedding", 10),
    ("computer power", 11),
]

NODE = '''
async def finds(ax, input):
    """Searches the flow and a session, as the documents' example does."""
    memory = ax.agent.memory
    session = memory.session(input["session"])
    await memory.write("The customer prefers e-mail")
    await session.write("The parcel was lost on Monday")
    flow, own = await memory.search(input["query"]), await session.search(input["query"])
    few = await memory.search(input["query"], limit=1)
    return {
        "flow": [[hit.content, hit.score] for hit in flow],
        "session": [[hit.content, hit.score] for hit in own],
        "counts": [len(flow), len(own), len(few)],
    }

async def chat_agent(ax, input):
    session = ax.agent.memory.session(input["session"])
    await session.history.append(role="user", content=input["query"])
    recent = await session.history.last(20)
    relevant = await session.search(input["query"], limit=5)
    return f"{len(recent)} recent turn(s) and {len(relevant)} relevant memorie(s)"

async def forges(ax, input):
    link = ax.agent.memory._link
    data = {"tenant": "beta", "flow": "other", "query": "secret", "include": ["turns"]}
    found = await link.call("flows.search", data, dict)
    refused = []
    for operation in ("users.search", "flows.why_not"):
        try:
            await link.call(operation, {**data, "user": "alice", "id": "0" * 26}, dict)
        except Exception as error:
            refused.append(type(error).__name__)
    return {"found": [hit["content"] for hit in found["hits"]], "refused": refused}
'''


@pytest.fixture
def package(tmp_path: Path) -> str:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "search_node.py").write_text(NODE)
    return str(folder)


@pytest.fixture(scope="module")
def known(engine_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("known"), worker=False) as memory:
        for fact in FACTS:
            memory.flow("support").write(fact)
        yield memory


@cases(("query", "number"), EXACT)
def test_an_exact_word_finds_it(known: Memory, query: str, number: int) -> None:
    """S0.21, S0.41: the same words, in any case or form."""
    assert known.flow("support").search(query)[0].content == FACTS[number]
    assert [hit.content for hit in known.flow("support").search(query, recipe="words")] == [FACTS[number]]


@cases(("query", "number"), PARAPHRASES)
def test_a_paraphrase_finds_it(known: Memory, query: str, number: int) -> None:
    """S0.21, S0.41: another phrasing, which shares no word with what was written."""
    assert FACTS[number] not in [hit.content for hit in known.flow("support").search(query, recipe="words")]
    assert known.flow("support").search(query)[0].content == FACTS[number]


def test_every_entry_has_its_score_and_the_best_is_first(known: Memory) -> None:
    """S0.40, S0.42"""
    hits = known.flow("support").search("the nurse and her cat", limit=12)
    scores = [hit.score for hit in hits]
    assert len(scores) > 2
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert hits.method == "words+meaning"
    assert hits.took_ms > 0


def test_five_are_found_unless_another_limit_is_given(known: Memory) -> None:
    """S0.28, S0.44: the limit is accepted at both levels, its default is 5, and the result has a length."""
    flow, session = known.flow("support"), known.flow("support").session("s")
    for place in (flow, session):
        hits = place.search("the doctor, the nurse, the violin, the office, the sofa and the invoice")
        assert len(hits) == len(hits.hits) == len(list(hits)) == 5
        assert (
            len(place.search("the doctor, the nurse, the violin, the office, the sofa and the invoice", limit=2)) == 2
        )
        assert len(place.search("the doctor, the nurse, the violin, the office, the sofa and the invoice", 3)) == 3
        assert hits[0] is hits.hits[0]
    for kind in (_sync.Flow, _sync.Session, _async.AsyncFlow, runtime.NodeMemory, runtime.NodeSession):
        assert inspect.signature(kind.search).parameters["limit"].default == 5


@pytest.mark.every_engine
def test_an_empty_result_has_a_length_too(memory: Memory) -> None:
    """S0.3, S0.44: nothing has to be set up before the first search."""
    assert len(memory.flow("new").search("anything")) == 0
    assert len(memory.flow("new").session("s").search("anything")) == 0
    assert len(memory.user("nobody").search("anything")) == 0
    assert memory.flows() == []


def test_a_flow_never_finds_anothers(memory: Memory) -> None:
    """S0.5"""
    for flow in ("a", "b"):
        memory.flow(flow).write(f"the word quoxalphine in {flow}")
        memory.flow(flow).session("s").write(f"quoxalphine in the session of {flow}")
        memory.flow(flow).session("s").history.append(role="user", content=f"quoxalphine was said in {flow}")
    for flow, other in (("a", "b"), ("b", "a")):
        for place in (memory.flow(flow), memory.flow(flow).session("s")):
            hits = place.search("quoxalphine", limit=100, include=["turns"])
            assert len(hits) == 3
            assert all(hit.content.endswith(flow) for hit in hits)
            assert not any(hit.content.endswith(other) for hit in place.search("anything else", limit=100))
    assert memory.user("a").search("quoxalphine", include=["turns"]).hits == []


def test_a_tenant_and_a_user_never_find_anothers(tmp_path: Path) -> None:
    """S0.6"""
    with two_tenants(tmp_path) as (alpha, beta):
        alpha.flow("f").write("quoxalphine of alpha")
        alpha.user("alice").add("quoxalphine of alice")
        beta.flow("f").write("of beta")
        assert beta.flow("f").search("quoxalphine", include=["turns"], recipe="words").hits == []
        assert beta.user("alice").search("quoxalphine", include=["turns"]).hits == []
        assert alpha.user("bob").search("quoxalphine", include=["turns"]).hits == []
        assert [hit.content for hit in alpha.user("alice").search("quoxalphine")] == ["quoxalphine of alice"]
        assert [hit.content for hit in beta.flow("f").search("quoxalphine of", limit=9, min_score=0)] == ["of beta"]


def test_a_session_searches_its_own_entries_and_what_the_flow_knows(memory: Memory) -> None:
    """S0.28, C11: session search is the session and its flow; flow search is the flow and every session."""
    flow = memory.flow("support")
    flow.write("parcel: the flow's")
    flow.session("one").write("parcel: session one's")
    flow.session("two").write("parcel: session two's")
    found = {hit.content: hit.session for hit in flow.session("one").search("parcel")}
    assert found == {"parcel: the flow's": None, "parcel: session one's": "one"}
    assert {hit.session for hit in flow.search("parcel")} == {None, "one", "two"}
    assert {hit.content for hit in flow.session("three").search("parcel")} == {"parcel: the flow's"}


@pytest.mark.every_engine
def test_turns_are_found_only_when_they_are_asked_for(memory: Memory) -> None:
    """C36: else a message would find its own echo."""
    session = memory.flow("support").session("s")
    session.history.append(role="user", content="where is my parcel")
    memory.flow("support").session("other").history.append(role="user", content="another parcel")
    assert len(session.search("where is my parcel")) == len(memory.flow("support").search("parcel")) == 0
    assert [hit.content for hit in session.search("parcel", include=["turns"])] == ["where is my parcel"]
    (mine, *_) = session.search("parcel", include=["turns"])
    assert (mine.kind, mine.role, mine.session) == ("turn", "user", "s")
    assert len(memory.flow("support").search("parcel", include=["turns"])) == 2


def test_a_text_of_a_user_is_found_as_it_stands_and_messages_only_with_turns(memory: Memory) -> None:
    """C36: what was written directly is searched, what was said only on request."""
    me = memory.user("alice")
    me.add("I moved to Porto", session="s")
    me.add(
        [{"role": "user", "content": "Porto is sunny"}, {"role": "assistant", "content": "Porto, noted"}], session="s"
    )
    assert [hit.content for hit in me.search("Porto")] == ["I moved to Porto"]
    assert len(me.search("Porto", include=["turns"])) == 3


@pytest.mark.every_engine
def test_the_agent_log_is_in_no_search(memory: Memory) -> None:
    """C11: sealed collections are excluded."""
    memory.log("f").append(entry_type="observation", content="quoxalphine was seen")
    entry = memory.log("f").entries()[0]
    memory.flow("f").write("something else")
    memory.user("f").add("something else")
    for place in (memory.flow("f"), memory.flow("agent"), memory.flow("f").session("f"), memory.user("f")):
        for recipe in ("default", "words", "meaning"):
            hits = place.search("quoxalphine was seen", include=["turns"], recipe=recipe)
            assert "quoxalphine was seen" not in [hit.content for hit in hits]
    assert entry.content == "quoxalphine was seen"


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_line_reports_method_and_milliseconds(known: Memory, cli: Cli, tmp_path: Path) -> None:
    """S0.9, S0.40, S0.42, S0.43, S0.53"""
    with Memory(tmp_path / "home", worker=False) as memory:
        for fact in FACTS:
            memory.flow("support").write(fact)
    result = cli("search", "--flow", "support", "physician")
    assert result.code == 0, result.err
    first = result.out.splitlines()[0]
    assert re.fullmatch(r"[█·]{12} 0\.\d{3}  The doctor told her to rest for a week", first.rstrip())
    assert re.search(r"^\d hits? · words\+meaning · \d+\.\d ms$", result.out.rstrip().splitlines()[-1])
    assert len(re.findall(r"^[█·]{12} \d\.\d{3}  ", result.out, re.MULTILINE)) <= 5
    assert "1 hit · words · " in cli("search", "--flow", "support", "--recipe", "words", "sofa").out
    again = cli("memory", "search", "--flow", "support", "physician")
    assert again.out.splitlines()[:-1] == result.out.splitlines()[:-1]


def test_the_command_line_searches_sessions_users_and_turns(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.53"""
    monkeypatch.setenv("MEMWELL_WORKER", "no")  # what is added stays as it stands
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.flow("f").session("one").write("parcel one")
        memory.flow("f").session("two").write("parcel two")
        memory.flow("f").session("two").history.append(role="user", content="my parcel", name="Ann")
        memory.user("alice").add("alice's parcel", session="s")
        memory.user("alice").add("her other parcel", session="t")
    assert "2 hits" in cli("search", "--flow", "f", "parcel").out
    assert "parcel two" not in cli("search", "--flow", "f", "--session", "one", "parcel").out
    turns = cli("search", "--flow", "f", "--turns", "parcel").out
    assert "my parcel" in turns
    assert "turn · Ann · session two" in turns
    assert "2 hits" in cli("search", "--user", "alice", "parcel").out
    assert "1 hit " in cli("search", "--user", "alice", "--session", "t", "parcel").out
    assert "Nothing was found." in cli("search", "--flow", "none", "parcel").out


@pytest.mark.every_engine
def test_the_command_line_explains_and_speaks_json(cli: Cli, tmp_path: Path) -> None:
    """S0.42, S0.43"""
    with Memory(tmp_path / "home", worker=False) as memory:
        first = memory.flow("f").write("parcel one", metadata={"n": 1})
        memory.flow("f").write("parcel two", metadata={"n": 2})
    assert re.search(r"words \+0\.\d{3}  meaning \+0\.\d{3}", cli("search", "--flow", "f", "--explain", "parcel").out)
    answer = msgspec.json.decode(cli("search", "--flow", "f", "--json", "--filter", '{"n": 2}', "parcel").out)
    assert [hit["content"] for hit in answer["hits"]] == ["parcel two"]
    assert answer["method"] == "words+meaning"
    assert answer["took_ms"] > 0
    gate = cli("search", "--flow", "f", "--filter", '{"n": 2}', "--why-not", first, "parcel").out
    assert gate.startswith("filter")


@pytest.mark.every_engine
def test_a_search_on_a_server_needs_a_login(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S0.48"""
    monkeypatch.delenv("MEMWELL_HOME", raising=False)
    with live(tmp_path / "server", worker=False) as server:
        monkeypatch.setenv("MEMWELL_URL", server.url)
        assert cli("search", "--flow", "f", "parcel", home=False).code == 77
        assert cli("login", server.url, "--key", server.key, home=False).code == 0
        with server.memory() as memory:
            memory.flow("f").write("a parcel on the server")
        assert "a parcel on the server" in cli("search", "--flow", "f", "parcel", home=False).out


# -- node code ---------------------------------------------------------------------------------------------------------


def run(memory: Memory, name: str, value: Any, package: str) -> Any:
    return run_node(memory._transport, f"search_node:{name}", "support", value, cwd=package)


def test_a_node_searches_its_flow_and_its_session(memory: Memory, package: str) -> None:
    """S0.21, S0.28, S0.40, S0.42, S0.44, S0.46: and finds what it has just written."""
    flow = memory.flow("support")
    flow.session("other").write("The parcel of another session")
    memory.flow("sales").write("The parcel of another flow")
    reply = run(memory, "finds", {"session": "s", "query": "parcel"}, package)
    assert "The parcel of another session" in [content for content, _ in reply["flow"]]
    assert {content for content, _ in reply["session"]} <= {
        "The parcel was lost on Monday",
        "The customer prefers e-mail",
    }
    assert reply["session"][0][0] == "The parcel was lost on Monday"
    assert all(0 < score <= 1 for _, score in [*reply["flow"], *reply["session"]])
    assert "The parcel of another flow" not in str(reply)
    assert reply["counts"] == [len(reply["flow"]), len(reply["session"]), 1]


def test_the_documents_example_node_finds_nothing_in_an_empty_flow(memory: Memory, package: str) -> None:
    """S0.46, C36"""
    reply = run(memory, "chat_agent", {"session": "s", "query": "where is my parcel"}, package)
    assert reply == "1 recent turn(s) and 0 relevant memorie(s)"
    memory.flow("support").write("Parcels are sent by train")
    reply = run(memory, "chat_agent", {"session": "s", "query": "where is my parcel"}, package)
    assert reply == "2 recent turn(s) and 1 relevant memorie(s)"


def test_a_node_cannot_search_elsewhere(tmp_path: Path, package: str) -> None:
    """S0.7, S0.8: whatever it puts into tenant and flow is ignored, and other searches are refused."""
    with two_tenants(tmp_path / "home") as (alpha, beta):
        beta.flow("other").write("the secret of beta")
        alpha.flow("other").write("the secret of another flow")
        alpha.user("alice").add("the secret of alice")
        alpha.flow("support").write("its own secret")
        answer = run(alpha, "forges", {}, package)
    assert answer["found"] == ["its own secret"]
    assert answer["refused"][0] == "Forbidden"
