"""Files that no row names any more: their bytes are deleted, inside a write transaction, so that no upload comes in between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..clock import DAY, HOUR
from ..storage.blobs import Blobs
from ..storage.port import Tx
from . import jobs
from .run import JobRun, Repeat

GRACE = HOUR
"""How long an upload may take between its bytes and its row."""
BATCH = 500


def forget_files(tx: Tx, blobs: Blobs, address_id: int) -> int:
    """Delete the files at an address with their bytes, as far as no other file has the same. Returns how many there were."""
    digests = digests_at(tx, address_id)
    count = tx.run("delete_files_of", address_id=address_id) if digests else 0
    for digest in dict.fromkeys(digests):
        delete_unnamed(tx, blobs, digest)
    return count


def delete_unnamed(tx: Tx, blobs: Blobs, digest: str) -> bool:
    """Delete bytes unless a file has them."""
    if _is_named(tx, digest):
        return False
    blobs.within(tx).delete(digest)
    return True


def digests_at(tx: Tx, address_id: int) -> list[str]:
    return [row[4] for row in tx.rows("files_of", address_id=address_id)]


def left(run: JobRun, digests: Sequence[str]) -> int:
    """How many of these are still there, though no file has them."""

    def count(tx: Tx) -> int:
        blobs = run.blobs.within(tx)
        return sum(blobs.has(digest) and not _is_named(tx, digest) for digest in digests)

    return run.read(count)


def sweep_later(tx: Tx, now: int) -> None:
    """See to it that somebody looks for what an upload leaves behind that does not come to its end."""
    jobs.ensure_slot(tx, "sweep", now + 2 * GRACE, now)


def is_swept(tx: Tx) -> bool:
    return tx.row("find_slot", slot="sweep") is not None


def sweep(run: JobRun) -> Repeat:
    """The `sweep` job: delete what uploads left behind, and come back: soon if some may still be under way, and every day in any
    case, since one may have begun after this has looked."""
    now = run.clock.now()
    under_way = run.blobs.tidy(now - GRACE)
    stored = list(run.blobs.list())
    for at in range(0, len(stored), BATCH):
        unnamed = run.read(partial(_unnamed, stored=stored[at : at + BATCH]))
        old = [digest for digest, stored_at in unnamed if stored_at < now - GRACE]
        under_way = under_way or len(old) < len(unnamed)
        if old:
            run.write(partial(_delete_all, blobs=run.blobs, digests=old))
    return Repeat(now + (GRACE if under_way else DAY))


def _unnamed(tx: Tx, *, stored: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    return [one for one in stored if not _is_named(tx, one[0])]


def _delete_all(tx: Tx, *, blobs: Blobs, digests: Sequence[str]) -> None:
    for digest in digests:
        delete_unnamed(tx, blobs, digest)


def _is_named(tx: Tx, digest: str) -> bool:
    return tx.row("digest_named", digest=digest) is not None
