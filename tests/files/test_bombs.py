"""T12, G21: files made to exhaust their reader are read within the limits, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMORY = 256 * 2**20
WALL_S = 0.4  # that a bomb is stopped does not depend on when
SPOKEN = {  # those that have text, and whether all of it comes in time
    "a page that is drawn many times": True,
    "a table of contents that leads to itself": False,
    "one long text": True,
    "forms that draw the next one twice": True,
    "a page of a billion points": False,
    "letters a billion points apart": False,
    "25 MB of text": True,
    "JSON in JSON": False,
    "objects in JSON": True,
}


@pytest.mark.long
def test_no_file_takes_more_than_its_limits() -> None:
    """In a program of its own, so that the largest child is one that read a file."""
    command = [sys.executable, "-m", "tests.files.bombs", str(WALL_S), "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    said = json.loads(done.stdout)
    assert said["largest"] <= MEMORY
    assert len(said["blasts"]) >= 45
    for blast in said["blasts"]:
        assert blast["state"] in (("failed", "extracted") if blast["name"] in SPOKEN else ("failed", "empty")), blast
        assert blast["state"] == "failed" or blast["characters"] <= 2_000_000, blast
        assert "without a reason" not in (blast["reason"] or ""), blast
