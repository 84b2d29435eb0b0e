"""Files: reading a PDF and a Word document, including the start of the reading process; and files that try to exhaust it."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from tests.files.samples import text_pdf

from memwell.extract.extraction import Limits, extract
from memwell.extract.kinds import DOCX, PDF

from .measure import Blocks, alternate, median_ratio
from .sizes import QUICK, Sizes
from .table import Row, duration, spread, verdict

PAGES, LINES, PARAGRAPHS = 20, 45, 500
LINE = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all; line {}."
BOMB_LIMIT_S = 2.0
BOMB_LIMIT_MB = 256
ROOT = Path(__file__).parent.parent
FEW, MANY = Blocks(3, 3, longest_s=10.0), Blocks(15, 3, longest_s=20.0)


def rows(folder: Path, sizes: Sizes) -> list[Row]:
    shape = FEW if sizes is QUICK else MANY
    return [_pdf(shape), _word(shape), *_bombs(at_once=2 if sizes is QUICK else 1)]


def _pdf(shape: Blocks) -> Row:
    """Compare with the same package in this process, already imported and without limits."""
    from pypdf import PdfReader

    content = text_pdf([[LINE.format(line) for line in range(LINES)] for _ in range(PAGES)])
    assert extract(content, PDF).pages == PAGES
    return _beside(
        f"a PDF of {PAGES} pages",
        shape,
        lambda: extract(content, PDF),
        lambda: [page.extract_text() for page in PdfReader(BytesIO(content)).pages],
    )


def _word(shape: Blocks) -> Row:
    """Compare with python-docx in this process, already imported and without limits."""
    import docx

    document, file = docx.Document(), BytesIO()
    for number in range(PARAGRAPHS):
        document.add_paragraph(LINE.format(number))
    document.save(file)
    content = file.getvalue()
    assert extract(content, DOCX).text.count("\n") == PARAGRAPHS - 1
    return _beside(
        f"a DOCX of {PARAGRAPHS} paragraphs",
        shape,
        lambda: extract(content, DOCX),
        lambda: [paragraph.text for paragraph in docx.Document(BytesIO(content)).paragraphs],
    )


def _beside(what, shape, ours, limit) -> Row:  # type: ignore[no-untyped-def]
    timed, bare = alternate(shape, ours, limit)
    return Row(f"text of {what}", spread(timed), spread(bare), f"{median_ratio(timed.blocks, bare.blocks):.2f} x")


def _bombs(at_once: int) -> list[Row]:
    """Run in a separate program: memory inherited from the parent would count as the child's."""
    command = [sys.executable, "-m", "tests.files.bombs", str(Limits().wall_s), str(at_once)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    said = json.loads(done.stdout)
    slowest = max(said["blasts"], key=lambda blast: blast["took_s"])
    took, largest = slowest["took_s"], said["largest"] / 2**20
    title = f"{len(said['blasts'])} files made to exhaust"
    return [
        Row(
            title,
            f"slowest {duration(took)} ({slowest['name']})",
            target=f"<= {BOMB_LIMIT_S:g} s",
            verdict=verdict(took <= BOMB_LIMIT_S),
        ),
        Row(
            "  memory of the largest",
            f"{largest:.0f} MB",
            target=f"<= {BOMB_LIMIT_MB} MB",
            verdict=verdict(largest <= BOMB_LIMIT_MB),
        ),
    ]
