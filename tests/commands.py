"""`memwell` and `python` for shell scripts, forked from a process that has imported everything.

A command starts within milliseconds instead of a second. `Commands` puts two small programs into a folder; each hands its
arguments, folder, environment and standard streams to that process, and ends with the code of the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Self

from memwell.surfaces.cli.main import main

PRELOADED = ("numpy", "memwell.registry", "memwell.context.expression", "memwell.models.wordllama")
LENGTH = 4
PROGRAM = """#!{python} -ISs
import json, os, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
request = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(line, [len(request).to_bytes({length}, "big")], [0, 1, 2])
line.sendall(request)
sys.exit(int(line.recv(8) or 1))
"""


class Commands:
    """A folder for PATH with the two programs in it, and the process behind them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        address = str(folder / "socket")
        for name in ("memwell", "python"):
            program = folder / name
            program.write_text(PROGRAM.format(python=sys.executable, address=address, name=name, length=LENGTH))
            program.chmod(0o755)
        self._process = subprocess.Popen([sys.executable, "-m", __name__, address], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.kill()


def serve(address: str) -> None:
    """Fork for each request a process that waits for another, which does what the request says."""
    for module in PRELOADED:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                break
            line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, *_ = socket.recv_fds(line, LENGTH, 3)
    size, request = int.from_bytes(head, "big"), b""
    while len(request) < size:
        request += line.recv(size - len(request))
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        line.sendall(str(code if code >= 0 else 128 - code).encode())
        os._exit(0)
    line.close()
    run(json.loads(request), streams)


def run(request: tuple[str, list[str], str, dict[str, str]], streams: list[int]) -> None:
    """Become the command."""
    name, arguments, folder, environment = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if name == "memwell":
        sys.argv = ["memwell", *arguments]
        main()
        return
    if arguments[:2] == ["-W", "error"]:
        warnings.simplefilter("error")
        arguments = arguments[2:]
    if arguments[0] == "-c":
        sys.argv, sys.path[0] = ["-c", *arguments[2:]], ""
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(module))  # noqa: S102 -- what `python -c` does
    else:
        sys.argv, sys.path[0] = arguments, str(Path(arguments[0]).parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    serve(sys.argv[1])
