"""Entity tags: by which a caller says which version of something is to be changed."""

from __future__ import annotations

import re

from ..errors import Invalid, Stale

ANY, NONE = "*", "none"
"""Instead of a version: whichever there is, or that there is none."""
_BARE = re.compile(r"[0-9a-f]+-[0-9]+")
MAX_SHOWN = 50


def etag(address_id: int, version: int) -> str:
    """What tells a version from every other, also from those of a record that was deleted before."""
    return f'"{address_id:x}-{version}"'


def match(current: str | None, wanted: str | None) -> None:
    """Refuse to change what is not the version that was read, or one of several."""
    if wanted is None:
        return
    if wanted == NONE:
        if current is not None:
            raise Stale("There is such a record already: read it, and change that one.", version=current)
        return
    tags = [] if wanted == ANY else list(map(_quoted, wanted.split(",")))
    if current is None:
        raise Stale("There is no such record, or not any more: read it again and repeat the change.", version=None)
    if wanted == ANY or current in tags:
        return
    raise Stale("The record is not the one that was read: read it again and repeat the change.", version=current)


def _quoted(tag: str) -> str:
    """A tag as it is written. One that was copied without its quotes is meant as well; what can be none was never read."""
    tag = tag.strip()
    if tag.startswith(('"', "W/")):
        return tag
    if not _BARE.fullmatch(tag):
        told = "`if_match` is the `etag` that was read, or `*` (there must be a record), or `none` (there must not)"
        raise Invalid(f"{told}, not {tag[:MAX_SHOWN]!r}.", field="if_match")
    return f'"{tag}"'
