"""`memwell app upload` and `memwell app download`: files of sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...errors import Invalid
from .output import Json, console, show
from .reading import NAMELESS, STANDARD_INPUT, bytes_of
from .target import Target
from .telling import told

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
