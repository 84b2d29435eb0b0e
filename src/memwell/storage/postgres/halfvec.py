"""Half-precision vectors between Python and pgvector's `halfvec`, in binary, without a package of their own.

On the wire a halfvec is its number of dimensions and a zero, both of 16 bits, then its numbers, all with the high byte first.
The engine keeps vectors as they lie in memory, with the low byte first.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from ...errors import Unsupported


class Half:
    """One vector, the low byte of each number first."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Half) -> bytes:
        numbers = np.frombuffer(obj.data, "<f2")
        return struct.pack(">HH", len(numbers), 0) + numbers.byteswap().tobytes()


def register(connection: psycopg.Connection[Any], context: AdaptContext) -> None:
    """Teach connections to send vectors. The type has another number in every database."""
    info = TypeInfo.fetch(connection, "halfvec")
    if info is None:
        raise Unsupported("The extension pgvector (0.7 or newer) is missing here: have it installed on the server.")
    info.register(context)
    context.adapters.register_dumper(Half, type("HalfDumper", (_Dumper,), {"oid": info.oid}))


def cut(value: bytes, dimensions: int) -> list[Half]:
    """The vectors of an entry's parts, which the engine keeps one after the other."""
    width = 2 * dimensions
    return [Half(value[at : at + width]) for at in range(0, len(value), width)]


def turned(value: Buffer) -> bytes:
    """Numbers as they come, as the engine keeps them."""
    return np.frombuffer(value, ">f2").astype("<f2").tobytes()
