"""Print a bill of materials (CycloneDX 1.5) of what a server installs: locked packages with versions, hashes and licences.

    python tools/sbom.py [requirements-runtime.lock] > sbom.json

Licences are read from the packages that are installed here.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+))?", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def main() -> None:
    lock = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "requirements-runtime.lock"
    print(json.dumps(build_bill(lock.read_text()), indent=2))


def build_bill(lock: str) -> dict[str, Any]:
    """Build the bill of materials of a lock file."""
    found = list(_PACKAGE.finditer(lock))
    ends = [each.start() for each in found[1:]] + [len(lock)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "memwell"}},
        "components": [_describe(each, lock[each.end() : end]) for each, end in zip(found, ends, strict=True)],
    }


def _describe(package: re.Match[str], rest: str) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    described: dict[str, Any] = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        "hashes": [{"alg": "SHA-256", "content": one} for one in _HASH.findall(rest)],
    }
    if licence := _find_licence(name):
        described["licenses"] = [{"license": {"name": licence}}]
    if package["marker"]:
        described["properties"] = [{"name": "marker", "value": package["marker"].strip()}]
    return described


def _find_licence(name: str) -> str | None:
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    classifiers = [one.rsplit(" :: ", 1)[1] for one in about.get_all("Classifier", []) if one.startswith("License :: ")]
    stated = [*about.get_all("License-Expression", []), "; ".join(classifiers), *about.get_all("License", [])]
    return next((one.split("\n")[0] for one in stated if one), None)


if __name__ == "__main__":
    main()
