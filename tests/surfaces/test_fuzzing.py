"""Schemathesis finds no crash, no answer beside its schema and no leak between tenants. `make trials` looks 50 times as long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ..engines import located

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.every_engine
def test_two_thousand_requests_find_nothing(tmp_path: Path) -> None:
    """In a process of its own: schemathesis changes the settings of hypothesis."""
    limits = ["--requests", "2000", "--seconds", "240", "--store", located(tmp_path / "home")]
    command = [sys.executable, "-m", "tests.fuzzing", *limits]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stdout or done.stderr
    report = msgspec.json.decode(done.stdout)
    assert report["requests"] >= 2000
    found = [report[name] for name in ("5xx", "violations", "foreign_canaries", "problems")]
    assert found == [{}, {}, {}, {}]
    assert report["statuses"]["200"] > 200, "many requests reach their operations"
    assert report["own_canaries"] > 20, "there is something to leak"
