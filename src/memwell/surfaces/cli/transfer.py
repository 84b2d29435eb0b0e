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
from .fields import NAMELESS, STANDARD_INPUT, bytes_of
from .messages import told
from .output import Json, console, show
from .target import Target

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


# -- `memwell app upload` and `memwell app download`: files of sessions.


AppArgument = Annotated[str, typer.Argument(help="The app.")]
SessionArgument = Annotated[str, typer.Argument(help="The session; it begins if it has not.")]


def upload(
    context: typer.Context,
    app: AppArgument,
    session: SessionArgument,
    files: Annotated[list[Path], typer.Argument(help="The files to add; `-`: standard input.")],
    filename: Annotated[
        str | None, typer.Option("--filename", help="What a single file is called; needed for standard input.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Add files to a session, and say what became of their text."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        _require(files, filename)
        at = memory.app(app).session(session).files
        for path in files:
            content = bytes_of(STANDARD_INPUT) if _is_input(path) else path
            added = at.upload(content, filename=filename)
            line = f"{added.filename}  {added.file_id}  {added.state}" + (f": {added.reason}" if added.reason else "")
            show(added, as_json, lambda line=line: console().print(line, markup=False))  # type: ignore[misc]


def _require(files: list[Path], filename: str | None) -> None:
    """All of them can be added, or none is."""
    if filename is not None and len(files) > 1:
        raise Invalid("--filename is what one file is called: give one.")
    for path in files:
        if not _is_input(path) and not path.is_file():
            raise Invalid(f"{path} cannot be read: it is not a file.")
        if _is_input(path) and filename is None:
            raise Invalid(NAMELESS)


def _is_input(path: Path) -> bool:
    return str(path) == STANDARD_INPUT


def download(
    context: typer.Context,
    app: AppArgument,
    session: SessionArgument,
    file_id: Annotated[str, typer.Argument(help="The id of the file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; left away: standard output.")
    ] = None,
) -> None:
    """Write a file of a session."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        content = memory.app(app).session(session).files.read(file_id)
        if output is None:
            sys.stdout.buffer.write(content)
            return
        try:
            with open(output, "xb") as file:
                file.write(content)
        except FileExistsError:
            raise Invalid(f"{output} is there already: choose another name.") from None
        console().print(f"{len(content)} bytes written to {output}.", markup=False)
