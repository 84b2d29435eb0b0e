"""Files and folders that are in the making: whose maker lives, and which were left behind by one that was killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def claim(path: Path) -> int | None:
    """Hold a file or a folder until what this returns is closed, or the process ends; None if another does, or it is gone.

    Some disks in a network know no such locks. Then everybody is believed to be alive, and nothing is cleared away.
    """
    number = _opened(path)
    if number is not None and _lock(number) is False:
        os.close(number)
        return None
    return number


def sweep(paths: Iterable[Path]) -> None:
    """Remove those that certainly nobody holds."""
    for path in paths:
        number = _opened(path)
        if number is None:
            continue
        if _lock(number):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        os.close(number)


def sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # gone, or none of ours
        return None


def _lock(number: int) -> bool | None:
    """Whether it is ours now; None if nobody can tell."""
    import fcntl  # not everywhere; only backups need it

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
