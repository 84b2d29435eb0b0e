"""One table of plain text: the measurement, our figure, the bare limit, their ratio, the target, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass

from .measure import Timings

_HEAD = ("what", "ours", "bare limit", "ratio", "target", "verdict")


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    ours: str
    bare: str = "-"
    ratio: str = "-"
    target: str = "stated"
    verdict: str = ""


def at_most(what: str, ours: str, bare: str, ratio: float, limit: float) -> Row:
    """A row with a limit on the ratio of its figure to the bare limit."""
    return Row(what, ours, bare, f"{ratio:.2f} x", f"<= {limit:g} x", verdict(ratio <= limit))


def verdict(met: bool) -> str:
    return "ok" if met else "MISS"


def spread(timings: Timings) -> str:
    return f"{duration(timings.median)} (min {duration(timings.least)})"


def duration(seconds: float) -> str:
    if abs(seconds) >= 0.1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3f} ms" if abs(seconds) >= 0.001 else f"{seconds * 1e6:.0f} us"


def rate(per_second: float) -> str:
    return f"{per_second:,.0f} rows/s"


def render(rows: list[Row]) -> str:
    lines = [_HEAD, *((row.what, row.ours, row.bare, row.ratio, row.target, row.verdict) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * (sum(widths) + 2 * len(widths) - 2), *texts[1:]])
