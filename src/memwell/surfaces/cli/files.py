"""`memwell app upload` and `memwell app download`: files of sessions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ...errors import Invalid
from .output import Json, console, show, told
from .target import Target

AppArgument = Annotated[str, typer.Argument(help="The app.")]
SessionArgument = Annotated[str, typer.Argument(help="The session; it begins if it has not.")]


def upload(
    context: typer.Context,
    app: AppArgument,
    session: SessionArgument,
    files: Annotated[list[Path], typer.Argument(help="The files to add.", exists=True, dir_okay=False)],
    as_json: Json = False,
) -> None:
    """Add files to a session, and say what became of their text."""
    target: Target = context.obj
    with told(), target.memory() as memory:
        at = memory.app(app).session(session).files
        for path in files:
            added = at.upload(path)
            line = f"{added.filename}  {added.file_id}  {added.state}" + (f": {added.reason}" if added.reason else "")
            show(added, as_json, lambda line=line: console().print(line, markup=False))  # type: ignore[misc]


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
