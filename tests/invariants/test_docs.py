"""Documentation is part of the build: what it claims is run, and what exists is described."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from memwell.config import PREFIX, SETTINGS
from memwell.errors import tree
from memwell.registry import OPERATIONS
from memwell.surfaces.cli.main import app
from memwell.testing import ToolCall, ToolCalls

from ..cases import cases
from ..commands import Commands
from ..live import live
from ..scripted import ScriptedServer

pytestmark = pytest.mark.engines()

ROOT = Path(__file__).resolve().parents[2]
Shell = Callable[..., str]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `memwell` and `python` in it."""
    with Commands(tmp_path_factory.mktemp("commands")) as commands:
        yield commands.folder


@pytest.fixture
def shell(commands: Path) -> Shell:
    def run(script: str, folder: Path, **environment: str) -> str:
        path = f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": "200", **environment}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def blocks(file: str, language: str) -> list[tuple[str, str]]:
    """The code blocks of a document: what stands after the language, and the code."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return [(rest.strip(), code) for rest, code in re.findall(rf"```{language}([^\n]*)\n(.*?)```", text, re.DOTALL)]


def run_python(commands: Path, code: str, folder: Path, *options: str, **environment: str) -> str:
    env = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", **environment}
    command = [str(commands / "python"), *options, "-c", code]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


def test_the_python_of_the_readme_runs(tmp_path: Path, commands: Path) -> None:
    programs = [code for rest, code in blocks("README.md", "python") if not rest]
    assert len(programs) == 5
    printed = [run_python(commands, code, tmp_path) for code in programs]
    assert "I'm vegetarian and moved to Porto." in printed[0]
    assert printed[0].splitlines()[-1].endswith(" 0")
    assert "egetarian" in printed[0].split("Noted!")[1], "it was found, too, as it stands or as a fact"
    assert "<memory token=" in printed[0]
    assert printed[1] == "2 turns\nShips to the EU only\n"
    assert printed[2] == "['tool_call', 'decision']\n"
    assert "{'role': 'user', 'content': 'What should I see?'}]\ndone " in printed[3]
    assert "aisle seat" in printed[3]
    assert printed[4] == 'In the cart: ["A-17"]\n# Working Memory\n## Customer Profile\n- Preferred name: Ada\n'


STORES = """\
done John (en) wants: two tickets
{'items': ['two tickets']}
2 records are deleted, including the session meta
warranty.txt text/plain extracted
warranty.txt says: The warranty of the blender ends in March.
0 hits; False
"""


@pytest.mark.parametrize(
    ("file", "printed"),
    [
        (
            "docs/flows.md",
            "2 turns\n['Ships to the EU only']\n['The user is allergic to nuts.']\n2 turns are still there\n",
        ),
        ("docs/agent-log.md", 'tool_call {"tool": "query", "rows": 12}\ndecision Tell the customers.\n[]\n'),
        ("docs/tasks.md", "Hello Ada!\nHello Ada!\nHello there!\n{'customer_profile': {'preferred_name': 'Ada'"),
        ("docs/backup.md", "1 entries, erased again\n['bob']\n"),
        ("docs/search.md", "Orders are delivered within three days"),
        ("docs/mcp.md", "moved to Porto."),
        ("docs/models-llm.md", "In Porto."),
        ("docs/facts.md", "moved to Porto."),
        ("docs/hooks.md", "observation: 12 orders are late.\npriority_match\n"),
        ("docs/records.md", "{'seat': {'row': 14}}\nNone {}\n"),
        ("docs/stores.md", STORES),
        ("docs/definitions.md", '- Preferred name: Ada\n- Interests: ["billing","enterprise plan"]\n'),
        ("docs/banks.md", "1 would go\n1 left, of ['alice']\n0 traces left\n"),
        ("docs/workflows.md", "Good morning, Alice!\nHello Alice!\n[('done', 1), ('done', 2)]\n1 run  running\n"),
    ],
)
def test_the_python_of_the_guides_runs(tmp_path: Path, commands: Path, file: str, printed: str) -> None:
    output = ""
    with ScriptedServer(["The riverfront, and the bridge."]) as server:
        model = {"MEMWELL_LLM": f"openai:any@{server.url}"} if file == "docs/workflows.md" else {}
        for code in (code for rest, code in blocks(file, "python") if not rest):
            output += run_python(commands, code, tmp_path, "-W", "error", **model)
    assert printed in output


def test_the_commands_of_the_readme_run(tmp_path: Path, shell: Shell) -> None:
    scripts = [code for _, code in blocks("README.md", "sh")]
    commands = next(code for code in scripts if code.startswith("memwell user add"))
    output = shell(commands, tmp_path, MEMWELL_HOME=str(tmp_path / "home"))
    assert "I moved to Porto." in output
    assert "Session alice-42" in output
    (name, node), *_ = [(rest, code) for rest, code in blocks("README.md", "python") if rest]
    (tmp_path / name.removeprefix("file=")).write_text(node)
    run = next(code for code in scripts if code.startswith("memwell run"))
    assert "I see 1 recent turn(s) and 0 relevant memorie(s)." in shell(
        run, tmp_path, MEMWELL_HOME=str(tmp_path / "home")
    )


def test_the_curl_of_the_readme_runs(tmp_path: Path, shell: Shell) -> None:
    script = next(code for _, code in blocks("README.md", "sh") if "curl" in code)
    with live(tmp_path / "server", worker=False) as server:
        script = script.replace("http://127.0.0.1:8420", server.url).replace("mw_…", server.key)
        output = shell(script, tmp_path)
    assert output.count("moved to Porto.") == 2


FIRST = "python -c 'import json, sys; print(next(iter(json.load(sys.stdin).values()))[0][\"id\"])'"
"""The id of the first of what a command or a route lists as JSON: what a reader copies by hand."""


COMMANDS = {
    "docs/banks.md": ["prefers aisle seats", "No threshold is exceeded", "scheduled", "dry_run  true"],
    "docs/workflows.md": ["Hello again", "Hello world", "needs_model  true"],
    "docs/definitions.md": ["customer_profile", "- Language: pt"],
    "docs/records.md": ['value       {"language":"pt","seat":{"row":14}}', '{"seat":{"row":14}}'],
    "docs/stores.md": ["The user speaks en.", 'content     {"preferences":{"language":"en"}}'],
    "docs/backup.md": [
        "is complete",
        "default: 2 entries restored.",
        "I moved to Porto.",
        "2 entries restored in place of the old ones.",
    ],
    "docs/flows.md": ["1 turn(s), 0 memorie(s)", "Session alice-43"],
    "docs/operations.md": ["revoked_at", "1 kept, 0 held", "memory   ", "all of it can be read", "flows.end"],
}
"""What the commands of a guide print."""
CURLS = {
    "docs/banks.md": ['"matches":[{"content_title":"prefers aisle seats"', '"dry_run":true'],
    "docs/workflows.md": ["event: step\n", '"status":"done"', '"output":"Hello world"'],
    "docs/records.md": ["etag: ", '"code":"stale"'],
    "docs/flows.md": ['"content":"Where is my order?"', '"seq":1'],
    "docs/agent-log.md": ['{"data":[{"entry_type":"observation","content":"12 orders are late."', '"last_seen_at"'],
    "docs/stores.md": [
        '"content":{"preferences":{"language":"en"}}',
        '"deleted":true',
        '"content":"The warranty of the blender ends in March."',
        '"download_url":"http://127.0.0.1:',
    ],
    "docs/definitions.md": ['"slug":"customer_profile"', "- Language: pt"],
}
"""What the requests of a guide answer."""


@pytest.mark.parametrize("file", COMMANDS)
def test_the_commands_of_the_guides_run(tmp_path: Path, file: str, shell: Shell) -> None:
    script = "\n".join(code for rest, code in blocks(file, "sh") if code.startswith("memwell") and not rest)
    for rest, code in blocks(file, "python"):
        if rest.startswith("file="):
            (tmp_path / rest.removeprefix("file=")).write_text(code)
    for name, command in (("WORKFLOW", "workflow"), ("RUN", "runs")):
        script = script.replace(f"{name}=…", f"{name}=$(memwell {command} list --json | {FIRST})")
    for name, command in (("KEY", "key"), ("JOB", "job")):
        script = script.replace(f"${name} ", f"$(memwell {command} list --json | {FIRST}) ")
    output = shell(script.replace("examples/", f"{ROOT}/examples/"), tmp_path, MEMWELL_HOME=str(tmp_path / "home"))
    assert [text for text in COMMANDS[file] if text not in output] == []


@pytest.mark.parametrize("file", CURLS)
def test_the_curl_of_the_guides_runs(tmp_path: Path, file: str, shell: Shell) -> None:
    script = next(code for _, code in blocks(file, "sh") if code.startswith("curl"))
    for name, path in (("BANK", "memory_banks"), ("WORKFLOW", "workflows"), ("RUN", "runs")):
        listed = f'curl http://127.0.0.1:8420/v1/{path} -H "Authorization: Bearer $MEMWELL_API_KEY"'
        script = script.replace(f"{name}=…", f"{name}=$({listed} | {FIRST})")
    with live(tmp_path / "server", worker=False) as server:
        script = script.replace("http://127.0.0.1:8420", server.url)
        output = shell(script, tmp_path, MEMWELL_API_KEY=server.key)
    assert [text for text in CURLS[file] if text not in output] == []


def test_every_command_of_the_guides_is_run() -> None:
    """A block that cannot run here, because it needs a model or a database, is marked `no-run`."""
    known = {("memwell", file) for file in COMMANDS} | {("curl", file) for file in CURLS}
    found = {
        (kind, f"docs/{path.name}")
        for path in (ROOT / "docs").glob("*.md")
        if path.name not in ("inspect.md", "tasks.md")  # they have tests of their own
        for rest, code in blocks(f"docs/{path.name}", "sh")
        for kind in ("memwell", "curl")
        if re.search(rf"^{kind} ", code, re.MULTILINE) and not rest
    }
    assert found == known


def test_every_command_that_is_named_exists() -> None:
    """In a sentence, too, with its options."""
    wrong = []
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples/README.md", *(ROOT / "docs").glob("*.md")):
        text = re.sub(r"\s+", " ", re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL))
        wrong += [f"{path.name}: {said}" for said in re.findall(r"`(memwell [^`]+)`", text) if not _is_command(said)]
    assert wrong == []


def _is_command(said: str) -> bool:
    command: Any = typer.main.get_command(app)
    words = re.sub(r"[(…[].*|\|.*", "", said).split()[1:]
    while words and hasattr(command, "commands"):
        if words[0].startswith("--"):  # of all commands, such as `--home`
            words = words[2:]
        elif words[0].isupper():  # stands for any command
            return True
        elif words[0] in command.commands:
            command = command.commands[words.pop(0)]
        else:
            return False
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return all(word.split("=")[0] in options for word in words if word.startswith("-") and word != "-")


def test_the_recorded_run_of_the_readme_is_what_is_printed(tmp_path: Path, shell: Shell) -> None:
    (recorded,) = (code for _, code in blocks("README.md", "text") if code.startswith("$ memwell workflow run"))
    commands = [line.removeprefix("$ ") for line in recorded.splitlines() if line.startswith("$ ")]
    replies = re.findall(r"\n\n(.+)\n", recorded)
    assert len(commands) == len(replies) == 2
    with ScriptedServer(replies) as server:
        model = {"MEMWELL_LLM": f"openai:scripted@{server.url}", "MEMWELL_HOME": str(tmp_path / "home")}
        piped = [f"{command} 2>&1" for command in commands]  # without a terminal, the tree goes there
        output = shell("\n".join([f"cd {ROOT}", *piped]), tmp_path, **model)
        asked = [message["content"] for message in server.requests[1].body["messages"]]
    shown = "\n".join(line for line in recorded.splitlines() if not line.startswith("$ "))
    assert _lines(output) == _lines(shown)
    assert replies[0] in asked, "the second time, the model is told what was said the first time"


def _lines(tree: str) -> list[str]:
    """What a tree of steps says, without times and branches: which of two steps side by side begins first is left to chance."""
    return sorted(re.sub(r"[─├└│]|\d+ ms", " ", line).strip() for line in tree.splitlines() if line)


def test_the_walk_through_a_session_runs(tmp_path: Path, shell: Shell) -> None:
    output = shell("\n".join(code for _, code in blocks("docs/inspect.md", "sh")), tmp_path)
    assert "Session alice-42 is deleted (entries 2, facts 1, jobs 1, sessions 1; 0 traces left)." in output
    assert "0 turns and memories added, 3 were there already." in output
    assert output.rstrip().endswith("No flow has memory yet.")


EXAMPLES = {
    "support_bot.py": "4 turns, ended",
    "personal_assistant.py": "traces left: 0",
    "recall.py": "not found because of the filter",
    "agent_run.py": "3. decision: Ask for a new export.",
    "async_server.py": "10 turns, numbered [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
    "memory_stores.py": "imported: ['cart', 'customerProfile', 'featureFlags', 'tempProcessingData', 'userPrefs']",
    "working_memory.py": "greeting ada: Hello Countess!",
}
"""The programs in `examples/`, and a text that each prints."""
LIBRARIES = {"chat_node.py", "shop_functions.py"}
"""Modules in `examples/` that commands load."""
PREFERENCE = "I prefer an aisle seat."


@pytest.mark.parametrize(("name", "printed"), EXAMPLES.items())
def test_the_examples_run(name: str, printed: str, tmp_path: Path, shell: Shell) -> None:
    """As the page of the examples says it: from the root of the repository, each in a directory of its own."""
    assert printed in shell(f"cd {ROOT}\npython examples/{name}", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_the_examples_keeps_its_word(tmp_path: Path, shell: Shell) -> None:
    """Everything there is listed, and its commands run as they are printed."""
    folder = ROOT / "examples"
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert {file.name for file in folder.glob("*.py")} == EXAMPLES.keys() | LIBRARIES
    assert [file.name for file in folder.iterdir() if f"({file.name}" not in page and file.name[0] not in "R_."] == []
    commands = re.findall(r"`((?:python|memwell) [^`]+)`", page)
    output = shell("\n".join([f"cd {ROOT}", *commands]), tmp_path)
    assert len(commands) == 3
    for printed in ("4 turns, ended", '[{"role":"user","content":"Hello"}]', "I see 1 recent turn(s)"):
        assert printed in output
    assert [one.name for one in tmp_path.iterdir()] == [".memwell"]


def test_every_workflow_of_the_examples_runs(tmp_path: Path, shell: Shell) -> None:
    """One after the other in one directory, from the command line. Those that need a model do so, and no others."""
    table = re.findall(
        r"^\| `(\w+\.yaml)` \| .* \| (yes|no) \|$", (ROOT / "docs/workflows.md").read_text(), re.MULTILINE
    )
    files = {file.name for file in (ROOT / "examples" / "workflows").glob("*.yaml")}
    assert files == {name for name, _ in table} | {"support_agent.yaml"}
    assert len(table) == 14, "the number is in the page of the examples, in the guide and in the README"
    options = f'--input "{PREFERENCE}" --metadata user_id=alice --metadata project_id=7'
    with ScriptedServer(["Noted."]) as server:
        model = {"MEMWELL_LLM": f"openai:any@{server.url}"}
        for name, needs_model in sorted(table, key=lambda one: one[1]):
            command = f"cd {ROOT} && memwell workflow run examples/workflows/{name} {options}"
            if needs_model == "yes":
                assert "Set MEMWELL_LLM" in shell(f"({command} || true) 2>&1", tmp_path)
            output = shell(f"{command} 2>&1", tmp_path, **(model if needs_model == "yes" else {}))
            assert "✗" not in output, name
    assert "Noted." in shell("memwell bank load chats alice", tmp_path)


def test_the_agent_of_the_guide_runs(tmp_path: Path, shell: Shell) -> None:
    """It looks up an order, remembers a name, and answers."""
    script = next(code for rest, code in blocks("docs/tasks.md", "sh") if not rest)
    update = {"memory": {"customer_profile": {"preferred_name": "Ada"}}}
    calls = ToolCalls((ToolCall("orders", {"order": "A-17"}), ToolCall("update_memory", update)))
    with ScriptedServer([calls, "Your order was shipped yesterday, Ada."]) as server:
        output = shell(f"cd {ROOT}\n{script.replace('openai:gpt-5-mini', f'openai:any@{server.url}')}", tmp_path)
        assert "shipped yesterday" in str(server.requests[1].body)
    assert "Your order was shipped yesterday, Ada." in output
    assert "u1" in output.splitlines()[-1]


@cases("name", OPERATIONS)
def test_every_operation_is_described(name: str) -> None:
    assert f"## {name}\n" in (ROOT / "docs/reference/rest.md").read_text()
    operation = OPERATIONS[name]
    assert operation.summary
    assert operation.request.__doc__


def test_every_setting_error_and_command_is_described() -> None:
    settings = (ROOT / "docs/reference/settings.md").read_text()
    assert all(f"`{PREFIX}{setting.name.upper()}`" in settings for setting in SETTINGS)
    assert len(SETTINGS) <= 23
    errors = (ROOT / "docs/reference/errors.md").read_text()
    assert all(f"`{error.__name__}`" in errors for error in tree())
    commands = (ROOT / "docs/reference/cli.md").read_text()
    named = (
        "serve",
        "worker",
        "login",
        "watch",
        "run",
        "doctor",
        "ls",
        "show",
        "end",
        "rm",
        "export",
        "import",
        "memory ls",
        "backup",
        "restore",
    )
    for command in named:
        assert f"## memwell {command}\n" in commands


def test_every_error_has_a_code_of_its_own_and_a_message() -> None:
    codes = [error.code for error in tree()]
    assert len(codes) == len(set(codes))
    for error in tree():
        assert error().message
        assert 400 <= error.status < 600
        assert 0 < error.exit_code < 128


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_contract_lists_every_number_that_a_test_names() -> None:
    contract = (ROOT / "docs/contract.md").read_text(encoding="utf-8")
    numbers = set(re.findall(r"\*\*([SC]\d+(?:\.\d+)?)\*\*", contract))
    for file in (ROOT / "tests").rglob("*.py"):
        for named in re.findall(r"\b([SC]\d{1,2}\.\d{1,3}|C\d{1,2})\b", file.read_text(encoding="utf-8")):
            assert named in numbers or not named.startswith("S"), f"{file.name} names {named}"


DUE = [f"S0.{n}" for n in range(1, 59)] + [f"S1.{n}" for n in range(1, 70)]
DUE += [f"S4.{n}" for n in [*range(1, 15), 16]]


@cases("number", DUE)
def test_what_is_built_is_named_by_a_test(number: str) -> None:
    tests = "".join(file.read_text() for file in (ROOT / "tests" / "contract").glob("*.py"))
    assert re.search(rf"\b{re.escape(number)}\b", tests)


def test_no_address_of_an_index_and_no_path_of_a_machine_is_in_the_repository() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    signs = (
        "--index" + "-url",
        "--extra-index" + "-url",
        "--find" + "-links",
        "pypi" + ".org",
        "python" + "hosted",
        "/ro" + "ot/",
    )
    forbidden = re.compile("|".join([*map(re.escape, signs), r"/home/\w+/"]))
    for name in files:
        path = ROOT / name
        if path.is_file():
            assert not forbidden.search(path.read_text(encoding="utf-8", errors="replace")), name


def test_the_bill_of_materials_names_every_locked_package() -> None:
    """T23: with its version and its hashes."""
    lock = (ROOT / "requirements-runtime.lock").read_text()
    made = subprocess.run(
        [sys.executable, "tools/sbom.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    components = json.loads(made)["components"]
    assert {f"{one['name']}=={one['version']}" for one in components} == set(
        re.findall(r"^[\w.-]+==[^\s;]+", lock, re.M)
    )
    assert sum(len(one["hashes"]) for one in components) == lock.count("--hash=sha256:")
    assert all(one["hashes"] for one in components)
