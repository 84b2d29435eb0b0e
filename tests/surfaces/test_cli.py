"""The commands that are written by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import NotFound, __version__
from memwell.surfaces.cli.main import app

from ..engines import DATABASES, Memory, listeners, located
from ..live import live
from ..waiting import wait_until


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


def test_doctor_removes_the_last_traces_of_erased_data_and_looks(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        memory.user("alice").add("My parrot lives in Porto.")
        memory.user("alice").forget()
    code, out, _ = run(tmp_path, "doctor", "--erasure", "--json")
    findings = msgspec.json.decode(out)
    assert (code, findings[0]["state"]) == (0, "ok")
    assert findings[0]["text"].startswith("rewritten; 0 of ")


@pytest.mark.engines("sqlite")  # damaged files
@pytest.mark.parametrize("damage", ["header", "middle", "cut", "bit", "empty"])
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
    elif damage == "bit":
        data[data.index(b"x" * 1000) + 500] ^= 1
    elif damage == "empty":
        del data[:]
    else:
        del data[len(data) // 2 :]
    file.write_bytes(data)
    code, out, _ = run(tmp_path, "doctor")
    assert code == 1
    assert "memwell restore BACKUP --tenant default" in " ".join(out.split())
    assert file.read_bytes() == data, "nothing was changed"


@pytest.mark.engines("sqlite")  # damaged files
def test_the_advice_of_doctor_brings_a_damaged_tenant_back(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.user("alice").add("I live in Porto.")
    run(tmp_path / "home", "backup", str(tmp_path / "backups"))
    (backup,) = (tmp_path / "backups").glob("memwell-*Z")
    (tmp_path / "home" / "tenants" / "default.db").unlink()
    code, out, _ = run(tmp_path / "home", "doctor")
    assert (code, "default.db is missing" in " ".join(out.split())) == (1, True)
    assert run(tmp_path / "home", "restore", str(backup), "--tenant", "default")[0] == 0
    assert "Porto" in run(tmp_path / "home", "user", "history", "alice")[1]


@pytest.mark.engines("sqlite")  # a file
@pytest.mark.parametrize("left", [None, b""])
def test_doctor_finds_a_lost_secret(tmp_path: Path, left: bytes | None) -> None:
    assert run(tmp_path, "key", "create", "--name", "agent")[0] == 0
    path = tmp_path / "secret.key"
    path.unlink() if left is None else path.write_bytes(left)
    code, out, _ = run(tmp_path, "doctor")
    assert code == 1
    assert "secret.key is" in out
    assert "restore it from a backup" in " ".join(out.split())
    assert path.exists() == (left is not None)


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
        assert CliRunner().invoke(app, ["--url", server.url, "doctor", "--erasure"]).exit_code == 2
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
    imported = run(tmp_path / "home", "import", "h", "-", "--json", stdin=file.read_text())[1]
    assert msgspec.json.decode(imported) == {"added": 450, "skipped": 0}
    assert run(tmp_path / "home", "import", "h", str(tmp_path / "none"))[0] == 74
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
            wait_until(lambda: memory.jobs.show(job_id).state == "done")
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err


def test_watch_shows_reads_and_writes_of_a_flow_live(tmp_path: Path) -> None:
    """S0.10, as a person sees it."""
    command = [sys.executable, "-u", "-m", "memwell", "--home", located(tmp_path), "watch", "--flow", "support"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert "Watching" in process.stdout.readline()
        wait_until(lambda: listeners(tmp_path))
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


def test_a_login_that_has_no_effect_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    cli = CliRunner()
    with live(tmp_path / "server", worker=False) as server:
        login = ["login", server.url, "--key", server.key]
        monkeypatch.setenv("MEMWELL_HOME", str(tmp_path / "home"))
        result = cli.invoke(app, login)
        assert f"MEMWELL_HOME is set, so commands work on {tmp_path / 'home'}" in result.stderr.replace("\n", " ")
        assert (tmp_path / "settings/memwell/login.json").exists(), "XDG_CONFIG_HOME was ignored"
        monkeypatch.delenv("MEMWELL_HOME")
        assert cli.invoke(app, login).stderr == ""
        assert f"memory   {server.url}\n" in cli.invoke(app, ["status", "show"]).stdout
        monkeypatch.setenv("MEMWELL_URL", "http://me:secret@127.0.0.1:1")
        warning = cli.invoke(app, login).stderr
        assert ("MEMWELL_URL is set" in warning, "secret" in warning) == (True, False)


def test_status_names_the_directory(tmp_path: Path) -> None:
    where = str(tmp_path) if DATABASES.engine == "sqlite" else "postgresql://"
    assert f"memory   {where}" in run(tmp_path, "status")[1]
    assert run(tmp_path, "status", "--json")[1] == run(tmp_path, "status", "show", "--json")[1]


@pytest.mark.engines("sqlite")  # files
def test_data_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    with Memory(home, worker=False) as memory:
        memory.user("alice").add("hi")
        memory.keys.create()
        modes = {path.name: path.stat().st_mode & 0o777 for path in [home, *home.rglob("*")]}
        assert {"control.db", "control.db-wal", "control.db-shm", "default.db", "default.db-wal"} <= set(modes)
        assert [name for name, mode in modes.items() if mode & 0o077] == []
    (home / "control.db").chmod(0o644)  # as earlier versions created it
    with Memory(home, worker=False):
        assert (home / "control.db").stat().st_mode & 0o777 == 0o600


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


def test_an_unknown_session_is_the_same_in_python_and_on_the_command_line(tmp_path: Path) -> None:
    """C13: the end of an empty session is no error; what it does not have cannot be shown or deleted."""
    with Memory(tmp_path, worker=False) as memory:
        session = memory.flow("f").session("nobody")
        assert session.end().ended_at is None
        for work in (session.show, session.delete):
            with pytest.raises(NotFound, match="no such session"):
                work()
        assert memory.find_session("nobody") == []
    for command in (["end", "nobody", "--flow", "f"], ["flow", "end", "f", "nobody"]):
        ended = (0, "Session nobody has no turns: there is nothing to end.\n", "")
        assert run(tmp_path, *command, "--yes") == ended
    for command in (["show", "nobody"], ["rm", "nobody", "--yes"]):
        assert run(tmp_path, *command, "--flow", "f")[0] == 4
        assert run(tmp_path, "flow", {"rm": "delete-session"}.get(command[0], "show"), "f", *command[1:])[0] == 4
        assert run(tmp_path, *command)[0] == 4
    assert run(tmp_path, "end", "nobody", "--yes")[0] == 4, "no flow is named, and none has it"


def test_following_a_run_shows_it_and_ends_with_its_state(tmp_path: Path) -> None:
    document = "name: hello\nsteps:\n  - {step_type: text, template: 'Hello {{agent.input}}'}\n  - {step_type: display_result}\n"
    with Memory(tmp_path, worker=False) as memory:
        done = memory.workflows.run(document, "Ada")
    code, out, err = run(tmp_path, "runs", "follow", done.id)
    assert (code, "Hello Ada" in out, "step-1" in err) == (0, True, True)
    lines = [msgspec.json.decode(line) for line in run(tmp_path, "runs", "follow", done.id, "--json")[1].splitlines()]
    assert [(line["kind"], line.get("state")) for line in lines][-1] == ("run", "done")
    assert run(tmp_path, "runs", "follow", "0" * 26)[0] == 4


def test_every_way_to_end_a_session_asks(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.flow("f").session("s").history.append(role="user", content="hi")
        for command in (["end", "s"], ["memory", "end", "s"], ["flow", "end", "f", "s"]):
            code, _, err = run(tmp_path, *command, stdin="n\n")
            assert (code, "nd" in err and "?" in err) == (1, True)
            assert memory.flow("f").session("s").show().ended_at is None
        assert run(tmp_path, "flow", "end", "f", "s", "--yes")[0] == 0
        assert memory.flow("f").session("s").show().ended_at is not None


def test_a_question_is_an_argument_of_context(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.flow("f").write("The colour of the sky is blue.")
    for question in (["what colour?"], ["--query", "what colour?"], []):
        assert "blue" in run(tmp_path, "flow", "context", "f", *question)[1]
    assert run(tmp_path, "flow", "context", "f", "one", "--query", "two")[0] == 2


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


def test_quarantined_facts_have_a_reason(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        distilled(memory)
    code, out, _ = run(tmp_path, "flow", "held", "f")
    assert code == 0
    statement, about = out.splitlines()
    assert "[secret]" in statement
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
    code, out, err = run(tmp_path, "user", "context", "alice")
    assert code == 0
    assert "Alice is vegetarian." in out
    assert "user: I am vegetarian." in out
    assert err.endswith("1 fact · nothing left out\n"), "and the text alone can be piped"
    assert "Alice moved to Porto." in run(tmp_path, "flow", "context", "f")[1]
    assert "Nothing is remembered yet." in run(tmp_path, "user", "context", "nobody")[2]


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
