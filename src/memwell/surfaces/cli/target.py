"""Times as people write them on a command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ... import config as configuration
from ... import typed
from ...config import Config
from ...errors import Invalid, NotFound, Unauthenticated
from ...sdk._sync import Memory
from ...sdk.transport import LocalTransport, Transport


def moment(name: str, text: str) -> datetime:
    """A day or a time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name} is a day or a time (RFC 3339), such as 2026-04-19 or 2026-04-19T10:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


# -- What a command talks to: a directory, or a server that one has logged in to.


class Profile(msgspec.Struct):
    """What `memwell login` keeps."""

    url: str
    api_key: str


@dataclass(slots=True)
class Target:
    """The options in front of a command."""

    home: str | None = None
    url: str | None = None
    tenant: str | None = None

    def config(self, **given: Any) -> Config:
        return configuration.load(home=self.home, tenant=self.tenant, **given)

    @property
    def address(self) -> str:
        """The server that an option or the environment names; empty: none, or a directory is named before it."""
        return self.url or ("" if self.home else self.config().url)

    def remote(self) -> Profile | None:
        """The server to talk to: named by an option, by the environment, or by a login; None: the directory."""
        config = self.config()
        profile = read_profile(config.profile_path)
        url = self.address
        if not url:
            explicit_home = self.home or os.environ.get(configuration.PREFIX + "HOME")
            return None if explicit_home else profile
        require_url(url)
        key = config.api_key or (profile.api_key if profile and profile.url == url else "")
        if not key:
            raise Unauthenticated(f"You are not logged in to {url}: run `memwell login {url}`.")
        return Profile(url, key)

    @contextmanager
    def memory(self) -> Iterator[Memory]:
        """The memory to work on. In a directory, due jobs are finished before the command ends."""
        remote = self.remote()
        if remote is not None and self.tenant is not None:
            raise Invalid("The tenant comes from the key that you logged in with: leave --tenant away.")
        if remote is not None:
            with Memory(remote.url, api_key=remote.api_key) as memory:
                yield memory
            return
        config = self.config()
        with Memory(config.home, tenant=config.tenant, worker=False) as memory:
            yield memory
            if config.worker:
                finish_jobs(transport_of(memory))


def require_url(url: str) -> None:
    if not url.lower().startswith(("http://", "https://")):
        raise Invalid(f"{url!r} is not the address of a server: it begins with http:// or https://.")


def finish_jobs(transport: Transport) -> None:
    """Run what is due; a tenant that was never written to has nothing."""
    if isinstance(transport, LocalTransport):
        with suppress(NotFound):
            transport.engine.help_out(transport.principal.tenant)


def transport_of(memory: Memory) -> Transport:
    return memory._transport


def read_profile(path: Path) -> Profile | None:
    if not path.exists():
        return None
    try:
        return typed.decode(path.read_bytes(), Profile)
    except msgspec.DecodeError:
        raise Invalid(f"{path} is damaged: run `memwell login` again.") from None


def write_profile(path: Path, profile: Profile) -> None:
    """Readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(profile))
    draft.replace(path)
