"""Write requirements.lock: every package of the project and its tools, pinned with hashes, without an index address."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
        requirements = Path(folder) / "requirements.in"
        requirements.write_text("\n".join(wanted) + "\n")
        options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
        options += ["--quiet", "--no-emit-index-url", str(requirements)]
        command = [str(python), "-m", "uv", "pip", "compile", *options]
        locked = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (ROOT / "requirements.lock").write_text(locked)
    print(f"requirements.lock: {locked.count('==')} packages", file=sys.stderr)


if __name__ == "__main__":
    main()
