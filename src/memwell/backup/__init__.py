"""Backups: verified copies of a store that is in use, and restores that do not bring erased data back.

from memwell.backup import back_up, check, restore

made = back_up("~/.memwell", "/mnt/backups")
check(made.path)
restore(made.path, "./elsewhere")
"""

from .make import Made, back_up
from .manifest import Manifest, check
from .restore import Restored, RestoredTenant, restore

__all__ = ["Made", "Manifest", "Restored", "RestoredTenant", "back_up", "check", "restore"]
