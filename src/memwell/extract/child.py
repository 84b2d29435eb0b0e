"""The reading process: load, give up every right, say so, read one file from standard input, tell its text.

Loading comes first, so that afterwards nothing needs to be opened: with a limit of three descriptors, all in use, the
process can reach no file and no network, whatever a file makes a parser do.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Callable, Iterator

from .wire import CUT, DONE, FAILED, NOTE, OUT_OF_MEMORY, READY, TEXT, Note, Wrong, frame, said

DESCRIPTORS = 3  # standard input, output and error


def main(kind: str, memory: int, cpu_s: float, most: int, unpacked: int) -> None:
    """Read one file of this kind. `kind` is `txt`, `json`, `docx`, `pdf` or `pdf+` for a PDF that says it is encrypted."""
    reader = _reader(kind, most, unpacked)
    _confine(memory, cpu_s)
    try:
        _say(READY)
        _tell(reader(sys.stdin.buffer.read()), most)
    except Wrong as wrong:
        _say(FAILED, str(wrong))
    except RecursionError:
        _say(FAILED, "is nested too deeply")
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 -- whatever a parser raises over a damaged file
        _say(FAILED, f"is damaged: {said(error)}")


def _reader(kind: str, most: int, unpacked: int) -> Callable[[bytes], Iterator[str]]:
    if kind in ("txt", "json"):
        from . import plain

        plain.load(json=kind == "json")
        return lambda content: plain.pieces(content, most, json=kind == "json")
    if kind == "docx":
        from . import word

        word.load()
        return lambda content: word.pieces(content, unpacked)
    from . import pdf

    pdf.load(encrypted=kind.endswith("+"))
    return pdf.pages


def _confine(memory: int, cpu_s: float) -> None:
    """Limits that cannot be raised again. Seconds of the processor count from the start, so what was used is added."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + cpu_s)
    _limit(resource.RLIMIT_CPU, seconds, seconds + 1)  # at the first it is told why it ends, at the second just ended
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)


def _limit(what: int, soft: int, hard: int | None = None) -> None:
    _, already = resource.getrlimit(what)
    most = float("inf") if already == resource.RLIM_INFINITY else already
    resource.setrlimit(what, (int(min(soft, most)), int(min(hard or soft, most))))


def _tell(texts: Iterator[str], most: int) -> None:
    for text in texts:
        if isinstance(text, Note):
            _say(NOTE, text)
            continue
        _say(TEXT, _whole(text[:most]))
        most -= len(text)
        if most < 0:
            return _say(CUT)
    return _say(DONE)


def _whole(text: str) -> str:
    """A text whose characters are not in halves, as some that PDFs write beyond the first 65,536 are."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _say(kind: bytes, said: str = "") -> None:
    rest = memoryview(frame(kind, said))
    while rest:
        rest = rest[os.write(1, rest) :]
