"""The public interface is the accepted one: `make golden` accepts a change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engines()

HINTS = """
import inspect, sys, typing
import memwell

rooms = [name for name in sys.modules if name.startswith("memwell.facts.")]
modules = [module for name, module in sys.modules.items() if name.startswith("memwell.sdk.") and not "transport" in name]
classes = {c for m in modules for c in vars(m).values() if isinstance(c, type) and c.__module__ == m.__name__}
members = [(c, f"{c.__qualname__}.{name}", m) for c in classes for name, m in vars(c).items()]
functions = [(name, m.fget if isinstance(m, property) else m) for _, name, m in members]
functions = [(name, f) for name, f in functions if inspect.isfunction(f)]
for name, function in [*functions, *((c.__qualname__, c) for c in classes)]:
    try:
        typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        print(name, repr(error))
print(len(functions) > 300, rooms)
"""

ROOT = Path(__file__).resolve().parents[2]


def test_routes_statuses_errors_commands_and_signatures_are_the_accepted_ones() -> None:
    done = subprocess.run([sys.executable, "tools/golden.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout[:2000] + done.stderr[-2000:]


def test_the_types_of_all_signatures_resolve_before_a_memory_is_opened() -> None:
    done = subprocess.run([sys.executable, "-c", HINTS], capture_output=True, text=True)
    assert done.stdout == "True []\n", done.stdout[:4000] + done.stderr[-2000:]
