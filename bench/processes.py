"""Child processes of measurements."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

START_S = 20.0
STOP_S = 15.0
RUN_S = 120.0
ROOT = Path(__file__).resolve().parent.parent
MEMWELL = str(Path(sys.executable).with_name("memwell"))


def python(bytecode: Path, *arguments: str) -> str:
    """Run a fresh interpreter and return what it prints.

    It writes compiled modules to a separate folder, like an installed package, regardless of the environment.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**kept, "PYTHONPYCACHEPREFIX": str(bytecode)},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=RUN_S,
    ).stdout


@contextmanager
def serving(*arguments: str, port: int, **settings: str) -> Iterator[None]:
    """Run a server in its own process. Enter when it accepts connections."""
    with TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *arguments], env={**os.environ, **settings}, cwd=ROOT, stdout=log, stderr=log
        )
        try:
            _wait_for(process, port, log)
            yield
        finally:
            _end(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], port: int, log: IO[bytes]) -> None:
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    log.seek(0)
    raise RuntimeError(f"the server did not start: {log.read()[-2000:].decode(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
