"""The memory that a command works on: a directory, a database, or a server."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import typer

from ... import config as configuration
from ... import typed
from ...config import Config
from ...errors import Invalid, NotFound, Unauthenticated
from ...sdk._sync import Memory
from ...sdk.transport import LocalTransport, Transport
from .output import report_errors

_PASSWORD = re.compile(r"(?<=:)//[^/@]*@")


class Profile(msgspec.Struct):
    """The login that `memwell login` saves."""

    url: str
    api_key: str


@dataclass(slots=True)
class Target:
    """The options in front of a command."""

    home: str | None = None
    url: str | None = None
    tenant: str | None = None

    def config(self, **overrides: Any) -> Config:
        return configuration.load(home=self.home, tenant=self.tenant, **overrides)

    @property
    def server_url(self) -> str:
        """The server that an option or the environment names; empty if there is none, or if `--home` comes first."""
        return self.url or ("" if self.home else self.config().url)

    def find_login(self) -> Profile | None:
        """The server to talk to, from an option, the environment or a login; None for local data."""
        config = self.config()
        profile = read_profile(config.profile_path)
        url = self.server_url
        if not url:
            return None if self.home or configuration.is_set("home") else profile
        check_url(url)
        key = config.api_key or (profile.api_key if profile and profile.url == url else "")
        if not key:
            raise Unauthenticated(f"You are not logged in to {url}: run `memwell login {url}`.")
        return Profile(url, key)

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """Open the memory. With local data, due jobs are run before the command ends."""
        login = self.find_login()
        if login is not None:
            if self.tenant is not None:
                raise Invalid("The tenant comes from the key that you logged in with: omit --tenant.")
            with Memory(login.url, api_key=login.api_key) as memory:
                yield memory
            return
        config = self.config()
        if logging.lastResort is not None:  # it prints to stderr what functions raise
            logging.getLogger("memwell.functions").addHandler(logging.lastResort)
        with Memory(config.home, tenant=config.tenant, worker=False) as memory:
            yield memory
            transport = transport_of(memory)
            if config.worker and isinstance(transport, LocalTransport):
                with suppress(NotFound):  # the tenant was never written to
                    transport.engine.help_out(transport.principal.tenant)


@contextmanager
def open_memory(context: typer.Context) -> Iterator[Memory]:
    """Open the memory that a command works on, and report errors."""
    target: Target = context.obj
    with report_errors(), target.memory() as memory:
        yield memory


def find_override(url: str) -> str | None:
    """Explain why commands do not use a server after a login, or return None if they do."""
    config = configuration.load()
    if config.url == url or not (config.url or configuration.is_set("home")):
        return None
    name = "MEMWELL_URL" if config.url else "MEMWELL_HOME"
    place = _PASSWORD.sub("//", config.url) or config.home_without_password
    return f"{name} is set, so commands work on {place}. Unset it to use {_PASSWORD.sub('//', url)}."


def transport_of(memory: Memory) -> Transport:
    return memory._transport


def check_url(url: str) -> None:
    if not url.lower().startswith(("http://", "https://")):
        raise Invalid(f"{url!r} is not the address of a server: it must begin with http:// or https://.")


def read_profile(path: Path) -> Profile | None:
    if not path.exists():
        return None
    try:
        return typed.decode(path.read_bytes(), Profile)
    except msgspec.DecodeError:
        raise Invalid(f"{path} is damaged: run `memwell login` again.") from None


def write_profile(path: Path, profile: Profile) -> None:
    """Write the login to a file that only its owner can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(profile))
    draft.replace(path)
