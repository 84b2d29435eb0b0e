"""The shape of the code: imports go one way, names are public on purpose, the wheel stands alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import memwell

pytestmark = pytest.mark.engines()

SOURCE = Path(memwell.__file__).parent

RINGS = [
    ["errors", "version", "clock", "ids", "typed", "config"],
    ["model", "text"],
    ["sandbox"],
    ["storage", "models", "extract"],
    ["jobs"],
    ["search"],
    ["erasure"],
    ["core"],
    ["screening", "admin"],
    ["records"],
    ["facts"],
    ["timelines", "banks", "files"],
    ["context"],
    ["workflows"],
    ["backup"],
    ["registry"],
    ["sdk"],
    ["node"],
    ["testing"],
    ["surfaces"],
    ["__init__", "__main__"],
]
RING_OF = {name: number for number, ring in enumerate(RINGS) for name in ring}


def imports(file: Path) -> set[str]:
    """The parts of the package that a file imports."""
    parts = file.relative_to(SOURCE).with_suffix("").parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = parts[: len(parts) - node.level]
            path = [*base, *(node.module or "").split(".")] if node.module else list(base)
            found |= {path[0]} if path and path[0] else {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memwell"):
            found.add((node.module or "").split(".")[1])
    return found


def test_imports_go_one_way() -> None:
    wrong = []
    for file in sorted(SOURCE.rglob("*.py")):
        part = file.relative_to(SOURCE).with_suffix("").parts[0]
        wrong += [f"{file}: {other}" for other in imports(file) - {part} if RING_OF[other] > RING_OF[part]]
    assert wrong == []


def test_every_part_has_its_ring() -> None:
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts == set(RING_OF)


def test_the_public_names_are_these() -> None:
    assert all(hasattr(memwell, name) for name in memwell.__all__)
    public = {name for name in vars(memwell) if not name.startswith("_")}
    modules = {name for name in public if isinstance(getattr(memwell, name), type(memwell))}
    assert public - modules == set(memwell.__all__) - {"__version__"}


def test_no_tenant_parameter_above_storage() -> None:
    """The first wall: a function that takes a tenant can be given the wrong one."""
    allowed = {"storage", "jobs", "config", "sdk", "surfaces", "testing", "model", "backup"}
    for file in sorted(SOURCE.rglob("*.py")):
        part = file.relative_to(SOURCE).with_suffix("").parts[0]
        if part in allowed or file.name in ("admin.py", "engine.py", "access.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
                assert "tenant" not in names, f"{file.name}:{node.lineno} {node.name}"


def test_functions_and_files_stay_small() -> None:
    sizes: list[int] = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.name == "_sync.py":
            continue
        text = file.read_text(encoding="utf-8")
        assert text.count("\n") <= 700, f"{file.name} is too long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = (node.end_lineno or 0) - node.lineno + 1
                sizes.append(size)
                assert size <= 80, f"{file.name}:{node.lineno} {node.name} is too long"
    assert sorted(sizes)[len(sizes) // 2] <= 10


def test_only_config_reads_the_environment() -> None:
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if re.search(r"\benviron\b", text):
            assert file.name in ("config.py", "gateway.py", "target.py"), file


def test_version_is_the_same_everywhere() -> None:
    import tomllib

    project = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == memwell.__version__
    assert f"## {memwell.__version__}" in (SOURCE.parent.parent / "CHANGELOG.md").read_text()


@pytest.mark.long
def test_the_wheel_works_alone(tmp_path: Path) -> None:
    """Built, installed elsewhere, and used in four lines."""
    root = SOURCE.parent.parent
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=root, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    target = tmp_path / "elsewhere"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(install, check=True)
    program = (
        "from memwell import Memory\n"
        f"memory = Memory({str(tmp_path / 'data')!r})\n"
        "memory.user('alice').add('I live in Porto.')\n"
        "print(memory.user('alice').history()[0].content)\n"
        "import memwell; print(memwell.__file__)\n"
    )
    environment = {"PYTHONPATH": str(target), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    said, where = done.stdout.splitlines()
    assert said == "I live in Porto."
    assert where.startswith(str(target))


def test_types_are_learnt_in_one_place() -> None:
    """What msgspec is told of by two threads at once brings the process down. The one that reads files has one thread, and loads
    nothing of ours."""
    untyped = re.compile(r"msgspec\.convert\(|json\.decode\([^()]*\btype=|json\.Decoder\((?!\)|float_hook)")
    found = [file.name for file in SOURCE.rglob("*.py") if untyped.search(file.read_text(encoding="utf-8"))]
    assert sorted(found) == ["text_reader.py", "typed.py"]


RACE = """
from __future__ import annotations
import sys, threading
from typing import Annotated
import msgspec
from memwell import typed

sys.setswitchinterval(1e-6)
FIELDS = "".join(f"    field{n}: Annotated[str, msgspec.Meta(min_length=1)] | None = None\\n" for n in range(20))
for number in range(100):
    exec("from __future__ import annotations\\nclass Made(msgspec.Struct, kw_only=True):\\n" + FIELDS)
    start = threading.Barrier(8)

    def work(kind=Made):
        start.wait()
        for _ in range(3):
            typed.convert({"field0": "a", "field19": "b"}, kind)
            typed.decode(b'{"field3": "c"}', kind)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("survived")
"""


def test_threads_that_use_a_type_first_do_not_bring_the_process_down() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "survived"), done.stderr[-500:]


def test_importing_brings_nothing_heavy() -> None:
    """What only search, PostgreSQL or async callers need comes when it is first used."""
    program = "import sys, memwell\nprint({'asyncio'} & set(sys.modules))\n"
    program += "import memwell.surfaces.cli.main\nprint({'numpy', 'psycopg', 'mcp'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "set()"]
