"""docs/architecture.md is true: what it says about adding an operation and a dialect is done on a copy, and works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import memwell

pytestmark = pytest.mark.engines()

SOURCE = Path(memwell.__file__).parent
GUIDE = SOURCE.parent.parent / "docs" / "architecture.md"
PROGRAM = """
from memwell import Memory
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.main import app
from memwell.surfaces.mcp.tools import build_tools
from memwell.surfaces.rest.openapi import build_document
import sys
from typer.testing import CliRunner

with Memory(sys.argv[1], worker=False) as memory:
    memory.log("abc-123").append(entry_type="observation", content="The door is open.")
    print(memory.call("log.count", {"session": "abc-123"}).entries)
    print(memory.call("notes.add", {"topic": "garden", "content": "Water the tomatoes."}).notes)
    print(memory.call("notes.list", {"topic": "garden"}).notes)
print("/v1/notes/{topic}" in build_document(OPERATIONS.values())["paths"], "notes_add" in build_tools("all"))
done = CliRunner().invoke(app, ["--home", sys.argv[1], "note", "list", "garden", "--json"])
print(done.exit_code, "Water the tomatoes." in done.output)
"""


def blocks() -> dict[str, str]:
    """The code blocks of the guide, by the file that their first line names."""
    found = re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return dict(found)


def insert(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_an_operation_and_a_dialect_are_added_as_the_guide_says(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "memwell"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    guide = blocks()
    with (copy / "timelines" / "agent_log.py").open("a", encoding="utf-8") as file:
        file.write("\n\n" + guide["src/memwell/timelines/agent_log.py"])
    (copy / "notes").mkdir()
    (copy / "notes" / "__init__.py").write_text('"""Notes."""\n')
    (copy / "notes" / "notes.py").write_text(guide["src/memwell/notes/notes.py"], encoding="utf-8")
    insert(copy / "registry.py", "ROOMS = (", 'ROOMS = (\n    "notes.notes",')
    insert(copy / "surfaces/cli/generated.py", "NOUNS = {", 'NOUNS = {\n    "notes": ("note", "Notes by topic."),')
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "home")]
    done = subprocess.run(command, env={"PYTHONPATH": str(copy.parent)}, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [
        "1",
        "['Water the tomatoes.']",
        "['Water the tomatoes.']",
        "True True",
        "0 True",
    ], done.stderr[-2000:]
