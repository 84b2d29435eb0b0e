"""Make the synchronous SDK from the asynchronous one."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "memwell" / "sdk" / "_async.py"

REPLACEMENTS = (
    (
        r'"""The Python API, awaited\..*?"""',
        '"""The Python API. Generated from `_async.py`: change that one and run `make format`."""',
    ),
    (r"\basync (def|for|with) ", r"\1 "),
    (r"\bawait ", ""),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"open_async_transport", "open_transport"),
    (r"\bAsync(?=[A-Z])", ""),
)


def generate() -> str:
    text = SOURCE.read_text(encoding="utf-8")
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return text
