"""The public interface is the accepted one: `make golden` accepts a change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines()

ROOT = Path(__file__).resolve().parents[2]


def test_routes_statuses_errors_commands_and_signatures_are_the_accepted_ones() -> None:
    done = subprocess.run([sys.executable, "tools/golden.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout[:2000] + done.stderr[-2000:]
