"""Apps, stores and definitions on the command line: files in and out, what fails and what does not fit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memwell import function
from memwell.surfaces.cli.main import app

from ..engines import Memory, located

ROOT = Path(__file__).resolve().parents[2]
function("reply")(lambda message: message)
NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}}


def run(home: Path, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["--home", located(home), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def written(folder: Path, value: Any, name: str = "given.json") -> str:
    (folder / name).write_bytes(value if isinstance(value, bytes) else msgspec.json.encode(value))
    return f"@{folder / name}"


# -- out and in ----------------------------------------------------------------------------------------------------------


def shell(script: str, folder: Path, home: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(folder), "MEMWELL_HOME": home}
    done = subprocess.run(["bash", "-euc", script], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_lines_of_the_guide_take_an_app_elsewhere(tmp_path: Path) -> None:
    guide = (ROOT / "docs/stores.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(memwell app export.*?)```", guide, re.DOTALL)
    export, dry, done = block.splitlines()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    with Memory(tmp_path / "here", worker=False) as memory:
        memory.app("shop").configure(description="Ein Café")
        memory.app("shop").stores.create("cart", access="session", retention="session", schema=NUMBERS)
        exported = memory.app("shop").export()
    shell(export, tmp_path, located(tmp_path / "here"))
    assert msgspec.json.decode((tmp_path / "shop.json").read_bytes()) == exported
    assert "create" in shell(dry, tmp_path, located(tmp_path / "there"))
    with Memory(tmp_path / "there", worker=False) as memory:
        assert memory.call("apps.list", {}).apps == []
    shell(done, tmp_path, located(tmp_path / "there"))
    assert "reuse" in shell(done, tmp_path, located(tmp_path / "there"))
    with Memory(tmp_path / "there", worker=False) as memory:
        assert memory.app("shop").export() == exported


def test_an_export_as_json_can_be_imported(tmp_path: Path) -> None:
    with Memory(tmp_path / "home", worker=False) as memory:
        memory.app("shop").stores.create("cart")
    _, out, _ = run(tmp_path / "home", "app", "export", "shop", "--json")
    assert list(msgspec.json.decode(out)) == ["document"]
    given = written(tmp_path, out.encode())
    code, out, _ = run(tmp_path / "home", "app", "import", "copy", "--document", given)
    assert (code, "cart" in out) == (0, True)


# -- files ---------------------------------------------------------------------------------------------------------------


def test_json_is_read_from_a_file(tmp_path: Path) -> None:
    """Also a record that no command line could hold."""
    home = tmp_path / "home"
    given = written(tmp_path, {"text": "x" * 300_000})
    assert run(home, "user", "set-record", "alice", "notes", "--value", given)[0] == 0
    assert (
        run(home, "store", "create", "shop", "--technical-name", "cart", "--schema", written(tmp_path, NUMBERS))[0] == 0
    )
    data = written(tmp_path, {"n": 1})
    assert run(home, "store", "set-content", "shop", "cart", "--user-id", "alice", "--data", data)[0] == 0
    with Memory(home, worker=False) as memory:
        assert len(memory.user("alice").records["notes"]["text"]) == 300_000
        assert memory.app("shop").stores.get("cart").schema == NUMBERS
        assert memory.app("shop").scope(user_id="alice").get_content("cart") == {"n": 1}


def test_a_file_that_cannot_be_read_as_json_is_named(tmp_path: Path) -> None:
    asked = ("user", "set-record", "alice", "notes", "--value")
    code, _, error = run(tmp_path / "home", *asked, written(tmp_path, b"{nonsense", "bad.json"))
    assert (code, "--value in " in error, "bad.json must be JSON" in error) == (2, True, True)
    code, _, error = run(tmp_path / "home", *asked, f"@{tmp_path}/none.json")
    assert (code, "none.json" in error) == (74, True)
    code, _, error = run(tmp_path / "home", *asked, "{nonsense")
    assert (code, "--value must be JSON" in error) == (2, True)


def test_help_says_how_json_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "JSON, FILE, or `-`" in CliRunner().invoke(app, ["user", "set-record", "--help"]).stdout
    assert "JSON, FILE, or `-`" in CliRunner().invoke(app, ["workflow", "run", "--help"]).stdout
    assert "clears it" in CliRunner().invoke(app, ["app", "configure", "--help"]).stdout


def test_the_inputs_of_a_workflow_may_be_a_file(tmp_path: Path) -> None:
    text = 'name: hi\ndefs:\n  say: {kind: task, action: send_text_message, inputs: {text: "=$input.name"}}\nflow:\n  - do: say\n'
    (tmp_path / "hi.yaml").write_text(text, encoding="utf-8")
    given = ("workflow", "run", str(tmp_path / "hi.yaml"), "--inputs")
    code, out, error = run(tmp_path / "home", *given, written(tmp_path, {"name": "Ada"}))
    assert (code, "Ada" in out) == (0, True), error
    code, _, error = run(tmp_path / "home", *given, written(tmp_path, [1]))
    assert (code, "--inputs must be a JSON object" in error) == (2, True)


# -- what is cleared, and what fails -------------------------------------------------------------------------------------


def test_an_empty_text_clears_what_may_be_cleared(tmp_path: Path) -> None:
    run(tmp_path, "app", "configure", "shop", "--function", "reply", "--description", "A shop")
    code, _, _ = run(tmp_path, "app", "configure", "shop", "--function", "")
    with Memory(tmp_path, worker=False) as memory:
        info = memory.app("shop").info()
        assert (code, info.function, info.description) == (0, None, "A shop")
        memory.definitions.create("Profile", ttl_seconds=60)
        assert run(tmp_path, "definition", "update", "profile", "--ttl-seconds", "90")[0] == 0
        assert memory.definitions.get("profile").ttl_seconds == 90
        assert run(tmp_path, "definition", "update", "profile", "--ttl-seconds", "")[0] == 0
        assert memory.definitions.get("profile").ttl_seconds is None
    code, _, error = run(tmp_path, "definition", "update", "profile", "--ttl-seconds", "soon")
    assert (code, "--ttl-seconds cannot be 'soon'" in error) == (2, True)


def test_a_message_that_could_not_be_answered_is_a_failure(tmp_path: Path) -> None:
    def broken(message: str) -> str:
        if message == "fail":
            raise ValueError("no")
        return message

    function(broken)
    with Memory(tmp_path, worker=False) as memory:
        memory.app("shop").configure(function="broken")
    assert run(tmp_path, "app", "execute", "shop", "--message", "hi")[0] == 0
    code, out, _ = run(tmp_path, "app", "execute", "shop", "--message", "fail")
    assert (code, "failed" in out) == (1, True)
    assert run(tmp_path, "app", "execute", "shop", "--message", "fail", "--json")[0] == 1
    _, listed, _ = run(tmp_path, "runs", "list", "--json")
    newest = msgspec.json.decode(listed)["runs"][0]
    assert newest["status"] == "failed"
    assert run(tmp_path, "runs", "get", newest["id"])[0] == 0, "reading of a failure is none"


# -- what does not fit ---------------------------------------------------------------------------------------------------


def test_records_that_a_schema_would_break_are_named(tmp_path: Path) -> None:
    strict = msgspec.json.encode({**NUMBERS, "required": ["n", "m"]}).decode()
    with Memory(tmp_path, worker=False) as memory:
        memory.definitions.create("Profile")
        for number in range(22):
            memory.definitions.bind(owner=f"user-{number:02}").update({"profile": {"n": number}})
        memory.definitions.create("Plan", scope="thread")
        memory.definitions.bind(["plan"], owner="ada", thread="t1").update({"plan": {"n": "x"}})
        memory.app("shop").stores.create("cart", strict=True, schema={"type": "object", "additionalProperties": True})
        memory.app("shop").scope(user_id="ada").set_content("cart", {"n": "secret-value"})
    code, _, error = run(tmp_path, "definition", "update", "profile", "--schema", strict)
    first, *lines = error.splitlines()
    assert (code, first.endswith("Change them first, or save it with --accept-breaking.")) == (5, True)
    assert (len(lines), lines[-1]) == (21, "… and 2 more")
    assert all(re.match(r"user-\d\d: .*m", line) for line in lines[:-1])
    code, _, error = run(tmp_path, "definition", "update", "plan", "--schema", strict)
    assert (code, "ada (thread/t1): " in error, "(and 1 more)" in error) == (5, True, True)
    numbers = msgspec.json.encode(NUMBERS).decode()
    code, _, error = run(tmp_path, "store", "update", "shop", "cart", "--schema", numbers)
    assert (code, "--accept-breaking" in error, "ada (app/shop): n: " in error) == (5, True, True)
    assert "secret-value" not in error
    assert run(tmp_path, "definition", "update", "profile", "--schema", strict, "--accept-breaking")[0] == 0


def test_a_value_that_does_not_fit_says_so(tmp_path: Path) -> None:
    with Memory(tmp_path, worker=False) as memory:
        memory.definitions.create("Profile", schema=NUMBERS)
        memory.app("shop").stores.create("cart", strict=True, schema=NUMBERS)
    memory_given = ("--memory", '{"profile": {"n": "x"}}')
    code, _, error = run(tmp_path, "definition", "update-memory", "--owner", "ada", *memory_given)
    first, *lines = error.splitlines()
    assert (code, first) == (2, "Error: `memory.profile`: The value does not fit its schema.")
    assert (len(lines), lines[0].startswith("n: ")) == (1, True)
    code, _, error = run(tmp_path, "store", "set-content", "shop", "cart", "--user-id", "ada", "--data", '{"n": "x"}')
    assert (code, error.splitlines()[0]) == (2, "Error: The value does not fit its schema.")
