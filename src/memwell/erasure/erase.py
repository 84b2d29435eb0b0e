"""Erasure, with its jobs `erase` and `sweep`. Data whose lifetime is over is deleted in `expire.py`.

Erasure has three stages. `bury` runs in the transaction of the operation: addresses leave their collection, so that no read can
find them, and stored answers and jobs that mention them are emptied. The `erase` job then deletes the entries in small steps and
empties the write-ahead log. Finally it searches rows and files for traces; its result is the receipt.

The `sweep` job deletes orphan blobs: the bytes of files that no row names any more. That happens inside a write transaction, so
that no upload comes in between.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ..clock import DAY, HOUR
from ..errors import Unavailable
from ..ids import inner_id
from ..jobs import queue
from ..jobs.queue import JobKind, JobRun, Repeat
from ..search import upkeep
from ..storage.port import Rewrite, Row, Tx, batches, encode_numbers
from . import log

if TYPE_CHECKING:
    from ..storage.blobs import Blobs

GRAVE = "#erased"
BATCH = 2000
GRACE = HOUR
"""Longest time between storing the bytes of an upload and adding its row."""
SAMPLES = 32
SHINGLE = 24
FILED = ("record", "text")
"""Kinds of addresses that have files: the session of a file, and its own address while it is deleted."""
EVERY_RUN = "*"
RUN = "run"

_ALIVE = ("content_lives", "value_lives", "document_lives", "run_lives", "file_lives")
_WORD = re.compile(r"[a-z]{12,}")
_FILES_OF = 1 << 62
"""A bit above every address; see `files_of`."""


# -- hiding, in the transaction of an operation ----------------------------------------------------------------------------


def bury(
    tx: Tx,
    addresses: Sequence[Row],
    now: int,
    counts: dict[str, int] | None = None,
    *,
    spared: str | None = None,
    kept: Sequence[dict[str, str]] = (),
) -> str:
    """Hide addresses (id, collection, kind) from every read and enqueue their erasure. Return the id of the job.

    `spared` is the run that keeps its data about them because it deletes them itself, or `EVERY_RUN` if they have expired. `kept`
    are the places that the receipt lists as not reached."""
    grave = _grave(tx, now)
    layers = Counter(counts or {})
    buried = {row[0] for row in addresses}
    for some in batches(addresses):
        ids = [row[0] for row in some]
        records = [row[0] for row in some if row[2] == "record"]
        others = [row[0] for row in some if row[2] != "record"]
        layers.update(answers=forget_answers(tx, ids), jobs=tx.run("delete_jobs_of", addresses=encode_numbers(ids)))
        if others:  # records have no facts, summaries or index entries
            upkeep.remove_addresses(tx, others)
            layers.update(_forget_facts(tx, others, now, buried))
            tx.send("delete_folds_at", addresses=encode_numbers(others))
            tx.send("delete_summaries_at", addresses=encode_numbers(others))
        layers.update(forget_runs(tx, ids, spared))
        if spared == EVERY_RUN and records:
            layers.update(forget_runs(tx, [files_of(address_id) for address_id in records]))
        layers["sessions"] += sum(row[2] == "timeline" for row in some)
        tx.send("delete_ties_of", addresses=encode_numbers(ids))
        tx.send("bury_addresses", addresses=encode_numbers(ids), grave=grave)
        log.note_addresses(tx, "ended" if spared == EVERY_RUN else "address", ids, now)
    payload = {"addresses": [[row[0], row[2]] for row in addresses], "layers": dict(layers), "kept": kept}
    return queue.enqueue(tx, "erase", payload, now)


def erase_collection(tx: Tx, collection_id: int, now: int) -> None:
    """Delete a collection whose addresses are all buried, and the stored answers that describe it."""
    forget_answers(tx, [thing_of("collection", str(collection_id))])
    tx.send("delete_collection", id=collection_id)
    log.note(tx, "collection", str(collection_id), now)


def bury_file(tx: Tx, file_id: str, now: int) -> str | None:
    """Hide a file and its text from every read and enqueue their erasure. Return the id of the job; None without such a file."""
    row = tx.row("find_file", id=file_id)
    if row is None:
        return None
    session_id, text_id = row[1:3]
    if text_id is None:
        new = {"id": inner_id(), "collection_id": _grave(tx, now), "path": f"file/{file_id}", "count": 0}
        placed = tx.row("touch_address", **new, now=now, expires_at=None)
        text_id = None if placed is None else placed[0]
    tx.send("give_file", id=file_id, address_id=text_id)
    tx.send("erase_idempotency_of_entry", address_id=session_id, entry_id=file_id)
    runs = forget_runs(tx, [files_of(session_id)])
    log.note(tx, "file", file_id, now)
    return bury(tx, [(text_id, 0, "text")], now, runs)


def scrub_later(tx: Tx, now: int, layers: dict[str, int]) -> str:
    """Enqueue the removal of the last traces of a deletion from the database file."""
    return queue.enqueue(tx, "erase", {"addresses": [], "layers": layers}, now)


def scrub_soon(tx: Tx, now: int) -> None:
    """Have the last traces of a deletion removed from the database file. Many deletions share one job."""
    queue.ensure_slot(tx, "erase", now, now)


def forget_thing(tx: Tx, kind: str, thing_id: str, now: int) -> None:
    """Empty the stored answers that describe a deleted document or run, and remove its last traces soon."""
    forget_answers(tx, [thing_of(kind, thing_id)])
    scrub_soon(tx, now)


def thing_of(kind: str, thing_id: str) -> int:
    """The pseudo-address that stands for a document, a run or a collection among the addresses that stored answers describe.
    It is negative, as no address is."""
    digest = hashlib.blake2b(f"{kind}\x00{thing_id}".encode(), digest_size=8).digest()
    return -1 - (int.from_bytes(digest, "big") >> 2)


def _grave(tx: Tx, now: int) -> int:
    found = tx.row("find_collection", dialect=GRAVE, name="", kind="timeline")
    if found is None:
        tx.send(
            "add_collection", id=inner_id(), dialect=GRAVE, name="", kind="timeline", sealed=1, policy="{}", now=now
        )
        found = tx.row("find_collection", dialect=GRAVE, name="", kind="timeline")
    assert found is not None  # noqa: S101 -- it was just added
    return int(found[0])


def _forget_facts(tx: Tx, addresses: Sequence[int], now: int, buried: Collection[int]) -> dict[str, int]:
    """Delete the evidence at some addresses, the facts that have no other evidence, and the plans that made them (C43). Return
    the number of facts."""
    ids = [row[0] for row in tx.rows("facts_from", addresses=encode_numbers(addresses))]
    tx.send("delete_evidence_from", addresses=encode_numbers(addresses))
    tx.send("delete_plans_of", addresses=encode_numbers(addresses))
    gone = [fact_id for fact_id in ids if tx.row("count_evidence", fact_id=fact_id) == (0,)]
    for fact_id in gone:
        erase_fact(tx, fact_id, now, buried=buried)
    return {"facts": len(gone)} if gone else {}


def erase_fact(tx: Tx, fact_id: str, now: int, *, buried: Collection[int] = ()) -> tuple[int, int]:
    """Delete every version of a fact with its evidence. Return the numbers of versions and of stored answers.

    `buried` are addresses that are erased as a whole: their facts need no line of their own in the erasure log."""
    places = [row[0] for row in tx.rows("entry_addresses", id=fact_id)]
    answers = _forget_answers_about(tx, fact_id, places)
    for address_id in places:
        if address_id not in buried:
            log.note(tx, "entry", log.entry_mark(address_id, fact_id), now)
    upkeep.remove_entries(tx, tx.rows("docids_of_entry", id=fact_id))
    tx.send("delete_evidence_of_fact", fact_id=fact_id)
    return tx.run("delete_entry", id=fact_id), answers


def erase_versions(tx: Tx, fact_id: str, versions: Sequence[int]) -> None:
    """Delete some versions of a fact, and the stored answers that may contain their words. The caller logs the erasure."""
    _forget_answers_about(tx, fact_id, [row[0] for row in tx.rows("entry_addresses", id=fact_id)])
    for version in versions:
        upkeep.remove_entries(tx, tx.rows("docids_of_version", id=fact_id, version=version))
        tx.send("delete_version", id=fact_id, version=version)


def _forget_answers_about(tx: Tx, fact_id: str, places: Sequence[int]) -> int:
    named = [{"address_id": address_id, "entry_id": fact_id} for address_id in places]
    return sum(tx.run("erase_idempotency_of_entry", **one) for one in named)


def forget_answers(tx: Tx, addresses: Sequence[int]) -> int:
    count = tx.run("erase_idempotency", addresses=encode_numbers(addresses))
    tx.send("delete_idempotency_touches", addresses=encode_numbers(addresses))
    return count


def forget_record(tx: Tx, address_id: int) -> int:
    """Delete the record at an address with all of its versions. Return the number of records."""
    tx.send("delete_ties", address_id=address_id)
    tx.send("delete_record_versions", address_id=address_id)
    return tx.run("delete_record", address_id=address_id)


def files_of(address_id: int) -> int:
    """The pseudo-address that stands for the files of a session among the addresses that a run has touched. Runs outlive a
    session, but their copies of the names and links of its files must not."""
    return address_id | _FILES_OF


def forget_runs(tx: Tx, addresses: Sequence[int], spared: str | None = None) -> dict[str, int]:
    """Empty the inputs and outputs of the workflow runs that touched some addresses, and the stored answers that name them.
    Return the number of runs."""
    known = [row[0] for row in tx.rows("runs_of", addresses=encode_numbers(addresses))]
    runs = [run_id for run_id in known if spared not in (run_id, EVERY_RUN)]
    for some in batches(runs):
        forget_answers(tx, [thing_of(RUN, run_id) for run_id in some])
        for statement in ("empty_runs", "delete_steps_of_runs", "delete_touches_of_runs"):
            tx.send(statement, runs=msgspec.json.encode(some).decode())
    if len(runs) < len(known):
        tx.send("delete_touches_of", addresses=encode_numbers(addresses))
    return {"runs": len(runs)} if runs else {}


# -- deleting, in the `erase` job --------------------------------------------------------------------------------------------


def erase(run: JobRun) -> dict[str, Any]:
    """Run the `erase` job. Each step stores its progress on the job, so that it continues after a crash."""
    addresses: list[tuple[int, str]] = run.payload.get("addresses", [])
    layers: Counter[str] = Counter((run.progress or run.payload).get("layers"))

    def sample(tx: Tx) -> tuple[list[bytes], list[str]]:
        digests = [digest for address_id, kind in addresses if kind in FILED for digest in _digests_at(tx, address_id)]
        return _needles(tx, addresses), digests

    def scrub(rewrite: Rewrite) -> int:
        if not run.scrub(rewrite):
            raise Unavailable("A reader is in the way of the removal of the last traces. The job will be retried.")
        return _count_traces(run, addresses, needles, digests)

    needles, digests = run.read(sample)
    at = 0
    while at < len(addresses):
        at, layers = run.write(partial(_erase_some, run=run, addresses=addresses, at=at, layers=layers))
    if run.read(_find_forgotten_users):
        run.write(_drop_forgotten_users)
    kept = {"kept": run.payload["kept"]} if run.payload.get("kept") else {}
    residual = scrub("small") and scrub("always")
    remains = [one._asdict() for one in run.find_remains()]
    return {"layers": dict(layers), "residual": residual, **({"remains": remains} if remains else {}), **kept}


def run_erase(engine: Any, run: JobRun) -> dict[str, Any] | Repeat:
    """Run the `erase` job, and drop the caches of this process."""
    receipt = erase(run)
    engine.drop_caches(run.reach.key)
    return receipt


def _erase_some(
    tx: Tx, *, run: JobRun, addresses: Sequence[tuple[int, str]], at: int, layers: Counter[str]
) -> tuple[int, Counter[str]]:
    """Delete one batch of entries and emptied addresses. Return the next position and the counts."""
    layers, deleted, stop = layers.copy(), 0, at + BATCH
    while at < min(len(addresses), stop) and deleted < BATCH:
        address_id, kind = addresses[at]
        count = _delete_batch(tx, address_id)
        layers["facts" if kind == "facts" else "entries"] += count
        deleted += count
        if not count:
            if kind in FILED and (files := forget_files(tx, run.blobs, address_id)):
                layers["files"] += files
            if kind == "record":
                layers["records"] += forget_record(tx, address_id)
            tx.send("delete_address", id=address_id)
            at += 1
    run.note(tx, {"layers": layers})
    return at, layers


def _find_forgotten_users(tx: Tx) -> bool:
    """Return True if there are users of whom nothing is left but the name."""
    return bool(tx.rows("unused_anchors", limit=1) or tx.rows("users_without_records", limit=1))


def _drop_forgotten_users(tx: Tx) -> None:
    """Delete the names of users of whom nothing else is left."""
    for (address_id,) in tx.rows("unused_anchors", limit=BATCH):
        tx.send("delete_address", id=address_id)
    for (collection_id,) in tx.rows("users_without_records", limit=BATCH):
        forget_answers(tx, [thing_of("collection", str(collection_id))])
        tx.send("delete_collection", id=collection_id)


def _delete_batch(tx: Tx, address_id: int) -> int:
    row = tx.row("first_seq", address_id=address_id)
    if row is None or row[0] is None:
        return 0
    last = row[0] + BATCH - 1
    upkeep.remove_entries(tx, tx.rows("docids_to", address_id=address_id, seq=last), noted=False)
    return tx.run("delete_entries_to", address_id=address_id, seq=last)


def _needles(tx: Tx, addresses: Sequence[tuple[int, str]]) -> list[bytes]:
    """Take samples of long texts and long words, to search for them after the deletion."""
    found: list[bytes] = []
    words: list[bytes] = []
    for address_id, kind in addresses:
        query = "sample_values" if kind == "record" else "sample_contents"
        rows = tx.rows(query, address_id=address_id, limit=SAMPLES - len(found))
        texts = [text for row in rows for text in (_leaves(row[0]) if kind == "record" else [row[0]])]
        if kind in FILED:
            texts += [row[5] for row in tx.rows("files_of", address_id=address_id)]
        found += [text.encode()[-SHINGLE:] for text in texts if len(text) >= SHINGLE]
        words += [word.encode() for text in texts for word in _WORD.findall(text)[:2]]
        if len(found) >= SAMPLES:
            break
    return found[:SAMPLES] + words[:SAMPLES]


def _leaves(data: str) -> Iterator[str]:
    """The strings in a value, in JSON notation, without the names of fields, because schemas contain these too."""
    waiting = [msgspec.json.decode(data)]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield msgspec.json.encode(text).decode()[1:-1]
            case dict() as inner:
                waiting += inner.values()
            case list() as items:
                waiting += items


def _count_traces(
    run: JobRun, addresses: Sequence[tuple[int, str]], needles: list[bytes], digests: Sequence[str]
) -> int:
    """Count the remaining traces: rows of the erased addresses, their words in the database files, and their blobs."""

    def count(tx: Tx) -> int:
        rows = [tx.row("count_rows_of_address", address_id=address_id) for address_id, _ in addresses]
        blobs = run.blobs.within(tx)
        orphans = sum(blobs.has(digest) and not _is_named(tx, digest) for digest in digests)
        return sum(int(row[0]) for row in rows if row) + orphans

    words = [needle for needle in run.residue(needles) if not run.read(partial(_lives, needle=needle))]
    return run.read(count) + len(words)


def _lives(tx: Tx, *, needle: bytes) -> bool:
    """Return True if data that is not erased contains the same text."""
    text = needle.decode(errors="ignore")
    for special in "!%_":
        text = text.replace(special, "!" + special)
    return any(tx.row(query, pattern=f"%{text}%") is not None for query in _ALIVE)


# -- files -----------------------------------------------------------------------------------------------------------------


def forget_files(tx: Tx, blobs: Blobs, address_id: int) -> int:
    """Delete the files at an address, and their bytes unless another file has the same. Return the number of files."""
    digests = _digests_at(tx, address_id)
    count = tx.run("delete_files_of", address_id=address_id) if digests else 0
    for digest in dict.fromkeys(digests):
        delete_orphan(tx, blobs, digest)
    return count


def delete_orphan(tx: Tx, blobs: Blobs, digest: str) -> bool:
    """Delete a blob unless a file has it. Return True if it was deleted."""
    if _is_named(tx, digest):
        return False
    blobs.within(tx).delete(digest)
    return True


def _digests_at(tx: Tx, address_id: int) -> list[str]:
    return [row[4] for row in tx.rows("files_of", address_id=address_id)]


def _is_named(tx: Tx, digest: str) -> bool:
    return tx.row("digest_named", digest=digest) is not None


def sweep_later(tx: Tx, now: int) -> None:
    """Schedule the `sweep` job, which deletes the remains of interrupted uploads."""
    queue.ensure_slot(tx, "sweep", now + 2 * GRACE, now)


def has_sweep_job(tx: Tx) -> bool:
    return tx.row("find_slot", slot="sweep") is not None


def sweep(run: JobRun) -> Repeat:
    """Run the `sweep` job: delete orphan blobs. It repeats soon if an upload may be running, and otherwise every day, because an
    upload may begin after the blobs were listed."""

    def list_orphans(tx: Tx, some: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        return [one for one in some if not _is_named(tx, one[0])]

    def delete(tx: Tx, digests: Sequence[str]) -> None:
        for digest in digests:
            delete_orphan(tx, run.blobs, digest)

    now = run.clock.now()
    under_way = run.blobs.tidy(now - GRACE)
    for some in batches(list(run.blobs.list())):
        orphans = run.read(partial(list_orphans, some=some))
        old = [digest for digest, stored_at in orphans if stored_at < now - GRACE]
        under_way = under_way or len(old) < len(orphans)
        if old:
            run.write(partial(delete, digests=old))
    return Repeat(now + (GRACE if under_way else DAY))


def delete_run(tx: Tx, run_id: str) -> int:
    """Delete a workflow run with its steps, and the stored answers that name it. Return the number of runs."""
    forget_answers(tx, [thing_of(RUN, run_id)])
    tx.send("delete_run_steps", run_id=run_id)
    tx.send("delete_run_touches", run_id=run_id)
    return tx.run("delete_run", id=run_id)


JOBS = (
    JobKind("erase", run_erase),
    JobKind("sweep", lambda _, run: sweep(run)),
)
