"""Files and folders that are in the making: whose maker lives, and which were left behind by one that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def claim(path: Path) -> int | None:
    """Hold a file or a folder until what this returns is closed, or the process ends; None if another does."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # gone, or none of ours
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    return number


def sweep(paths: Iterable[Path]) -> None:
    """Remove those that nobody holds."""
    for path in paths:
        number = claim(path)
        if number is not None:
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
