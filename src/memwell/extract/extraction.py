"""The text of a file, read in a child process within limits. A bad file is a result, not an error."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import closing
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import Literal

from ..sandbox.child import OUT_OF_MEMORY, READY
from ..sandbox.process import START_S, FrameTooLarge, Process, describe_status, find_packages
from . import kinds, text_reader

State = Literal["extracted", "empty", "kept", "failed"]

_TOO_LONG = "took longer than {:g} seconds to read"
_CRASHED = "could not be read: its reader stopped unexpectedly ({})"
_MAX_CHARACTER = 4  # bytes
_SLACK = 1 << 20  # bytes, for reasons
_LAST_S = 1.0  # for a process to end after it has closed its output
_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]+")

_slots = BoundedSemaphore(max(2, os.cpu_count() or 1))  # each may take a processor and the memory limit


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for reading one file."""

    wall_s: float = 1.7  # about two seconds together with the start of the process
    cpu_s: float = 2.0  # rounded up to whole seconds
    memory: int = 256 * 2**20  # bytes of address space
    characters: int = 2_000_000  # of text; the rest is omitted
    unpacked: int = 100_000_000  # bytes
    start_s: float = START_S


@dataclass(frozen=True, slots=True)
class Extraction:
    """The text of a file. `reason` explains why text is missing, in words that follow the name of the file."""

    text: str
    state: State
    reason: str | None = None
    truncated: bool = False
    pages: int | None = None  # number of pages read, for formats that have pages


@dataclass(slots=True)
class Output:
    """The text that a child process sent in time, and the reason why text is missing."""

    pieces: list[str] = field(default_factory=list)
    truncated: bool = False
    note: str | None = None
    failure: str | None = None


def extract(content: bytes, mimetype: str, limits: Limits = Limits()) -> Extraction:
    """Read the text of a file whose type is a result of `mimetype_of`."""
    if not content:
        return Extraction("", "empty", "is empty")
    match mimetype:
        case kinds.TXT:
            return _to_extraction(_read("txt", content, limits), limits, keep_blanks=True)
        case kinds.JSON:
            return _to_extraction(_read("json", content, limits, find_packages("msgspec")), limits, keep_blanks=True)
        case kinds.DOCX:
            return _to_extraction(_read("docx", content, limits), limits)
        case kinds.PDF:
            packages = find_packages("pypdf")
            if packages is None:
                reason = "was stored without its text, because pypdf is not installed: pip install memwell[files]"
                return Extraction("", "kept", reason)
            output = _read("pdf+" if b"/Encrypt" in content else "pdf", content, limits, packages)
            return _to_extraction(output, limits, len(output.pieces) or None)
    return Extraction("", "kept")


def _to_extraction(
    output: Output, limits: Limits, pages: int | None = None, *, keep_blanks: bool = False
) -> Extraction:
    """Return the text without the control characters that databases reject, and without blanks around it or its pages."""
    pieces = (_INVISIBLE.sub("", one.replace("\f", "\n").replace("\v", "\n")) for one in output.pieces)
    text = "".join(pieces) if pages is None else "\n\n".join(map(str.strip, pieces))
    if output.failure or not keep_blanks:
        text = text.strip()
    if output.failure and text:
        return Extraction(text, "extracted", f"{output.failure}; the text read so far was kept", True, pages)
    if output.failure:
        return Extraction("", "failed", output.failure)
    if not text.strip():
        reason = "contains no text" if pages is None else "contains no readable text; it may consist of pictures"
        return Extraction("", "empty", reason, pages=pages)
    if output.truncated or len(text) > limits.characters:
        reason = output.note or f"is longer than {limits.characters:,} characters; the rest of its text was left out"
        return Extraction(text[: limits.characters], "extracted", reason, True, pages)
    return Extraction(text, "extracted", output.note, pages=pages)


def _read(kind: str, content: bytes, limits: Limits, packages: str | None = None) -> Output:
    output = Output()
    with _slots:
        try:
            process = Process.start_confined(
                "memwell.extract.text_reader",
                *(kind, limits.memory, limits.cpu_s, limits.characters, limits.unpacked),
                max_frame=_MAX_CHARACTER * limits.characters + _SLACK,
                packages=packages,
            )
        except OSError as error:
            output.failure = f"could not be read: no process could be started ({error})"
            return output
        with closing(process):
            output.failure = _receive_text(process, content, limits, output)
    return output


def _receive_text(process: Process, content: bytes, limits: Limits, output: Output) -> str | None:
    """Send the file, collect its text, and return the reason of a failure. The time limit starts when the process is ready."""
    ready, room = False, _MAX_CHARACTER * limits.characters + _SLACK
    try:
        ready = process.receive(time.monotonic() + limits.start_s).kind == READY
        deadline = time.monotonic() + limits.wall_s
        process.send(b"F", content, deadline)
        while room >= 0:
            kind, body = process.receive(deadline)
            room -= len(body)
            match kind:
                case text_reader.TEXT:
                    output.pieces.append(body.decode(errors="replace"))
                case text_reader.NOTE:
                    output.note = body.decode(errors="replace")
                case text_reader.DONE:
                    return None
                case text_reader.CUT:
                    break
                case text_reader.FAILED:
                    return body.decode(errors="replace")
                case _:
                    return _CRASHED.format("it sent an unknown message")
    except TimeoutError:
        return _TOO_LONG.format(limits.wall_s) if ready else _CRASHED.format("it was not ready in time")
    except FrameTooLarge:
        pass
    except (EOFError, ConnectionError):
        return _explain_end(process, limits)
    output.truncated = True
    return None


def _explain_end(process: Process, limits: Limits) -> str:
    try:
        status = process.wait(_LAST_S)
    except TimeoutError:
        return _CRASHED.format("it closed its output and did not end")
    if status == OUT_OF_MEMORY:
        return "needed too much memory"
    if status == -signal.SIGXCPU:
        return _TOO_LONG.format(limits.cpu_s)
    return _CRASHED.format(describe_status(status))
