"""Named queries as prepared statements, run through libpq itself, and half-precision vectors in binary.

The engine's statements are small and many, and use few types: psycopg's cursors would take as long as the server does.
Parameters are sent as text, whose types the server infers, except for bytes and vectors; results are binary.

On the wire a `halfvec` of pgvector is its number of dimensions and a zero, both of 16 bits, then its numbers, all with the
high byte first; an array of them has a header, and the length of each before it. The engine keeps vectors in their
in-memory form, with the low byte first; the vectors of an entry's parts follow each other.
"""

from __future__ import annotations

import re
import select
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types import TypeInfo

from ...errors import Unsupported
from ..port import Row


class Halves:
    """The vectors of an entry's parts in the engine's form, with the OID of their type in the database."""

    __slots__ = ("data", "dimensions", "kind")

    def __init__(self, data: bytes, dimensions: int, kind: int) -> None:
        self.data = data
        self.dimensions = dimensions
        self.kind = kind


def encode_vectors(halves: Halves) -> bytes:
    """Encode an array of vectors for the wire."""
    width = 2 * halves.dimensions
    data = np.frombuffer(halves.data, "<f2").byteswap().tobytes()
    head = struct.pack(">iHH", 4 + width, halves.dimensions, 0)
    parts = [data[at : at + width] for at in range(0, len(data), width)]
    return struct.pack(">iiIii", 1, 0, halves.kind, len(parts), 1) + b"".join(head + part for part in parts)


def find_halfvec_oid(connection: psycopg.Connection[Any]) -> int:
    """Return the OID of the type `halfvec` in this database."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is None:
        raise Unsupported("The extension pgvector (0.7 or newer) is missing: have it installed on the server.")
    return info.oid


def to_little_endian(value: bytes) -> bytes:
    """Convert vectors from the wire to the engine's form."""
    return np.frombuffer(value, ">f2").astype("<f2").tobytes()


Connection = psycopg.Connection[tuple[Any, ...]]

_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")
_WRITTEN = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?!SET\b)(\w+)")
_SPECIAL = re.compile(r'(["\\])')
_FINE = frozenset({ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY})
_long = struct.Struct(">q").unpack
_double = struct.Struct(">d").unpack
_word = struct.Struct(">i").unpack

_DECODED: dict[int, Callable[[bytes], Any]] = {
    16: lambda value: value == b"\x01",
    17: bytes,
    20: lambda value: _long(value)[0],
    23: lambda value: _word(value)[0],
    25: lambda value: str(value, "utf-8"),
    701: lambda value: _double(value)[0],
}
"""Decoders by the OID of the type: boolean, bytea, bigint, integer, text, double precision."""

_prepared: WeakKeyDictionary[Connection, set[bytes]] = WeakKeyDictionary()


class Statement(NamedTuple):
    """A query with numbered parameters. Without a name it is not prepared."""

    name: bytes
    sql: bytes
    parameters: tuple[str, ...]
    writes: frozenset[str] = frozenset()
    """The tables that it writes to."""


@lru_cache(1024)
def compile_statement(name: str, sql: str) -> Statement:
    """Compile a query with `:parameters`."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    text = _PARAMETER.sub(number, sql)
    return Statement(name.encode(), text.encode(), tuple(numbers), frozenset(_WRITTEN.findall(sql)))


class Result:
    __slots__ = ("_found",)

    def __init__(self, found: PGresult) -> None:
        self._found = found

    @property
    def count(self) -> int:
        """The number of rows that were changed."""
        return self._found.command_tuples or 0

    def rows(self, most: int | None = None) -> list[Row]:
        found = self._found
        decoders = [_DECODED[found.ftype(column)] for column in range(found.nfields)]
        value = found.get_value
        count = found.ntuples if most is None else min(found.ntuples, most)
        return [
            tuple(
                None if (raw := value(row, column)) is None else decode(raw) for column, decode in enumerate(decoders)
            )
            for row in range(count)
        ]


def run(connection: Connection, statement: Statement, given: dict[str, Any]) -> Result:
    """Run one statement and wait for its result."""
    pgconn, (values, formats) = connection.pgconn, _encode_parameters(statement, given)
    if not statement.name:
        return Result(_require_success(pgconn, pgconn.exec_params(statement.sql, values, None, formats, 1)))
    known = _prepared_names(connection)
    if statement.name not in known:
        _require_success(pgconn, pgconn.prepare(statement.name, statement.sql))
        known.add(statement.name)
    return Result(_require_success(pgconn, pgconn.exec_prepared(statement.name, values, formats, 1)))  # type: ignore[arg-type]


def run_all(connection: Connection, statements: Sequence[tuple[Statement, dict[str, Any]]]) -> Result:
    """Send statements without waiting in between. Return the last result, or raise the first error."""
    pgconn, known = connection.pgconn, _prepared_names(connection)
    prepared: list[bytes] = []  # for each message the statement that it prepares, or an empty name
    pgconn.enter_pipeline_mode()
    try:
        for statement, given in statements:
            if statement.name not in known and statement.name not in prepared:
                pgconn.send_prepare(statement.name, statement.sql)
                prepared.append(statement.name)
            prepared.append(b"")
            values, formats = _encode_parameters(statement, given)
            pgconn.send_query_prepared(statement.name, values, formats, 1)
        pgconn.pipeline_sync()
        results = _read_pipeline(pgconn)
    except BaseException:
        connection.close()  # more results may be on their way
        raise
    pgconn.exit_pipeline_mode()
    known.update(name for name, result in zip(prepared, results, strict=True) if name and result.status in _FINE)
    for result in results:
        _require_success(pgconn, result)
    return Result(results[-1])


def run_text(connection: Connection, text: str) -> PGresult:
    """Run statements without parameters in one round trip. Return the last result."""
    return _require_success(connection.pgconn, connection.pgconn.exec_(text.encode()))


def _prepared_names(connection: Connection) -> set[bytes]:
    return _prepared.setdefault(connection, set())


def _read_pipeline(pgconn: PGconn) -> list[PGresult]:
    """Read the results of a pipeline, one for each statement."""
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            _wait(pgconn)
        result = pgconn.get_result()
        if result is None:
            continue
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        if result.status == ExecStatus.FATAL_ERROR and pgconn.status == ConnStatus.BAD:
            _require_success(pgconn, result)
        results.append(result)


def _wait(pgconn: PGconn) -> None:
    """Wait for the server without blocking other threads. Data that did not fit into the system's buffer is sent meanwhile."""
    unsent = pgconn.flush()
    poll = select.poll()  # `select` is limited to the first thousand file descriptors
    poll.register(pgconn.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
    poll.poll()
    pgconn.consume_input()


def _require_success(pgconn: PGconn, result: PGresult) -> PGresult:
    if result.status in _FINE:
        return result
    if pgconn.status == ConnStatus.BAD:
        raise psycopg.OperationalError(result.error_message.decode(errors="replace").strip())
    raise errors.error_from_result(result)


def _encode_parameters(statement: Statement, given: dict[str, Any]) -> tuple[list[bytes | None], list[int]]:
    values: list[bytes | None] = []
    formats: list[int] = []
    for name in statement.parameters:
        value = given[name]
        kind = type(value)
        binary = 0
        if kind is str:
            value = value.encode()
        elif kind is int:
            value = b"%d" % value
        elif kind is bytes:
            binary = 1
        elif value is not None:
            value, binary = _encode_value(value)
        values.append(value)
        formats.append(binary)
    return values, formats


def _encode_value(value: Any) -> tuple[bytes, int]:
    match value:
        case bool():
            return b"t" if value else b"f", 0
        case float() | int():
            return repr(value).encode(), 0
        case Halves():
            return encode_vectors(value), 1
        case list():
            return _array(value), 0
        case bytes() | bytearray() | memoryview():
            return bytes(value), 1
        case str():
            return str(value).encode(), 0
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be sent")


def _array(items: Sequence[str | bytes]) -> bytes:
    texts = [item if isinstance(item, str) else "\\x" + item.hex() for item in items]
    return ("{" + ",".join('"' + _SPECIAL.sub(r"\\\1", text) + '"' for text in texts) + "}").encode()
