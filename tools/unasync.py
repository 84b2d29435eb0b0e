"""Generate the synchronous SDK from the asynchronous one, file by file."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "src" / "memwell" / "sdk"
PARTS = ("", "_apps", "_banks", "_definitions", "_hooks", "_facts", "_jobs", "_records", "_workflows")

REPLACEMENTS = (
    (
        r'"""The Python API, awaited.*?"""',
        '"""The Python API. Generated from `_async…`: change that one and run `make format`."""',
    ),
    (r"\basync (def|for|with) ", r"\1 "),
    (r"\bawait ", ""),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"open_async_transport", "open_transport"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b_async_(?=apps|banks|definitions|hooks|facts|jobs|records|workflows)", "_sync_"),
)


def generate(part: str = "") -> str:
    text = (FOLDER / f"_async{part}.py").read_text(encoding="utf-8")
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return text
