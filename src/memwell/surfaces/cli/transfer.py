"""`memwell export` and `memwell import`: a flow as a JSONL file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from ... import typed
from ...errors import Invalid
from .output import Json, console, show
from .target import Target
from .telling import told

FlowArgument = Annotated[str, typer.Argument(help="The flow.")]
BATCH = 200


def export(
    context: typer.Context,
    flow: FlowArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; left away: standard output.")
    ] = None,
) -> None:
    """Write everything in a flow as JSONL: sessions, turns and memories."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        lines = memory.flow(flow).export()
        if output is None:
            for line in lines:
                sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
            return
        count = 0
        with open(output, "wb") as file, progress_bar() as progress:
            task = progress.add_task(f"Exporting {flow}", total=None)
            for line in lines:
                file.write(msgspec.json.encode(line) + b"\n")
                count += 1
                progress.update(task, advance=1)
        console().print(f"{count} lines written to {output}.")


def import_file(
    context: typer.Context,
    flow: FlowArgument,
    source: Annotated[Path, typer.Argument(help="The JSONL file to read.", exists=True, dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Add the lines of an export to a flow. What is there already is skipped, so it may be repeated."""
    target: Target = context.obj
    added = skipped = 0
    with told(), target.memory() as memory, open(source, "rb") as file:
        with progress_bar() as progress:
            task = progress.add_task(f"Importing {source.name}", total=source.stat().st_size)
            for size, batch in _batches(file):
                done = memory.flow(flow).import_lines(batch)
                added, skipped = added + done.added, skipped + done.skipped
                progress.update(task, advance=size)
        counts = {"added": added, "skipped": skipped}
        show(
            counts, as_json, lambda: console().print(f"{added} turns and memories added, {skipped} were there already.")
        )


def progress_bar() -> Progress:
    """On standard error, and only where a person can see it move."""
    shown = Console(stderr=True)
    return Progress(console=shown, transient=True, disable=not shown.is_terminal)


def _batches(file: BinaryIO) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    size, batch = 0, []
    for number, text in enumerate(file, 1):
        size += len(text)
        if text.strip():
            batch.append(_line(number, text))
        if len(batch) == BATCH:
            yield size, batch
            size, batch = 0, []
    if batch:
        yield size, batch


def _line(number: int, text: bytes) -> dict[str, Any]:
    try:
        return typed.decode(text, dict[str, Any])
    except msgspec.DecodeError as error:
        raise Invalid(f"Line {number} is not a JSON object: {error}. What came before it is imported.") from None
