"""S0: the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ..engines import Memory
from ..live import live
from .conftest import Cli


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """On the real clock, which is the command line's."""
    with Memory(tmp_path / "home", worker=False) as memory:
        yield memory


@pytest.fixture
def filled(memory: Memory) -> Memory:
    for flow, session in (("support", "alice-42"), ("support", "bob-7"), ("sales", "carol-1")):
        memory.flow(flow).session(session).history.append(role="user", content=f"hello from {session}")
    memory.flow("support").session("alice-42").history.append(role="assistant", content="hi there")
    return memory


def test_ls_lists_the_flows_that_have_memory(filled: Memory, cli: Cli) -> None:
    """S0.9, S0.50"""
    lines = [line.rstrip() for line in cli("ls").out.splitlines()]
    assert re.fullmatch(r"FLOW ID +SESSIONS +LAST ACTIVE", lines[0])
    assert re.fullmatch(r"sales +1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", lines[1])
    assert re.fullmatch(r"support +2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", lines[2])
    assert len(lines) == 3


def test_ls_flow_lists_its_sessions(filled: Memory, cli: Cli) -> None:
    """S0.51"""
    rows = [line.split()[:2] for line in cli("ls", "--flow", "support").out.splitlines()[1:]]
    assert sorted(rows) == [["alice-42", "2"], ["bob-7", "1"]]


def test_show_prints_the_conversation_and_the_semantic_memories(filled: Memory, cli: Cli) -> None:
    """S0.52, S0.38, S0.39: no memories before the session is distilled, except those written directly."""
    text = cli("show", "alice-42").out
    assert text.startswith("Session alice-42")
    assert re.search(r"Conversation\nUSER  [-\d]{10} [:\d]{8} UTC\nhello from alice-42\nASSISTANT", text)
    assert "Semantic memories\nNone." in text
    filled.flow("support").session("alice-42").write("Prefers e-mail")
    assert "Semantic memories\n- Prefers e-mail" in cli("show", "alice-42").out


def test_show_of_an_unknown_session_fails_and_says_what_to_do(filled: Memory, cli: Cli) -> None:
    result = cli("show", "nobody")
    assert result.code == 4
    assert "memwell ls --flow" in result.err


def test_a_session_id_in_two_flows_must_name_its_flow(filled: Memory, cli: Cli) -> None:
    """C37"""
    filled.flow("sales").session("alice-42").history.append(role="user", content="in sales")
    for command in (["show", "alice-42"], ["end", "alice-42", "--yes"], ["rm", "alice-42", "--yes"]):
        result = cli(*command)
        assert result.code == 5
        assert "sales, support" in result.err
        assert "--flow" in result.err
    assert "in sales" in cli("show", "alice-42", "--flow", "sales").out


def test_end_asks_first_and_closes_the_session(filled: Memory, cli: Cli) -> None:
    """S0.32, S0.54, S0.58"""
    refused = cli("end", "alice-42", stdin="n\n")
    assert refused.code == 1
    assert filled.flow("support").session("alice-42").show().ended_at is None
    assert cli("end", "alice-42", stdin="y\n").code == 0
    assert filled.flow("support").session("alice-42").show().ended_at is not None
    assert [job.state for job in filled.jobs.list(kind="consolidate")] == ["done"]
    assert cli("end", "bob-7", "--yes").code == 0
    assert filled.flow("support").session("bob-7").show().ended_at is not None


def test_rm_asks_first_and_deletes_one_session_permanently(filled: Memory, cli: Cli) -> None:
    """S0.55, S0.57, S0.58"""
    assert cli("rm", "alice-42", stdin="n\n").code == 1
    assert len(filled.flow("support").sessions()) == 2
    result = cli("rm", "alice-42", "--yes")
    assert result.code == 0
    assert "0 traces left" in result.out
    assert [found.session for found in filled.flow("support").sessions()] == ["bob-7"]
    assert filled.flow("support").session("alice-42").history.last(5) == []


def test_rm_all_deletes_a_whole_flow(filled: Memory, cli: Cli) -> None:
    """S0.56, S0.57, S0.58"""
    filled.flow("support").write("a fact")
    assert cli("rm", "--flow", "support", "--all", stdin="n\n").code == 1
    assert cli("rm", "--flow", "support").code == 2
    assert cli("rm", "--flow", "support", "--all", "--yes").code == 0
    assert [flow.flow for flow in filled.flows()] == ["sales"]
    assert filled.flow("support").memories() == []


def test_the_commands_also_stand_under_memory(filled: Memory, cli: Cli) -> None:
    """S0.9"""
    for command in (["ls"], ["ls", "--flow", "support"], ["show", "alice-42"]):
        assert cli("memory", *command).out == cli(*command).out
    assert cli("memory", "end", "alice-42", "--yes").code == 0
    assert cli("memory", "rm", "alice-42", "--yes").code == 0


def test_json_everywhere(filled: Memory, cli: Cli) -> None:
    flows = msgspec.json.decode(cli("ls", "--json").out)
    assert [flow["flow"] for flow in flows] == ["sales", "support"]
    assert msgspec.json.decode(cli("show", "alice-42", "--json").out)["turn_count"] == 2
    assert msgspec.json.decode(cli("end", "alice-42", "--yes", "--json").out)["session"] == "alice-42"
    assert msgspec.json.decode(cli("rm", "alice-42", "--yes", "--json").out)["residual"] == 0


def test_a_server_needs_a_login_and_the_command_line_keeps_nothing_else(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.48, S0.49: every command on a server fails without a login; the profile is the only local state."""
    monkeypatch.delenv("MEMWELL_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    with live(tmp_path / "server", worker=False) as server:
        monkeypatch.setenv("MEMWELL_URL", server.url)
        commands = [["ls"], ["ls", "--flow", "f"], ["show", "s"], ["end", "s", "--yes"], ["rm", "s", "--yes"]]
        for command in commands:
            result = cli(*command, home=False)
            assert result.code == 77, command
            assert "memwell login" in result.err
        assert cli("login", server.url, "--key", "mw_wrong", home=False).code == 77
        logged_in = cli("login", server.url, "--key", server.key, "--json", home=False)
        assert msgspec.json.decode(logged_in.out) == {"url": server.url, "role": "operator", "tenant": "default"}
        profile = tmp_path / "login.json"
        assert profile.stat().st_mode & 0o777 == 0o600
        with server.memory() as memory:
            memory.flow("f").session("s").history.append(role="user", content="on the server")
        assert "on the server" in cli("show", "s", home=False).out
        assert [line.split()[0] for line in cli("ls", home=False).out.splitlines()[1:]] == ["f"]
        assert cli("rm", "s", "--yes", home=False).code == 0
        assert not (tmp_path / "person").exists() or not list((tmp_path / "person").iterdir())
        assert cli("logout", home=False).code == 0
        assert cli("ls", home=False).code == 77
