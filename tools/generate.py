"""Write the generated files, or check with `--check` that they are up to date.

The schema for PostgreSQL needs a server: `python -m tests.postgres.test_schema --write` writes it, and the tests check
it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import reference
import sdk_types
import unasync

ROOT = Path(__file__).resolve().parent.parent

GENERATED: dict[str, Callable[[], str]] = {
    **{f"src/memwell/sdk/_sync{part}.py": partial(unasync.generate, part) for part in unasync.PARTS},
    "src/memwell/sdk/types.py": sdk_types.generate,
    "docs/reference/rest.md": reference.render_rest,
    "docs/reference/cli.md": reference.render_cli,
    "docs/reference/errors.md": reference.render_errors,
    "docs/reference/settings.md": reference.render_settings,
}


def main() -> int:
    stale = []
    for name, generate in GENERATED.items():
        path, text = ROOT / name, format_source(name, generate())
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name} is {'stale: run `make format`' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


def format_source(name: str, text: str) -> str:
    if not name.endswith(".py"):
        return text
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


if __name__ == "__main__":
    sys.exit(main())
