"""What the contract's tests share: an embedded memory on a frozen clock, and the command line on the same directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memwell.core.engine import Engine
from memwell.sdk.transport import LocalTransport
from memwell.surfaces.cli.main import app

from ..engines import Memory, located


def engine_of(memory: Memory) -> Engine:
    transport = memory._transport
    assert isinstance(transport, LocalTransport)
    return transport.engine


class Result:
    """What a command printed, and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on the embedded directory, as somebody who has not logged in anywhere."""
    monkeypatch.setenv("MEMWELL_PROFILE", str(tmp_path / "login.json"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str, stdin: str | None = None, home: bool = True) -> Result:
        where = ("--home", located(tmp_path / "home")) if home else ()
        result = CliRunner().invoke(app, [*where, *arguments], input=stdin)
        return Result(result.exit_code, result.stdout, result.stderr)

    return run
