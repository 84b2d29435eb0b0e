"""Half-precision vectors between Python and pgvector's `halfvec`, in binary, without a package of their own.

On the wire a halfvec is its number of dimensions and a zero, both of 16 bits, then its numbers, all with the high byte first;
an array of them has a header, and the length of each before it. The engine keeps vectors as they lie in memory, with the low
byte first, those of an entry's parts one after the other.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np
import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from ...errors import Unsupported


class Halves:
    """The vectors of an entry's parts, as the engine keeps them."""

    __slots__ = ("data", "dimensions")

    def __init__(self, data: bytes, dimensions: int) -> None:
        self.data = data
        self.dimensions = dimensions


class _Dumper(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: Halves) -> bytes:
        width = 2 * obj.dimensions
        data = np.frombuffer(obj.data, "<f2").byteswap().tobytes()
        head = struct.pack(">iHH", 4 + width, obj.dimensions, 0)
        parts = [data[at : at + width] for at in range(0, len(data), width)]
        return struct.pack(">iiIii", 1, 0, self.element, len(parts), 1) + b"".join(head + part for part in parts)


def register(connection: psycopg.Connection[Any], context: AdaptContext) -> None:
    """Teach connections to send vectors. The type has another number in every database."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is None:
        raise Unsupported("The extension pgvector (0.7 or newer) is missing here: have it installed on the server.")
    known = {"oid": info.array_oid, "element": info.oid}
    context.adapters.register_dumper(Halves, type("HalvesDumper", (_Dumper,), known))


def turned(value: Buffer) -> bytes:
    """Numbers as they come, as the engine keeps them."""
    return np.frombuffer(value, ">f2").astype("<f2").tobytes()
