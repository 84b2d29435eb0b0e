"""Write the two lock files: pinned packages with hashes, without an index address.

`requirements.lock` is for developers. `requirements-runtime.lock` is the part of it that a server with its extras and an
editable install need. Versions that still fit stay unchanged; `--upgrade` takes the newest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EVERYTHING, RUNTIME = ROOT / "requirements.lock", ROOT / "requirements-runtime.lock"
EXTRAS = ("files", "mcp", "postgres", "workflows")
BUILD = ("hatchling", "editables")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    dependencies = project["project"]["dependencies"]
    dev = project["dependency-groups"]["dev"]
    extras = [each for name in EXTRAS for each in project["project"]["optional-dependencies"][name]]
    build = [each for each in dev if each.startswith(BUILD)]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
        previous = () if "--upgrade" in sys.argv else ("--constraint", str(EVERYTHING))
        _write_lock(EVERYTHING, python, [*dependencies, *dev], previous)
        _write_lock(RUNTIME, python, [*dependencies, *extras, *build], ("--constraint", str(EVERYTHING)))


def _write_lock(path: Path, python: Path, packages: list[str], constraint: Sequence[str]) -> None:
    requirements = python.parent / "requirements.in"
    requirements.write_text("\n".join(packages) + "\n")
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    options += ["--quiet", "--no-emit-index-url", *constraint, str(requirements)]
    command = [str(python), "-m", "uv", "pip", "compile", *options]
    lock = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    path.write_text(lock)
    print(f"{path.name}: {lock.count('==')} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
