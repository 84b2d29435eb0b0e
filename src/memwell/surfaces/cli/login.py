"""`memwell login` and `logout`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ...sdk._sync import Memory
from .output import Json, console, show
from .target import Profile, Target, read_profile, require_url, write_profile
from .telling import told


def login(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="The server's address.")] = "http://127.0.0.1:8420",
    key: Annotated[str | None, typer.Option("--key", help="The API key; left away, you are asked for it.")] = None,
    as_json: Json = False,
) -> None:
    """Log in to a server: commands then work on its memory instead of a local directory."""
    target: Target = context.obj
    with told():
        require_url(url)
        secret = key or typer.prompt("API key", hide_input=True, err=True)
        with Memory(url, api_key=secret) as memory:
            status = memory.status()
        path = target.config().profile_path
        write_profile(path, Profile(url, secret))
        said = f"Logged in to {url} as {status.role} of tenant {status.tenant}."
        answer = {"url": url, "role": status.role, "tenant": status.tenant}
        show(answer, as_json, lambda: console().print(Text(said)))


def logout(context: typer.Context, as_json: Json = False) -> None:
    """Forget the server and its key; commands work on the local directory again."""
    target: Target = context.obj
    with told():
        path = target.config().profile_path
        profile = read_profile(path)
        path.unlink(missing_ok=True)
        said = f"Logged out of {profile.url}." if profile else "You were not logged in."
        show({"url": profile.url if profile else None}, as_json, lambda: console().print(said))
