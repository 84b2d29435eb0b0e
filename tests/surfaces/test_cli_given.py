"""What is given to commands: from the standard input, from files, and as lists."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import Memory
from memwell.surfaces.cli.main import app


def run(home: Path, *arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", str(home), *arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Memory(tmp_path, worker=False) as memory:
        memory.app("shop").stores.create("cart")
        memory.app("shop").scope(user_id="alice").set_content(
            "cart", {"lang": "pt", "seat": {"row": 12, "letter": "C"}}
        )
    return tmp_path


# -- standard input ------------------------------------------------------------------------------------------------------


def test_json_is_read_from_standard_input(tmp_path: Path) -> None:
    asked = ("user", "set-record", "alice", "profile", "--value", "@-")
    assert run(tmp_path, *asked, stdin='{"name": "Zoë"}')[0] == 0
    with Memory(tmp_path, worker=False) as memory:
        assert memory.user("alice").records["profile"] == {"name": "Zoë"}
    code, _, err = run(tmp_path, *asked, stdin="{nonsense")
    assert (code, "--value in <stdin> must be JSON" in err) == (2, True)
    code, _, err = run(tmp_path, *asked, stdin=b"\xff")
    assert (code, "<stdin> is not a text in UTF-8" in err) == (2, True)


def test_a_document_is_read_from_standard_input(tmp_path: Path) -> None:
    asked = ("workflow", "validate", "--document", "@-")
    assert run(tmp_path, *asked, stdin="name: hi\nsteps:\n  - {step_type: text, template: Hello}\n")[0] == 0
    code, out, _ = run(tmp_path, *asked, stdin="name: hi\nsteps:\n  - {step_type: tekst}\n")
    assert (code, "<stdin>:3:" in out) == (1, True)


def test_standard_input_is_read_once(tmp_path: Path) -> None:
    both = ("--inputs", "@-", "--document", "@-")
    code, _, err = run(tmp_path, "runs", "begin-document", *both, stdin="{}")
    assert (code, "can be read once" in err) == (2, True)


def test_a_file_from_standard_input_needs_a_name(tmp_path: Path) -> None:
    for asked in (("app", "files-upload", "shop", "s1", "@-"), ("app", "upload", "shop", "s1", "-")):
        code, _, err = run(tmp_path, *asked, stdin="some words")
        assert (code, "--filename is missing" in err) == (2, True)
        code, out, err = run(tmp_path, *asked, "--filename", "notes.txt", stdin="some words")
        assert (code, "notes.txt" in out) == (0, True), err
    with Memory(tmp_path, worker=False) as memory:
        files = memory.app("shop").session("s1").files
        assert [files.read(one.file_id) for one in files.list()] == [b"some words"]


def test_several_files_are_added_or_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    code, _, err = run(
        tmp_path / "home", "app", "upload", "shop", "s1", str(tmp_path / "a.txt"), str(tmp_path / "none")
    )
    assert (code, "none cannot be read" in err) == (2, True)
    with Memory(tmp_path / "home", worker=False) as memory:
        assert memory.app("shop").session("s1").files.list() == []


# -- templates -----------------------------------------------------------------------------------------------------------


def test_a_rendered_text_stands_alone(filled: Path) -> None:
    asked = ("app", "render", "shop", "--user-id", "alice", "--template")
    code, out, err = run(filled, *asked, "You speak {{memory.cart.lang}}{{memory.cart.tone}}.")
    assert (code, out) == (0, "You speak pt.\n")
    assert err == "Warning: `{{memory.cart.tone}}` has no value.\n"
    assert msgspec.json.decode(run(filled, *asked, "hi", "--json")[1])["missing"] == []


def test_a_template_is_read_from_a_file(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "tpl.txt").write_text("You speak {{memory.cart.lang}}.\n", encoding="utf-8")
    asked = ("app", "render", "shop", "--user-id", "alice", "--template")
    assert run(filled, *asked, f"@{tmp_path}/tpl.txt")[1] == "You speak pt.\n"
    assert run(filled, *asked, "@-", stdin="{{memory.cart.lang}}")[1] == "pt\n"
    assert run(filled, *asked, "@@{{memory.cart.lang}}")[1] == "@pt\n", "two `@` are one of the text"
    code, _, err = run(filled, *asked, "@none.txt")
    assert (code, "none.txt" in err) == (74, True)
    code, out, _ = run(filled, "hook", "preview", "--markdown-template", "@-", "--json", stdin="Hi {{user_id}}")
    assert (code, "Hi " in out) == (0, True)


def test_what_is_said_may_begin_with_an_at_sign(tmp_path: Path) -> None:
    assert run(tmp_path, "user", "add", "alice", "@bob is my brother")[0] == 0
    with Memory(tmp_path, worker=False) as memory:
        assert memory.user("alice").history()[0].content == "@bob is my brother"


# -- lists ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["profile,plan", " profile , plan ", '["profile", "plan"]'])
def test_a_list_of_texts_has_commas_or_is_json(tmp_path: Path, given: str) -> None:
    with Memory(tmp_path, worker=False) as memory:
        for name in ("Profile", "Plan", "Other"):
            memory.definitions.create(name)
        memory.definitions.bind(owner="u1").update({name: {"n": 1} for name in ("profile", "plan", "other")})
    code, out, err = run(tmp_path, "definition", "bind", "--owner", "u1", "--definitions", given, "--json")
    assert code == 0, err
    assert msgspec.json.decode(out)["values"] == {"profile": {"n": 1}, "plan": {"n": 1}}


@pytest.mark.parametrize("given", ["lang,seat.row", '{"lang": 1, "seat.row": 1}'])
def test_fields_to_return_are_named_with_commas_or_as_json(filled: Path, given: str) -> None:
    asked = ("store", "get-content", "shop", "cart", "--user-id", "alice", "--projections", given, "--json")
    code, out, err = run(filled, *asked)
    assert (code, msgspec.json.decode(out)["content"]) == (0, {"lang": "pt", "seat": {"row": 12}}), err
