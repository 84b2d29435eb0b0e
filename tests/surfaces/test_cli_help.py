"""Help of every command; only the commands that are needed are built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from memwell.core.operation import Operation
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.generated import NOUNS
from memwell.surfaces.cli.main import app

REFERENCE = (Path(__file__).resolve().parents[2] / "docs/reference/cli.md").read_text(encoding="utf-8")


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield name, command
    for child in children:
        yield from commands(f"{name} {child}", children[child])


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"}).stdout


def test_every_argument_and_option_says_what_it_is_for() -> None:
    every = [
        (name, one) for name, command in commands("memwell", typer.main.get_command(app)) for one in command.params
    ]
    assert len(every) > 900
    assert [f"{name} {one.name}" for name, one in every if not (one.help or "").strip()] == []


@pytest.mark.parametrize(
    ("command", "default"),
    [("user set-record", "replace"), ("store set-content", "merge"), ("app sessions-update", "merge")],
)
def test_choices_and_defaults_are_said(command: str, default: str) -> None:
    (mode,) = (number for number, line in enumerate(help_of(*command.split()).splitlines()) if "--mode" in line)
    said = " ".join(help_of(*command.split()).splitlines()[mode : mode + 3])
    assert "[merge|replace]" in said
    assert f"[default: {default}]" in said
    section = REFERENCE.split(f"## memwell {command}\n")[1].split("\n## ")[0]
    (line,) = (line for line in section.splitlines() if "--mode" in line)
    assert r"`--mode [merge\|replace]`" in line
    assert line.endswith(f"| default `{default}` |")


def test_required_fields_are_marked() -> None:
    assert "[required]" in help_of("flow", "append").split("--role")[1].split("--")[0]
    section = REFERENCE.split("## memwell user set-record\n")[1].split("\n## ")[0]
    assert [line.split("`")[1] for line in section.splitlines() if line.endswith("| required |")] == [
        "USER",
        "RECORD",
        "VALUE",
    ]


def alone(operation: Operation) -> list[str]:
    """What must be given besides where it is, if that is one thing and nothing is said; or a question that can be asked."""
    fields = msgspec.structs.fields(operation.request)
    others = [one.name for one in fields if one.required and one.name not in operation.path_fields]
    says = operation.writes and any(one.name == "content" for one in fields)
    questions = [one.name for one in fields if one.name == "query"] if not others else []
    return others if len(others) == 1 and not says else questions


def test_further_required_fields_are_the_last_argument_or_options() -> None:
    group: Any = typer.main.get_command(app)
    assert len([one for one in OPERATIONS.values() if alone(one)]) > 25
    for operation in OPERATIONS.values():
        made = group.commands[NOUNS[operation.group][0]].commands[operation.command].params
        arguments = [one.metavar for one in made if one.param_type_name == "argument"]
        expected = [*operation.path_fields, *alone(operation)]
        if "CONTENT" not in arguments:
            assert arguments == [name.upper() for name in expected], operation.name
        options = {name for one in made for name in one.opts}
        assert {f"--{name.replace('_', '-')}" for name in alone(operation)} <= options, operation.name


def test_required_fields_are_described_once() -> None:
    arguments, options = help_of("store", "create").split("Options")
    assert "store create [OPTIONS] {APP} [TECHNICAL_NAME]" in arguments
    described = arguments.split("│      TECHNICAL_NAME")[1]
    assert "which cannot change" in described
    assert "Required, here or as --technical-name." in " ".join(described.replace("│", " ").split())
    assert "--technical-name" not in options
    assert "which cannot change" not in options


def test_help_repeats_nothing() -> None:
    """A sentence that says more than what the field is stands once in the help of a command."""
    repeated = []
    for name, command in commands("memwell", typer.main.get_command(app)):
        texts = [one.help.split(". ") for one in command.params if one.help and not getattr(one, "hidden", False)]
        further = [sentence.rstrip(".") for text in texts for sentence in text[1:]]
        repeated += [(name, one) for one in set(further) if further.count(one) > 1 and one != "May be repeated"]
    assert repeated == []
    assert help_of("flow", "append").count("An id has 1 to 256 characters") == 1
    assert "│ *  --role                  [user|assistant|tool|system]  The speaker. " in help_of("flow", "append")


@pytest.mark.parametrize("command", ["execute", "sessions-update", "files-upload"])
def test_metadata_of_a_session_is_said_to_be_its_own(command: str) -> None:
    said = " ".join(help_of("app", command).replace("│", " ").split())
    assert "--metadata -m JSON The session's metadata" in said
    assert "stored with the entry" not in said


def test_flags_say_which_way_they_are() -> None:
    assert "[default: no-explain]" in help_of("flow", "search")
    assert "[default: wait]" in help_of("app", "execute")
    assert "| default `--no-explain` |" in REFERENCE
    assert "| default `--wait` |" in REFERENCE


def test_help_says_how_things_are_given() -> None:
    assert "JSON, FILE, or `-` for standard input." in help_of("user", "set-record")
    assert "`@@…`: a text that begins with `@`" in help_of("app", "render")
    assert "`one,two`" in help_of("definition", "bind")
    assert "`name=text`, JSON (for numbers)" in " ".join(help_of("user", "add").replace("│", " ").split())
    assert "The text itself, even after `@`" in help_of("bank", "add")


def test_commands_are_made_when_they_are_called_for() -> None:
    group: Any = typer.main.get_command(app)
    users = group.commands["user"].commands
    assert list(users) == [one.command for one in OPERATIONS.values() if one.group == "users"]
    assert all(isinstance(one, Operation) for one in users.data.values())
    assert users["records"] is users["records"]
    assert [name for name, one in users.data.items() if not isinstance(one, Operation)] == ["records"]


def test_every_operation_has_its_command() -> None:
    group: Any = typer.main.get_command(app)
    for operation in OPERATIONS.values():
        assert operation.command in group.commands[NOUNS[operation.group][0]].commands


def test_a_command_that_there_is_not_is_an_error_with_advice() -> None:
    result = CliRunner().invoke(app, ["user", "recrods"])
    assert (result.exit_code, "Did you mean 'records'" in result.stderr) == (2, True)
