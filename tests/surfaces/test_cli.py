"""The commands that are written by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import __version__
from memwell.surfaces.cli.main import app

from ..engines import DATABASES, Memory, located
from ..live import live


def run(home: Path, *arguments: str, stdin: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", located(home), *arguments], input=stdin)
    return result.exit_code, result.stdout, result.stderr


def pending(memory: Memory) -> str:
    """An erasure that waits for a worker."""
    memory.flow("f").session("s").history.append(role="user", content="hi")
    job: str = memory.call("flows.delete_session", {"flow": "f", "session": "s"}).job
    return job


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == __version__
    assert "Memory for AI agents" in CliRunner().invoke(app, ["--help"]).stdout


def test_doctor_finds_all_well(tmp_path: Path) -> None:
    if DATABASES.engine == "sqlite":
        assert "has no data yet" in run(tmp_path, "doctor")[1]
    with Memory(tmp_path, worker=False) as memory:
        memory.user("alice").add("hi")
    code, out, _ = run(tmp_path, "doctor", "--json")
    assert code == 0
    assert {finding["state"] for finding in msgspec.json.decode(out)} == {"ok"}


@pytest.mark.engines("sqlite")  # damaged files
@pytest.mark.parametrize("damage", ["header", "middle", "cut"])
def test_doctor_finds_damage_and_says_what_to_do(tmp_path: Path, damage: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for number in range(50):
            memory.flow("f").session(f"s{number}").history.append(role="user", content="x" * 2000)
    file = tmp_path / "tenants" / "default.db"
    data = bytearray(file.read_bytes())
    if damage == "header":
        data[:100] = b"garbage " * 12 + b"...."
    elif damage == "middle":
        data[5 * 4096 : 20 * 4096] = os.urandom(15 * 4096)
    else:
        del data[len(data) // 2 :]
    file.write_bytes(data)
    code, out, _ = run(tmp_path, "doctor")
    assert code == 1
    assert "backup" in out
    assert file.read_bytes() == data, "nothing was changed"


@pytest.mark.engines("sqlite")  # damaged files
def test_a_damaged_file_is_refused_with_advice(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.user("alice").add("hi")
    (tmp_path / "tenants" / "default.db").write_bytes(b"not a database at all" * 1000)
    code, _, err = run(tmp_path, "ls")
    assert code == 74
    assert "memwell doctor" in err
    assert "backup" in err


def test_doctor_looks_at_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_PROFILE", str(tmp_path / "login.json"))
    with live(tmp_path / "server", worker=False) as server:
        monkeypatch.setenv("MEMWELL_API_KEY", server.key)
        result = CliRunner().invoke(app, ["--url", server.url, "doctor"])
        assert (result.exit_code, "operator of tenant default" in result.stdout) == (0, True)
    monkeypatch.setattr("memwell.sdk.http.TRIES", 1)
    result = CliRunner().invoke(app, ["--url", server.url, "doctor"])
    assert (result.exit_code, "memwell serve" in result.stdout) == (1, True)


def test_export_and_import_of_a_file(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.flow("f").session("s").history.extend([{"role": "user", "content": str(n)} for n in range(450)])
    file = tmp_path / "f.jsonl"
    assert run(tmp_path / "home", "export", "f", "--output", str(file))[1] == f"451 lines written to {file}.\n"
    assert len(run(tmp_path / "home", "export", "f")[1].splitlines()) == 451
    code, out, _ = run(tmp_path / "home", "import", "g", str(file), "--json")
    assert (code, msgspec.json.decode(out)) == (0, {"added": 450, "skipped": 0})
    file.write_text('{"type": "turn"}\nnonsense\n')
    code, _, err = run(tmp_path / "home", "import", "g", str(file))
    assert (code, "Line 2" in err) == (2, True)


def test_a_command_finishes_due_jobs_before_it_ends(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        job_id = pending(memory)
        assert memory.jobs.show(job_id).state == "ready"
        run(tmp_path, "ls")
        assert memory.jobs.show(job_id).state == "done"


def test_worker_once_runs_what_is_due_in_every_tenant(tmp_path: Path) -> None:
    for tenant in ("alpha", "beta"):
        with Memory(tmp_path, tenant=tenant, worker=False) as memory:
            pending(memory)
    assert "2 jobs run." in run(tmp_path, "worker", "--once")[1]
    assert msgspec.json.decode(run(tmp_path, "worker", "--once", "--json")[1]) == {"jobs": 0}


def test_a_worker_process_works_until_it_is_stopped(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMWELL_HOME": located(tmp_path)}
    process = subprocess.Popen([sys.executable, "-m", "memwell", "worker"], env=environment, stderr=subprocess.PIPE)
    try:
        with Memory(tmp_path, worker=False) as memory:
            job_id = pending(memory)
            deadline = time.monotonic() + 20
            while memory.jobs.show(job_id).state != "done" and time.monotonic() < deadline:
                time.sleep(0.05)
            assert memory.jobs.show(job_id).state == "done"
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"Traceback" not in err


def test_watch_shows_reads_and_writes_of_a_flow_live(tmp_path: Path) -> None:
    """S0.10, as a person sees it."""
    command = [sys.executable, "-u", "-m", "memwell", "--home", located(tmp_path), "watch", "--flow", "support"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert "Watching" in process.stdout.readline()
        time.sleep(1.0)
        with Memory(tmp_path, worker=False) as memory:
            memory.flow("other").write("not shown")
            memory.flow("support").session("s1").history.append(role="user", content="a secret")
            memory.flow("support").session("s1").history.last(3)
            lines = [process.stdout.readline() for _ in range(2)]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    text = "".join(lines)
    assert "write  flows.append" in text
    assert "read   flows.last" in text
    assert text.count("flow/support/s1") == 2
    assert "secret" not in text


def test_errors_of_the_environment_are_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_PORT", "many")
    code, _, err = run(tmp_path, "ls")
    assert (code, "MEMWELL_PORT='many' is not valid" in err) == (2, True)
    monkeypatch.delenv("MEMWELL_PORT")
    code, _, err = run(tmp_path, "--tenant", "x")
    assert code == 2


@pytest.mark.engines("sqlite")  # a directory
def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = run(tmp_path / "file", "ls")
    assert (code, "not a directory" in err) == (74, True)


def test_an_address_without_a_scheme_is_not_logged_in_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMWELL_PROFILE", str(tmp_path / "login.json"))
    result = CliRunner().invoke(app, ["login", "127.0.0.1:1", "--key", "mw_x"])
    assert (result.exit_code, "http://" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_stored_text_cannot_control_the_terminal(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.flow("f").session("s").history.append(role="user", content="a\x1b]0;pwned\x07b\nc\td\x9b2J")
        memory.flow("f").session("s").write("\x1b[2J")
    for command in (["show", "s"], ["flow", "last", "f", "s"], ["flow", "memories", "f", "--session", "s"]):
        _, out, _ = run(tmp_path, *command)
        assert not set(out) & {"\x1b", "\x07", "\x9b"}
    assert "a\\x1b]0;pwned\\x07b\nc" in run(tmp_path, "show", "s")[1]


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "export", "f", "--output", str(tmp_path / "no" / "such" / "file"))
    assert (code, "cannot be used" in err) == (74, True)
    code, _, err = run(tmp_path, "serve", "--port", "99999")
    assert (code, "1 to 65535" in err) == (2, True)


def test_ending_an_unknown_session_is_an_error_with_and_without_its_flow(tmp_path: Path) -> None:
    assert run(tmp_path, "end", "nobody", "--yes")[0] == 4
    assert run(tmp_path, "end", "nobody", "--flow", "f", "--yes")[0] == 4


def distilled(memory: Memory) -> None:
    """A flow that has learnt something, has been told otherwise, and was told a secret."""
    flow = memory.flow("f")
    for session, said in (
        ("s1", "I live in Lisbon."),
        ("s2", "I moved to Porto."),
        ("s3", "My password is hunter2xyz!"),
    ):
        flow.session(session).history.append(role="user", name="Alice", content=said)
        flow.consolidate(session)


def test_plans_are_a_table_that_people_can_read(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
        newest = memory.flow("f").plans()[0]
        memory.flow("f").revert(newest.id)
    code, out, _ = run(tmp_path, "flow", "plans", "f")
    assert code == 0
    head, *lines = out.splitlines()
    assert head.split() == ["WHEN", "(UTC)", "SESSION", "STATEMENTS", "STATE", "ID"]
    assert [line.split()[2:-1] for line in lines] == [
        ["s3", "1", "added,", "1", "held", "reverted"],
        ["s2", "1", "superseded", "applied"],
        ["s1", "1", "added", "applied"],
    ]
    assert lines[0].split()[-1] == newest.id
    assert "{" not in out
    assert run(tmp_path, "flow", "plans", "nobody")[1] == "No plans.\n"
    assert "There is more: --cursor" in run(tmp_path, "flow", "plans", "f", "--limit", "1")[1]


def test_a_plan_is_shown_step_by_step(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
        plans = {plan.session: plan.id for plan in memory.flow("f").plans()}
    out = run(tmp_path, "flow", "plan", "f", plans["s2"])[1]
    assert "supersede" in out
    assert "later statement about: home · about Alice" in out
    assert "quarantined: it looks like a secret" in run(tmp_path, "flow", "plan", "f", plans["s3"])[1]
    assert "nothing new to consolidate" in run(tmp_path, "flow", "consolidate", "f", "s1")[1]


def test_what_is_held_back_says_why(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
    code, out, _ = run(tmp_path, "flow", "held", "f")
    assert code == 0
    statement, about = out.splitlines()
    assert "hunter2xyz" in statement
    assert "quarantined: it looks like a secret · about Alice" in about
    assert msgspec.json.decode(run(tmp_path, "flow", "held", "f", "--json")[1])["memories"][0]["held"] == "secret"


def test_a_memory_and_its_history_are_lines(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
        (lisbon,) = (hit.id for hit in memory.flow("f").search("Lisbon", limit=1, include=["past"]))
    out = run(tmp_path, "flow", "memory-history", "f", lisbon)[1]
    assert [line.split()[:2] for line in out.splitlines() if line[:1].isdigit()] == [["1", "fact"], ["2", "past"]]
    assert "I live in Lisbon." in out
    assert "true from" in run(tmp_path, "flow", "memory", "f", lisbon)[1]
    assert run(tmp_path, "flow", "memories", "f")[1].startswith("Alice moved to Porto.\n    about Alice · true since")


@pytest.mark.parametrize("option", ["--as-of", "--valid-at"])
def test_a_time_may_be_a_day(tmp_path: Path, option: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
    assert run(tmp_path, "flow", "memories", "f", option, "2020-01-01")[1] == "No memories.\n"
    assert "Porto" in run(tmp_path, "flow", "memories", "f", option, "2999-01-01T10:00:00Z")[1]
    code, _, err = run(tmp_path, "flow", "memories", "f", option, "yesterday")
    assert (code, f"{option} must be a day or a time" in err) == (2, True)


def test_a_context_needs_no_question(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
        memory.user("alice").add("I am vegetarian.")
        memory.call("users.consolidate", {"user": "alice", "session": memory.user("alice").sessions()[0].session})
    code, out, _ = run(tmp_path, "user", "context", "alice")
    assert code == 0
    assert "Alice is vegetarian." in out
    assert "user: I am vegetarian." in out
    assert out.splitlines()[-1].endswith("1 fact · nothing left out")
    assert "Alice moved to Porto." in run(tmp_path, "flow", "context", "f")[1]
    assert "Nothing is remembered yet." in run(tmp_path, "user", "context", "nobody")[1]


def test_a_workflow_is_read_from_a_file_and_checked(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("name: hi\nsteps:\n  - {step_type: text, template: Hello}\n", encoding="utf-8")
    (tmp_path / "bad.yaml").write_text("name: hi\nsteps:\n  - {step_type: tekst}\n", encoding="utf-8")
    code, out, _ = run(tmp_path, "workflow", "validate", "--document", f"@{tmp_path}/good.yaml")
    assert (code, out.split()[:2]) == (0, ["valid", "true"])
    code, out, _ = run(tmp_path, "workflow", "validate", "--document", f"@{tmp_path}/bad.yaml")
    assert (code, out.split()[:2]) == (1, ["valid", "false"])
    assert "tekst" in out
    code, _, error = run(tmp_path, "workflow", "validate", "--document", f"@{tmp_path}/none.yaml")
    assert code == 74
    assert "none.yaml" in error


def test_wide_tables_are_brief_and_ids_whole(tmp_path: Path) -> None:
    said = "What should I see in Porto on a rainy day in November with two children?"
    (tmp_path / "echo.yaml").write_text("name: echo\nsteps:\n  - {step_type: display_result}\n", encoding="utf-8")
    given = ("workflow", "run", f"{tmp_path}/echo.yaml", "--input", said, "--metadata", "user_id=alice")
    assert run(tmp_path, *given)[0] == 0
    _, listed, _ = run(tmp_path, "runs", "list", "--json")
    _, out, _ = run(tmp_path, "runs", "list")
    assert msgspec.json.decode(listed)["runs"][0]["id"] in out.split()
    assert "…" in out
    assert "[]" not in out, "a column that says nothing is left out"
