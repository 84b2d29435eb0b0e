"""Build the file of the sentence model all-MiniLM-L6-v2 from the weights of another ONNX file.

The other file computes in 32 bits, with a mask for batches of texts. This one has the same layers for one text at a time, and
multiplies integers: it takes a third of the time and of the memory. Weights keep seven of their eight bits: with eight, older
processors would overflow, and a text would have another vector there.

An ONNX file is a message of Protocol Buffers. The few parts of it that are needed are read and written here, so that a build
needs no other package and the same input gives the same bytes.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

LAYERS, HEADS, WIDTH, INNER, POSITIONS = 6, 12, 384, 1536, 256
EPSILON = 1e-12
FLOAT, INT8, INT64 = 1, 3, 7
"""Numbers of ONNX for types."""
NOTICE = b"all-MiniLM-L6-v2 of sentence-transformers (Apache-2.0), rewritten with weights of seven bits for Memwell."
HALF = bytes(round((value - 256 if value > 127 else value) / 2) & 255 for value in range(256))
"""For each weight of eight bits, the one of seven."""

Value = int | float | bytes


class Tensor(NamedTuple):
    """The numbers of a constant as bytes."""

    kind: int
    shape: tuple[int, ...]
    data: bytes

    def floats(self) -> array[float]:
        return array("f", self.data)


def build_model(source: bytes) -> bytes:
    """Return a model with the weights of another one. It maps the pieces of one text to a unit vector."""
    return _Graph(_read_tensors(source)).build()


class _Graph:
    """The layers of the model, as they are written one after the other. Each value is known by its name."""

    def __init__(self, source: dict[str, Tensor]) -> None:
        self._source = {name.removeprefix("inner."): tensor for name, tensor in source.items()}
        # The matrices have numbers for names, in the order in which they are used: six for each layer.
        numbers = sorted(int(name[4:-2]) for name in source if name.startswith("val_") and name.endswith("_q"))
        self._matrices = [f"val_{number}" for number in numbers]
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def build(self) -> bytes:
        self._constant("heads", INT64, (4,), struct.pack("<4q", 0, 0, HEADS, WIDTH // HEADS))
        self._constant("joined", INT64, (3,), struct.pack("<3q", 0, 0, WIDTH))
        layer = self._embeddings()
        for number in range(LAYERS):
            layer = self._layer(layer, number)
        self._constant("along", INT64, (1,), struct.pack("<q", 1))
        mean = self._node("ReduceMean", [layer, "along"], "mean", keepdims=0)
        self._node("LpNormalization", [mean], "vector", axis=-1, p=2)
        graph = [*(_field(1, node) for node in self._nodes), _field(2, b"minilm"), *self._constants]
        graph += [_field(11, _declare("pieces", INT64, "length")), _field(12, _declare("vector", FLOAT, WIDTH))]
        version = _field(2, 20)
        return b"".join([_field(1, 9), _field(6, NOTICE), _field(7, b"".join(graph)), _field(8, version)])

    def _embeddings(self) -> str:
        """The sum of the vectors of a piece and of its place."""
        words, scale = "embeddings.word_embeddings.weight_q", "embeddings.word_embeddings.weight_scale"
        for name in (words, scale):
            self._constant(name, *self._source[name])
        rows = self._node("Cast", [self._node("Gather", [words, "pieces"], "rows")], "row_floats", to=FLOAT)
        words = self._node("Mul", [rows, self._node("Gather", [scale, "pieces"], "row_scales")], "words")
        self._floats("all_places", self._places(), WIDTH)
        for name, value in (("zero", 0), ("one", 1), ("two", 2)):
            self._constant(name, INT64, (1,), struct.pack("<q", value))
        length = self._node("Slice", [self._node("Shape", ["pieces"], "shape"), "one", "two"], "length")
        places = self._node("Slice", ["all_places", "zero", length], "places")
        return self._normalize(self._node("Add", [words, places], "summed"), "embeddings.LayerNorm", "embedded")

    def _places(self) -> array[float]:
        """The vectors of the places of a text, with that of its only segment."""
        weights = array("b", self._source["embeddings.position_embeddings.weight_q"].data)
        scales = self._source["embeddings.position_embeddings.weight_scale"].floats()
        segment = self._source["embeddings.token_type_embeddings.weight"].floats()
        size = POSITIONS * WIDTH
        return array("f", (weights[at] * scales[at // WIDTH] + segment[at % WIDTH] for at in range(size)))

    def _layer(self, layer: str, number: int) -> str:
        """Attention and a net of two steps, each added to what came in."""
        name, prefix = f"layer{number}", f"encoder.layer.{number}"
        attention = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        matrices = self._matrices[number * 6 : number * 6 + 6]
        mixed = self._multiply(layer, f"{name}_mixed", matrices[:3], attention, (WIDTH // HEADS) ** -0.5)
        parts = [f"{name}_{part}" for part in ("query", "key", "value")]
        self._node("Split", [mixed], *parts, axis=2, num_outputs=3)
        query, key, value = (
            self._node("Transpose", [self._node("Reshape", [part, "heads"], f"{part}s")], f"{part}_turned", perm=order)
            for part, order in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
        )
        weights = self._node(
            "Softmax", [self._node("MatMul", [query, key], f"{name}_likeness")], f"{name}_weights", axis=-1
        )
        seen = self._node("MatMul", [weights, value], f"{name}_seen")
        seen = self._node("Transpose", [seen], f"{name}_seen_turned", perm=(0, 2, 1, 3))
        seen = self._node("Reshape", [seen, "joined"], f"{name}_seen_joined")
        seen = self._multiply(seen, f"{name}_attended", matrices[3:4], [f"{prefix}.attention.output.dense"])
        layer = self._node("Add", [seen, layer], f"{name}_attention_sum")
        layer = self._normalize(layer, f"{prefix}.attention.output.LayerNorm", f"{name}_attention")
        inner = self._multiply(layer, f"{name}_inner", matrices[4:5], [f"{prefix}.intermediate.dense"])
        inner = self._node("Gelu", [inner], f"{name}_active")
        inner = self._multiply(inner, f"{name}_outer", matrices[5:6], [f"{prefix}.output.dense"])
        layer = self._node("Add", [inner, layer], f"{name}_sum")
        return self._normalize(layer, f"{prefix}.output.LayerNorm", f"{name}_output")

    def _multiply(
        self, layer: str, name: str, matrices: Sequence[str], biases: Sequence[str], first: float = 1.0
    ) -> str:
        """Multiply by one matrix, or by several beside each other. `first` scales what the first one gives."""
        tensors = [self._source[f"{matrix}_q"] for matrix in matrices]
        rows, width = tensors[0].shape
        data = b"".join(tensor.data[row * width : row * width + width] for row in range(rows) for tensor in tensors)
        self._constant(f"{name}_matrix", INT8, (rows, width * len(matrices)), data.translate(HALF))
        factors = [first, *(1.0 for _ in matrices[1:])]
        scales, shifts = array("f"), array("f")
        for matrix, bias, factor in zip(matrices, biases, factors, strict=True):
            scales.extend(2 * factor * value for value in self._source[f"{matrix}_scale"].floats())
            shifts.extend(factor * value for value in self._source[f"{bias}.bias"].floats())
        self._floats(f"{name}_scales", scales)
        self._floats(f"{name}_bias", shifts)
        whole = [f"{name}_integers", f"{name}_scale", f"{name}_zero"]
        self._node("DynamicQuantizeLinear", [layer], *whole)
        product = self._node("MatMulInteger", [whole[0], f"{name}_matrix", whole[2]], f"{name}_product")
        product = self._node("Cast", [product], f"{name}_floats", to=FLOAT)
        scale = self._node("Mul", [whole[1], f"{name}_scales"], f"{name}_all_scales")
        product = self._node("Mul", [product, scale], f"{name}_scaled")
        return self._node("Add", [product, f"{name}_bias"], name)

    def _normalize(self, layer: str, weights: str, name: str) -> str:
        for part in ("weight", "bias"):
            self._constant(f"{weights}.{part}", *self._source[f"{weights}.{part}"])
        return self._node("LayerNormalization", [layer, f"{weights}.weight", f"{weights}.bias"], name, epsilon=EPSILON)

    def _node(self, kind: str, inputs: Sequence[str], *outputs: str, **attributes: int | float | Sequence[int]) -> str:
        parts = [_field(1, name.encode()) for name in inputs] + [_field(2, name.encode()) for name in outputs]
        parts += [_field(3, outputs[0].encode()), _field(4, kind.encode())]
        parts += [_field(5, _attribute(name, value)) for name, value in attributes.items()]
        self._nodes.append(b"".join(parts))
        return outputs[0]

    def _floats(self, name: str, values: array[float], width: int = 0) -> None:
        self._constant(name, FLOAT, (len(values) // width, width) if width else (len(values),), values.tobytes())

    def _constant(self, name: str, kind: int, shape: Sequence[int], data: bytes) -> None:
        sizes = b"".join(_field(1, size) for size in shape)
        self._constants.append(_field(5, sizes + _field(2, kind) + _field(8, name.encode()) + _field(9, data)))


def _attribute(name: str, value: int | float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _field(1, name.encode()) + _field(2, value) + _field(20, 1)
    if isinstance(value, int):
        return _field(1, name.encode()) + _field(3, value) + _field(20, 2)
    return _field(1, name.encode()) + b"".join(_field(8, one) for one in value) + _field(20, 7)


def _declare(name: str, kind: int, size: int | str) -> bytes:
    """The declaration of an input or an output with one row."""
    last = _field(1, size) if isinstance(size, int) else _field(2, size.encode())
    shape = _field(1, _field(1, 1)) + _field(1, last)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _read_tensors(model: bytes) -> dict[str, Tensor]:
    """The constants of a model by their names."""
    tensors = {}
    (graph,) = (value for number, value in _read_fields(model) if number == 7)
    for number, value in _read_fields(graph):
        if number == 5:
            fields = list(_read_fields(value))
            shape = tuple(size for at, sizes in fields if at == 1 for size in _read_numbers(sizes))
            single = {at: part for at, part in fields if at != 1}
            tensors[bytes(single[8]).decode()] = Tensor(int(single[2]), shape, bytes(single.get(9, b"")))
    return tensors


def _read_numbers(value: int | memoryview) -> Iterator[int]:
    """The numbers of a field: one, or several that are packed."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _read_varint(value, at)
        yield number


def _read_fields(data: bytes | memoryview) -> Iterator[tuple[int, Any]]:
    """The fields of a message: the number of each, and an integer or bytes."""
    view, at = memoryview(data), 0
    while at < len(view):
        key, at = _read_varint(view, at)
        if key & 7 == 0:
            number, at = _read_varint(view, at)
            yield key >> 3, number
        else:
            size, at = _read_varint(view, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            yield key >> 3, view[at : at + size]
            at += size


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = view[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _field(number: int, value: Value) -> bytes:
    """A field of a message: an integer, a float of 32 bits, or bytes."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
