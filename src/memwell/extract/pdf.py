"""The text of a PDF, page by page. Runs in the reading process only."""

from __future__ import annotations

import codecs
import logging
import sys
from collections.abc import Iterator
from io import BytesIO

from .child import Unreadable, shorten

# Optional dependencies of pypdf that do not help with text and take time to load.
_NOT_NEEDED = ("PIL", "brotli", "fontTools", "arabic_reshaper", "bidi")
_CIPHERS = ("cryptography", "Crypto")
# Python loads a codec at first use, and a confined process can open no file.
_ENCODINGS = (
    "gbk",
    "gb2312",
    "gb18030",
    "cp950",
    "cp932",
    "utf-16",
    "utf-16-be",
    "utf-16-le",
    "latin-1",
    "cp1252",
    "charmap",
    "mac-roman",
)
_SAMPLE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 22>>stream\nBT/F 9 Tf(a \\351)Tj ET \nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"
)


def load(encrypted: bool) -> None:
    """Import everything by reading a sample. The ciphers take as long as the rest and are seldom needed."""
    for name in _NOT_NEEDED if encrypted else (*_NOT_NEEDED, *_CIPHERS):
        sys.modules[name] = None  # type: ignore[assignment]  # marks a module as not installed
    logging.disable()
    for encoding in _ENCODINGS:
        codecs.lookup(encoding)
    for _ in read_pages(_SAMPLE):
        pass


def read_pages(content: bytes) -> Iterator[str]:
    """The text of each page. Pages that cannot be read are skipped, and reported at the end."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(BytesIO(content))
        count = len(reader.pages)
    except (DependencyError, FileNotDecryptedError):
        raise Unreadable("is encrypted") from None
    damage: list[str] = []
    for number in range(count):
        try:
            yield reader.pages[number].extract_text()
        except (MemoryError, GeneratorExit):
            raise
        except Exception as error:  # noqa: BLE001 -- parsers raise anything over a damaged page
            damage.append(f"page {number + 1} ({shorten(error)})")
    if damage:
        more = f" and {len(damage) - 3:,} more" if len(damage) > 3 else ""
        raise Unreadable(f"is damaged: {', '.join(damage[:3])}{more} could not be read")
