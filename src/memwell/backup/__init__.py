"""Backups: a verified copy of a store while it is used, and the way back, on which what was erased stays erased.

from memwell.backup import back_up, check, restore

made = back_up("~/.memwell", "/mnt/backups")
check(made.path)
restore(made.path, "./elsewhere")
"""

from .check import check
from .make import Made, back_up
from .manifest import Manifest
from .restore import Restored, RestoredTenant, restore

__all__ = ["Made", "Manifest", "Restored", "RestoredTenant", "back_up", "check", "restore"]
