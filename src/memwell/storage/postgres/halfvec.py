"""Half-precision vectors between Python and pgvector's `halfvec`, in binary, without a package of their own.

On the wire a halfvec is its number of dimensions and a zero, both of 16 bits, then its numbers, all with the high byte first;
an array of them has a header, and the length of each before it. The engine keeps vectors as they lie in memory, with the low
byte first, those of an entry's parts one after the other.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.types import TypeInfo

from ...errors import Unsupported


class Halves:
    """The vectors of an entry's parts, as the engine keeps them, on their way to a database that numbers its types so."""

    __slots__ = ("data", "dimensions", "kind")

    def __init__(self, data: bytes, dimensions: int, kind: int) -> None:
        self.data = data
        self.dimensions = dimensions
        self.kind = kind


def vectors(halves: Halves) -> bytes:
    """An array of vectors, as it is sent."""
    width = 2 * halves.dimensions
    data = np.frombuffer(halves.data, "<f2").byteswap().tobytes()
    head = struct.pack(">iHH", 4 + width, halves.dimensions, 0)
    parts = [data[at : at + width] for at in range(0, len(data), width)]
    return struct.pack(">iiIii", 1, 0, halves.kind, len(parts), 1) + b"".join(head + part for part in parts)


def number_of_type(connection: psycopg.Connection[Any]) -> int:
    """The number that this database has given the type."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is None:
        raise Unsupported("The extension pgvector (0.7 or newer) is missing here: have it installed on the server.")
    return info.oid


def turned(value: bytes) -> bytes:
    """Numbers as they come, as the engine keeps them."""
    return np.frombuffer(value, ">f2").astype("<f2").tobytes()
