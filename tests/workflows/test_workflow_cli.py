"""`memwell workflow run` and `memwell runs`: their output for people and for pipes, without control characters."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from memwell.surfaces.cli.main import app
from memwell.surfaces.cli.output import escape
from memwell.surfaces.cli.run_commands import RunView, fit_rows
from memwell.workflows.run import RunEvent

from ..cases import cases
from ..engines import Memory, located
from ..scripted import ScriptedServer

EVIL = "\x1b[31mred\x1b]0;PWNED\x07 \x9b2J \u202egnp"
CHAT = """
name: chat
steps:
  - step_type: prompt_call
    id: answer
    steps:
      - step_type: streaming_result
"""


def run(home: Path, *arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", located(home / "home"), *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def file(folder: Path, text: str | bytes, name: str = "flow.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def event(kind: str, text: str | None = None, **fields: object) -> RunEvent:
    return RunEvent(kind=kind, run="r", text=text, **fields)  # type: ignore[arg-type]


# -- what is printed -----------------------------------------------------------------------------------------------------


def is_harmless(printed: str) -> bool:
    return not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", printed)


def test_nothing_that_comes_from_elsewhere_controls_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = json.dumps(EVIL)
    flow = file(tmp_path, f"name: {evil}\nsteps:\n  - step_type: text\n    template: {evil}\n")
    code, out, err = run(tmp_path, "workflow", "run", flow)
    assert (code, out) == (0, "\\x1b[31mred\\x1b]0;PWNED\\x07 \\x9b2J \\u202egnp\n")
    assert is_harmless(err)
    flow = file(tmp_path, f"name: {evil}\nsteps:\n  - step_type: text\n    {evil}: 1\n    template: {evil}\n")
    assert is_harmless("".join(run(tmp_path, "workflow", "run", flow)[1:]))
    assert is_harmless("".join(run(tmp_path, "workflow", "validate", "--document", f"@{flow}")[1:]))
    with ScriptedServer([EVIL]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:any@{server.url}")
        code, out, err = run(tmp_path, "workflow", "run", file(tmp_path, CHAT), "--input", EVIL)
    assert (code, out) == (0, f"{escape(EVIL)}\n")
    assert is_harmless(err)
    assert is_harmless(run(tmp_path, "runs", "list")[1])
    with Memory(tmp_path / "home", worker=False) as memory:
        ids = [one.id for one in memory.workflows.runs()]
    assert len(ids) == 2
    assert all(is_harmless(run(tmp_path, "runs", "get", one)[1]) for one in ids)


def test_half_a_character_can_be_printed() -> None:
    assert escape("a\ud800\tb\n") == "a\\ud800\tb\n"


# -- files ---------------------------------------------------------------------------------------------------------------


@cases("command", ["run", "validate"])
@cases("what", ["latin", "utf16", "folder"])
def test_an_unreadable_file_is_an_error_of_one_line(tmp_path: Path, command: str, what: str) -> None:
    path = str(tmp_path)
    if what != "folder":
        path = file(tmp_path, "name: é\n".encode("latin-1" if what == "latin" else "utf-16"))
    given = ("run", path) if command == "run" else ("validate", "--document", f"@{path}")
    code, out, err = run(tmp_path, "workflow", *given)
    assert code == (74 if what == "folder" else 2)
    assert (out, err.count("\n")) == ("", 1)
    assert path in err
    assert ("Is a directory" if what == "folder" else "UTF-8") in err


def test_input_that_is_no_text_is_one_sentence(tmp_path: Path) -> None:
    flow = file(tmp_path, "name: x\nsteps:\n  - step_type: display_result\n")
    command = [
        sys.executable,
        "-m",
        "memwell",
        "--home",
        str(tmp_path / "home"),
        "workflow",
        "run",
        flow,
        "--input",
        "-",
    ]
    done = subprocess.run(command, input=b"caf\xe9", capture_output=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"UTF-8" in done.stderr or b"Unicode" in done.stderr


def test_a_mark_at_the_beginning_of_a_file_is_no_text(tmp_path: Path) -> None:
    flow = file(tmp_path, b"\xef\xbb\xbfname: x\nsteps:\n  - step_type: text\n    template: hi\n")
    assert run(tmp_path, "workflow", "run", flow)[:2] == (0, "hi\n")


@cases(("given", "kept"), [("a\n", "a"), ("a\n\n", "a\n"), ("a\r\n", "a"), ("a", "a")])
def test_input_from_a_pipe_has_no_final_newline(tmp_path: Path, given: str, kept: str) -> None:
    flow = file(tmp_path, "name: x\nsteps:\n  - step_type: display_result\n")
    assert run(tmp_path, "workflow", "run", flow, "--input", "-", stdin=given.encode())[0] == 0
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.workflows.runs()[0].input == kept


# -- problems ------------------------------------------------------------------------------------------------------------

BAD = """name: x
steps:
  - step_type: text
    colour: red
  - step_type: load_memory
    memory_bank_id: none
    key: k
"""


def test_problems_are_listed_one_per_line_with_their_places(tmp_path: Path) -> None:
    flow = file(tmp_path, BAD)
    wanted = [f"{flow}:3:5: steps[0].template: it is missing.", f"{flow}:4:5: steps[0].colour: there is no such field."]
    missing = f"{flow}:6:5: steps[1].memory_bank_id: there is no memory bank 'none'."

    def said(lines: Iterable[str]) -> list[str]:
        return [line.partition(" The fields")[0] for line in lines if flow in line]

    code, out, _ = run(tmp_path, "workflow", "validate", "--document", f"@{flow}")
    assert (code, said(out.splitlines())) == (1, [*wanted, missing])
    for given in (("create", "--document", f"@{flow}"), ("run", flow)):
        code, out, err = run(tmp_path, "workflow", *given)
        assert (code, out, err.splitlines()[0]) == (2, "", "Error: The workflow has 2 problems.")
        assert said(err.splitlines()) == wanted
    flow = file(tmp_path, BAD.replace("colour: red", "template: hi"))
    code, _, err = run(tmp_path, "workflow", "run", flow)
    assert (code, said(err.splitlines())) == (2, [missing])
    flow = file(tmp_path, "name: [\n")
    assert said(run(tmp_path, "workflow", "run", flow)[2].splitlines()) == [
        f"{flow}:2:1: did not find expected node content."
    ]


# -- pipes and screens ---------------------------------------------------------------------------------------------------


def test_a_pipe_gets_the_answer_as_it_comes_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "The riverfront, and the bridge."
    with ScriptedServer([said]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:any@{server.url}")
        code, out, err = run(tmp_path, "workflow", "run", file(tmp_path, CHAT), "--input", "What to see?")
    assert (code, out) == (0, f"{said}\n")
    assert "✓ answer  prompt_call" in err


def test_a_pipe_gets_the_output_if_that_is_another_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = CHAT + '  - step_type: text\n    template: "In short: {{input}}"\n  - step_type: display_result\n'
    with ScriptedServer(["Yes."]) as server:
        monkeypatch.setenv("MEMWELL_LLM", f"openai:any@{server.url}")
        out = run(tmp_path, "workflow", "run", file(tmp_path, flow), "--input", "?")[1]
    assert out == "Yes.\nIn short: Yes.\n"


def test_of_answers_at_once_one_is_listened_to_until_it_is_done() -> None:
    run_view = RunView()
    events = [
        event("text", "one ", step="a"),
        event("text", "other", step="b"),
        event("text", "two", step="a"),
        event("step", step="a", state="done"),
        event("text", "next", step="b"),
    ]
    assert [run_view.take(one) for one in events] == ["one ", "", "two", "", "next"]
    assert run_view.answer == "next"


def test_an_answer_that_is_tried_again_begins_anew() -> None:
    run_view = RunView()
    for one in (
        event("text", "The ri", step="a"),
        event("step", step="a", state="retrying"),
        event("text", "The bridge", step="a"),
    ):
        run_view.take(one)
    assert run_view.answer == "The bridge"


def test_the_screen_shows_the_steps_and_the_end_of_the_answer() -> None:
    run_view = RunView()
    run_view.take(event("run", "chat", state="running"))
    run_view.take(event("step", step="answer", step_type="prompt_call", state="running"))
    run_view.take(event("text", "\n".join(f"line {number} {'x' * 100}" for number in range(100)), step="answer"))
    out = io.StringIO()
    Console(file=out, width=80, height=20, force_terminal=True).print(run_view)
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.getvalue().splitlines()]
    assert lines[0] == "chat"
    assert "answer  prompt_call" in lines[1]
    assert lines[-3].startswith("line 99 ")
    assert len(lines) <= 20


@cases(
    ("tree", "said", "rows", "kept"),
    [(3, 4, 20, (3, 4)), (3, 100, 19, (3, 15)), (100, 100, 19, (8, 10)), (100, 2, 19, (16, 2)), (30, 0, 19, (19, 0))],
)
def test_what_fits_on_a_screen(tree: int, said: int, rows: int, kept: tuple[int, int]) -> None:
    shown_lines = fit_rows([["t"]] * tree, [["s"]] * said, rows)
    assert (shown_lines.count(["t"]), shown_lines.count(["s"])) == kept
    assert len(shown_lines) <= rows


@pytest.mark.skipif(sys.platform == "win32", reason="there are no terminals like this")
def test_errors_in_the_tree_are_not_cut_at_the_edge(tmp_path: Path) -> None:
    """In a terminal of 80 columns they are broken, and in a pipe they are one line."""
    name = "project-" + "x" * 100
    steps = f'  - step_type: load_memory\n    memory_bank_id: b\n    key: "{name}-{{{{metadata.none}}}}"\n'
    flow = file(tmp_path, f"name: x\nmemory_banks: {{b: {{type: general}}}}\nsteps:\n{steps}")
    error = f"The key '{name}-{{{{metadata.none}}}}' is incomplete: `{{{{metadata.none}}}}` is empty."
    code, out, err = run(tmp_path, "workflow", "run", flow)
    assert (code, out) == (1, "")
    assert error in err
    assert "".join(in_terminal(tmp_path, flow).split()).count("".join(error.split())) == 2, "in the tree, and below it"


def in_terminal(home: Path, flow: str) -> str:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "memwell", "--home", located(home / "home"), "workflow", "run", flow]
    env = {**os.environ, "COLUMNS": "80", "LINES": "20", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=env):
        os.close(theirs)
        printed = b""
        try:
            while piece := os.read(ours, 65536):
                printed += piece
        except OSError:
            pass  # the end, as terminals say it
    os.close(ours)
    final = printed.decode().rpartition("\x1b[2K")[2]
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[─├└│]", "", final)


# -- runs ----------------------------------------------------------------------------------------------------------------


def test_runs_are_read_within_eighty_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    flow = file(
        tmp_path,
        "name: notes\nmemory_banks: {b: {type: general}}\nsteps:\n"
        '  - {step_type: text, id: greet, template: "Hello {{input}}"}\n'
        '  - {step_type: load_memory, id: look, memory_bank_id: b, key: "{{metadata.none}}"}\n',
    )
    said = "What should I see in Porto on a rainy day in November with two children?"
    assert run(tmp_path, "workflow", "run", flow, "--input", said)[0] == 1
    head, line = run(tmp_path, "runs", "list")[1].splitlines()
    assert head.split() == ["STATUS", "NAME", "ID", "STARTED", "(UTC)", "SECONDS", "INPUT"]
    run_id = line.split()[2]
    assert line.startswith(f"failed  notes  {run_id}  20")
    assert line.rstrip().endswith("…")
    lines = run(tmp_path, "runs", "get", run_id)[1].splitlines()
    assert lines[0] == f"✗ Run {run_id}  notes"
    tree = [line for line in lines if "──" in line]
    assert re.fullmatch(r"├── ✓ greet  text  \d+ ms", tree[0])
    assert re.fullmatch(r"└── ✗ look  load_memory  \d+ ms", tree[1])
    at = lines.index("greet  text")
    assert lines[at + 1 : at + 5] == ["    input", f"        {said}", "    output", f"        Hello {said}"]
    assert any(line.startswith("        The key '{{metadata.none}}' is incomplete") for line in lines)
    assert run(tmp_path / "none", "runs", "list")[1] == "No runs.\n"


@pytest.mark.parametrize("option", ["--owner", "--thread"])
def test_an_empty_owner_or_thread_is_not_nobody(tmp_path: Path, option: str) -> None:
    """A variable of a script that is not set must not lead to the conversation that runs without an owner share."""
    flow = file(tmp_path, "steps: [{step_type: text, template: Hello}]\n")
    code, out, err = run(tmp_path, "workflow", "run", flow, option, "")
    assert (code, out) == (2, "")
    assert f"`{option[2:]}` must have at least 1 characters" in err
