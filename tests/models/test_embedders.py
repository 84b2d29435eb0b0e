"""Embedders: each turns texts into unit vectors, or says in a sentence why it cannot."""

from __future__ import annotations

import json
import logging
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from memwell import Invalid, ModelFailed, config
from memwell.models import wordllama
from memwell.models.embedder import Embedder, Endpoint, Fastembed, Onnx, open_embedder
from memwell.models.minilm import MiniLM
from memwell.models.wordllama import DATA, DIMENSIONS, PIECES, TOKENIZER, WEIGHTS, WordLlama
from memwell.testing import ScriptedEmbedder, word_vector

from ..cases import cases
from ..conformance.scene import outcome, run_python
from ..engines import Memory
from ..scripted import EmbeddingServer

pytestmark = pytest.mark.engines()

if TYPE_CHECKING:
    from memwell.models.embedder import Vectors

TEXTS = ["She moved to Porto.", "", "🦜🦜 🎉", "天気がいい", "a " * 30_000, "x", " \n\t"]
KEY = "sk-never-to-be-seen"


def lengths(vectors: Vectors) -> list[float]:
    return [round(float(length), 4) for length in np.linalg.norm(vectors, axis=1)]


def assert_a_sentence(error: pytest.ExceptionInfo[ModelFailed], *words: str) -> None:
    """A failure is told to people: a sentence that says what is wrong, and none of our insides."""
    text = str(error.value)
    assert text.endswith(".")
    assert text[0].isupper() or "/" in text.split()[0] or text.split()[0] in ("fastembed", "onnxruntime")
    assert "Traceback" not in text
    for word in words:
        assert word in text


# -- WordLlama -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama() -> WordLlama:
    return WordLlama()


ALONE = """
import sys

def no_network(event, arguments):
    if event.startswith("socket.") or event in ("urllib.Request", "subprocess.Popen"):
        raise RuntimeError(event)

sys.addaudithook(no_network)
from memwell.models.wordllama import WordLlama
print(WordLlama().embed(["hello"]).shape)
print([name for name in sys.modules if name.split(".")[0] in ("wordllama", "torch", "safetensors", "huggingface_hub")])
"""


def test_wordllama_needs_neither_its_package_nor_a_network() -> None:
    assert run_python(ALONE).splitlines() == ["(1, 256)", "[]"]


def test_wordllama_gives_unit_vectors_and_zeros_for_nothing(llama: WordLlama) -> None:
    vectors = llama.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), llama.dimensions)
    assert vectors.dtype == np.float32
    assert lengths(vectors)[:6] == [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert np.isfinite(vectors).all()
    assert llama.embed([]).shape == (0, llama.dimensions)


def test_wordllama_gives_the_same_every_time_and_alone_as_in_company(llama: WordLlama) -> None:
    many = TEXTS * 100  # more than one batch
    together = llama.embed(many)
    assert np.array_equal(together, llama.embed(many))
    assert np.array_equal(together, WordLlama().embed(many))
    alone = np.concatenate([llama.embed([text]) for text in TEXTS])
    assert np.abs(together - np.tile(alone, (100, 1))).max() < 1e-6


def test_wordllama_knows_what_is_near(llama: WordLlama) -> None:
    cat, kitten, invoice = llama.embed(["a cat", "a small kitten", "the unpaid invoice"])
    assert cat @ kitten > cat @ invoice
    assert llama.floor < cat @ kitten <= 1


def safetensors(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def described(**changes: Any) -> dict[str, Any]:
    given = {"dtype": "F16", "shape": [PIECES, DIMENSIONS], "data_offsets": [0, PIECES * DIMENSIONS * 2]}
    return {"embedding.weight": given | changes}


DAMAGED_WEIGHTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "three bytes": lambda whole: whole[:3],
    "no data": lambda whole: safetensors(described()),
    "truncated": lambda whole: whole[: len(whole) // 2],
    "one byte short": lambda whole: whole[:-1],
    "not JSON": lambda whole: safetensors(b"{not json"),
    "not text": lambda whole: safetensors(b"\xff\xfe\x00"),
    "a list": lambda whole: safetensors([1, 2]),
    "another tensor": lambda whole: safetensors({"weight": {}}, whole[8:]),
    "another shape": lambda whole: safetensors(described(shape=[DIMENSIONS, PIECES]), whole[8:]),
    "another type": lambda whole: safetensors(described(dtype="F32"), whole[8:]),
    "no offsets": lambda whole: safetensors(described(data_offsets=[]), whole[8:]),
    "offsets of text": lambda whole: safetensors(described(data_offsets=["0", "1"]), whole[8:]),
    "offsets before the file": lambda whole: safetensors(described(data_offsets=[-(10**6), 0]), whole[8:]),
    "offsets beyond all": lambda whole: safetensors(described(data_offsets=[2**70, 2**71]), whole[8:]),
    "a header beyond the file": lambda whole: struct.pack("<Q", 2**63) + whole[8:],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The model's files in a directory of their own, to be damaged."""
    (tmp_path / "model").mkdir()
    for file in (WEIGHTS, TOKENIZER):
        (tmp_path / "model" / file).symlink_to(DATA / file)
    return tmp_path / "model"


def replace(file: Path, data: bytes) -> None:
    file.unlink()
    file.write_bytes(data)


def test_wordllama_is_read_from_any_directory(folder: Path, llama: WordLlama) -> None:
    assert np.array_equal(WordLlama(folder).embed(TEXTS), llama.embed(TEXTS))


@cases("damage", DAMAGED_WEIGHTS)
def test_damaged_weights_are_reported_in_a_sentence(folder: Path, damage: str) -> None:
    replace(folder / WEIGHTS, DAMAGED_WEIGHTS[damage]((folder / WEIGHTS).read_bytes()))
    with pytest.raises(ModelFailed) as error:
        WordLlama(folder)
    assert_a_sentence(error, WEIGHTS, "reinstall memwell")


@cases("data", [b"", b"{", b"{}", b"[]", b"\xff\xfe", b'{"model": {"type": "None"}}'])
def test_a_damaged_tokenizer_is_reported_in_a_sentence(folder: Path, data: bytes) -> None:
    replace(folder / TOKENIZER, data)
    with pytest.raises(ModelFailed) as error:
        WordLlama(folder)
    assert_a_sentence(error, TOKENIZER, "reinstall memwell")


@pytest.mark.parametrize("file", [WEIGHTS, TOKENIZER])
def test_a_missing_file_is_reported_in_a_sentence(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(ModelFailed) as error:
        WordLlama(folder)
    assert_a_sentence(error, file)


@pytest.mark.parametrize("damage", ["truncated", "another shape", "not JSON"])
def test_a_search_with_a_damaged_model_goes_on_with_words_and_says_so(
    tmp_path: Path, folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(folder / WEIGHTS, DAMAGED_WEIGHTS[damage]((folder / WEIGHTS).read_bytes()))
    monkeypatch.setattr(wordllama, "DATA", folder)
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        written = flow.write("The parrot eats mangoes")
        for _ in range(2):
            found = flow.search("parrot")
            assert [hit.id for hit in found] == [written]
            assert found.method == "words"
            assert found.warning is not None
            assert WEIGHTS in found.warning
        assert flow.search("parrot", recipe="words").warning is None, "nobody asked for meaning"


# -- ONNX ------------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[CLS]", "cat", "kitten", "dog", "invoice", "."]
WIDTH = 6


def table(seed: int = 1, width: int = WIDTH) -> Vectors:
    made = np.random.default_rng(seed).normal(size=(len(WORDS), width)).astype(np.float32)
    made[WORDS.index("kitten")] = made[WORDS.index("cat")] + 0.1
    return made


def write_model(path: Path, weights: Vectors, *, types: bool, pooled: bool = False) -> None:
    """A model of one layer: every piece's row of the table."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    tensors = [numpy_helper.from_array(weights, "table")]
    if types:
        tensors.append(numpy_helper.from_array(np.zeros((2, weights.shape[1]), np.float32), "types"))
        nodes.append(helper.make_node("Gather", ["types", "token_type_ids"], ["added"]))
        nodes.append(helper.make_node("Add", ["rows", "added"], ["last_hidden_state"]))
    else:
        nodes.append(helper.make_node("Identity", ["rows"], ["last_hidden_state"]))
    shape: list[Any] = ["batch", "length", weights.shape[1]]
    name = "last_hidden_state"
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["last_hidden_state"], ["sentence"], axes=[1], keepdims=0))
        name, shape = "sentence", ["batch", weights.shape[1]]
    output = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "tiny", inputs, [output], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))


def write_tokenizer(path: Path, *, special: bool = True, unknown: bool = True) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    words = [word for word in WORDS if unknown or word != "[UNK]"]
    tokenizer = Tokenizer(WordLevel({word: WORDS.index(word) for word in words}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    if special:
        tokenizer.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    tokenizer.save(str(path))


def write_pooling(folder: Path, text: str) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(text)


def onnx_folder(
    folder: Path, *, seed: int = 1, types: bool = False, cls: bool | None = None, width: int = WIDTH
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "model.onnx", table(seed, width), types=types)
    write_tokenizer(folder / "tokenizer.json")
    if cls is not None:
        write_pooling(folder, json.dumps({"pooling_mode_cls_token": cls, "pooling_mode_mean_tokens": not cls}))
    return folder


def unit(vector: Vectors) -> Vectors:
    made: Vectors = vector / np.linalg.norm(vector)
    return made


def rows(*words: str) -> Vectors:
    made: Vectors = table()[[WORDS.index(word) for word in words]]
    return made


@cases("types", [False, True], ids=["two inputs", "with token types"])
@cases("cls", [None, False])
def test_onnx_takes_the_mean_of_what_is_not_padding(tmp_path: Path, types: bool, cls: bool | None) -> None:
    model = Onnx(onnx_folder(tmp_path / "m", types=types, cls=cls))
    expected = [rows("[CLS]", "cat", "dog").mean(axis=0), rows("[CLS]", "cat").mean(axis=0)]
    vectors = model.embed(["cat dog", "cat"])
    assert (model.dimensions, vectors.shape) == (WIDTH, (2, WIDTH))
    assert vectors.dtype == np.float32
    assert np.abs(vectors - np.array([unit(one) for one in expected])).max() < 1e-6


def test_onnx_takes_the_first_piece_where_the_directory_says_so(tmp_path: Path) -> None:
    model = Onnx(onnx_folder(tmp_path / "m", cls=True))
    assert np.abs(model.embed(["cat dog", "invoice"]) - unit(rows("[CLS]")[0])).max() < 1e-6


@cases("text", ["{", "{}", "[]", "null", '"mean"', ""])
def test_onnx_takes_the_mean_if_the_pooling_is_not_readable(tmp_path: Path, text: str) -> None:
    folder = onnx_folder(tmp_path / "m")
    plain = Onnx(folder).embed(["cat dog"])
    write_pooling(folder, text)
    assert np.array_equal(Onnx(folder).embed(["cat dog"]), plain)


def test_onnx_takes_a_sentence_vector_as_it_is(tmp_path: Path) -> None:
    folder = onnx_folder(tmp_path / "m")
    write_model(folder / "model.onnx", table(), types=False, pooled=True)
    assert np.abs(Onnx(folder).embed(["cat"])[0] - unit(rows("[CLS]", "cat").max(axis=0))).max() < 1e-6


def test_onnx_gives_alone_what_it_gives_in_company(tmp_path: Path) -> None:
    model = Onnx(onnx_folder(tmp_path / "m"))
    texts = ["cat", "", "🦜", "dog " * 1000, "cat dog kitten invoice"] * 20
    together = model.embed(texts)
    assert set(lengths(together)) == {1.0}
    assert np.abs(together - np.concatenate([model.embed([text]) for text in texts])).max() < 1e-6
    assert model.embed([]).shape == (0, WIDTH)


@pytest.mark.parametrize("cls", [False, True], ids=["mean", "first piece"])
def test_onnx_knows_nothing_of_an_empty_text_if_no_piece_is_added(tmp_path: Path, cls: bool) -> None:
    folder = onnx_folder(tmp_path / "m", cls=cls)
    write_tokenizer(folder / "tokenizer.json", special=False)
    assert lengths(Onnx(folder).embed([""])) == [0.0]


def test_an_onnx_model_is_named_by_what_makes_its_vectors(tmp_path: Path) -> None:
    here, there = Onnx(onnx_folder(tmp_path / "a")), Onnx(onnx_folder(tmp_path / "b"))
    assert here.id == there.id, "wherever it lies"
    assert Onnx(onnx_folder(tmp_path / "c", seed=2)).id != here.id
    assert Onnx(onnx_folder(tmp_path / "d", width=8)).id != here.id


def test_an_onnx_model_with_another_pooling_is_another_model(tmp_path: Path) -> None:
    """Its vectors are others; kept under one name they would be compared with each other."""
    mean, first = Onnx(onnx_folder(tmp_path / "a", cls=False)), Onnx(onnx_folder(tmp_path / "b", cls=True))
    assert not np.array_equal(mean.embed(["cat"]), first.embed(["cat"]))
    assert mean.id != first.id


@cases("file", ["model.onnx", "tokenizer.json"])
@cases("data", [None, b"", b"damaged"], ids=["missing", "empty", "damaged"])
def test_a_missing_or_damaged_onnx_file_is_reported_in_a_sentence(
    tmp_path: Path, file: str, data: bytes | None
) -> None:
    folder = onnx_folder(tmp_path / "m")
    (folder / file).unlink()
    if data is not None:
        (folder / file).write_bytes(data)
    with pytest.raises(ModelFailed) as error:
        Onnx(folder)
    assert_a_sentence(error, file)


def test_a_missing_onnx_directory_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed) as error:
        Onnx(tmp_path / "nowhere")
    assert_a_sentence(error, "nowhere", "model.onnx", "tokenizer.json")


def test_a_tokenizer_that_cannot_take_a_text_is_reported_in_a_sentence(tmp_path: Path) -> None:
    folder = onnx_folder(tmp_path / "m")
    write_tokenizer(folder / "tokenizer.json", unknown=False)
    with pytest.raises(ModelFailed) as error:
        Onnx(folder).embed(["a word that is not in the list"])
    assert_a_sentence(error)


def test_onnx_without_its_runtime_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = onnx_folder(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelFailed) as error:
        Onnx(folder)
    assert_a_sentence(error, "onnxruntime is not installed", "memwell[onnx]")


def test_a_search_with_an_onnx_model_finds_by_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", f"onnx:{onnx_folder(tmp_path / 'm')}")
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        kitten, _ = flow.write("kitten"), flow.write("invoice")
        found = flow.search("cat", explain=True)
        assert (found[0].id, found.method, found.warning) == (kitten, "words+meaning", None)
        assert found[0].arms is not None
        assert found[0].arms["meaning"] > 0.3


# -- an endpoint -----------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


def endpoint(server: EmbeddingServer, timeout_s: float = 5.0) -> Endpoint:
    return Endpoint("tiny", server.url, KEY, timeout_s=timeout_s)


def test_an_endpoint_is_asked_as_openai_is(server: EmbeddingServer) -> None:
    vectors = endpoint(server).embed(["one", ""])
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {"model": "tiny", "input": ["one", " "], "encoding_format": "float"}
    assert np.abs(vectors - np.array([word_vector("one", 32), [0.0] * 32], np.float32)).max() < 1e-6


def test_an_endpoint_without_a_key_is_sent_none(server: EmbeddingServer) -> None:
    Endpoint("tiny", server.url + "/", "").embed(["one"])
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].path == "/v1/embeddings"


def test_many_texts_are_sent_in_batches_and_come_back_in_order(server: EmbeddingServer) -> None:
    texts = [f"word{n}" for n in range(2 * Endpoint.BATCH + 1)]
    model = endpoint(server)
    vectors = model.embed(texts)
    assert [len(request.body["input"]) for request in server.requests] == [Endpoint.BATCH, Endpoint.BATCH, 1]
    assert np.abs(vectors - np.array([word_vector(text, 32) for text in texts], np.float32)).max() < 1e-6
    assert model.embed([]).shape == (0, 32)
    assert len(server.requests) == 3


def test_an_endpoint_is_named_by_its_model_and_place(server: EmbeddingServer) -> None:
    assert endpoint(server).id == f"openai:tiny@{server.url.split('/')[2]}"
    assert endpoint(server).dimensions == 32


@cases("answer", ["error", "busy", "garbage", "half"])
def test_a_failing_endpoint_is_reported_in_a_sentence_and_recovers(server: EmbeddingServer, answer: Any) -> None:
    model = endpoint(server)
    server.answer = answer
    for ask in (lambda: model.embed(["one"]), lambda: model.dimensions):
        with pytest.raises(ModelFailed) as error:
            ask()
        assert_a_sentence(error, "endpoint")
        assert KEY not in str(error.value)
    server.answer = "normal"
    assert model.embed(["one"]).shape == (1, 32)


BODIES: dict[str, bytes] = {
    "nothing": b"{}",
    "null": b"null",
    "no list": b'{"data": 7}',
    "no vectors": b'{"data": []}',
    "too many": b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}',
    "no index": b'{"data": [{"embedding": [1.0, 2.0]}]}',
    "words": b'{"data": [{"index": 0, "embedding": ["one", "two"]}]}',
    "a word": b'{"data": [{"index": 0, "embedding": "one"}]}',
    "base64": b'{"data": [{"index": 0, "embedding": "AACAPwAAAEA="}]}',
    "deep": b'{"data": [{"index": 0, "embedding": [[1.0, 2.0]]}]}',
    "null numbers": b'{"data": [{"index": 0, "embedding": [null, 1.0]}]}',
    "no numbers": b'{"data": [{"index": 0, "embedding": []}]}',
    "beyond a float": b'{"data": [{"index": 0, "embedding": [1' + b"0" * 400 + b", 1.0]}]}",
    "infinite": b'{"data": [{"index": 0, "embedding": [Infinity, 1.0]}]}',
    "very large": b'{"data": [{"index": 0, "embedding": [1e300, 1.0]}]}',
    "not text": b"\xff\xfe",
    "endless depth": b'{"data": ' + b"[" * 100_000,
}


@cases("body", BODIES)
def test_an_invalid_answer_is_refused_in_a_sentence(server: EmbeddingServer, body: str) -> None:
    server.body = BODIES[body]
    with pytest.raises(ModelFailed) as error:
        endpoint(server).embed(["one"])
    assert_a_sentence(error, "endpoint")


def test_numbers_that_are_none_are_no_direction(server: EmbeddingServer) -> None:
    """What JSON cannot say some servers send all the same."""
    server.body = b'{"data": [{"index": 0, "embedding": [NaN, 1.0]}]}'
    result = outcome(lambda: endpoint(server).embed(["one"]))
    assert isinstance(result, ModelFailed) or np.isfinite(result).all()


def test_another_dimension_is_refused(server: EmbeddingServer) -> None:
    model = endpoint(server)
    server.answer = "wrong_dimension"
    with pytest.raises(ModelFailed, match="did not return one vector for each text"):
        model.embed(["one", "two"])
    server.answer = "normal"
    assert model.embed(["one"]).shape == (1, 32)
    for server.answer, server.dimensions in (("wrong_dimension", 32), ("normal", 48)):
        with pytest.raises(ModelFailed, match=r"returned \d\d dimensions instead of 32"):
            model.embed(["one"])
    assert model.dimensions == 32


@pytest.mark.parametrize("answer", ["hang", "drip"])
def test_an_endpoint_that_does_not_finish_is_given_up(server: EmbeddingServer, answer: Any) -> None:
    """Whether it says nothing, or a byte now and then: somebody is waiting."""
    server.answer = answer
    closes_at = time.monotonic() + 60
    with closing_at(server, closes_at), pytest.raises(ModelFailed) as error:
        endpoint(server, timeout_s=0.3).embed(["one"])
    assert_a_sentence(error, "endpoint")


def test_an_unreachable_address_is_reported_in_a_sentence() -> None:
    with EmbeddingServer() as gone:
        pass
    with pytest.raises(ModelFailed) as error:
        endpoint(gone).embed(["one"])
    assert_a_sentence(error, "endpoint")


@cases("url", ["", "nonsense", "ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:99999"])
def test_an_invalid_address_is_reported_in_a_sentence(url: str) -> None:
    with pytest.raises((ModelFailed, Invalid)) as error:
        Endpoint("tiny", url, KEY).embed(["one"])
    assert str(error.value).endswith(".")
    assert KEY not in str(error.value)


@cases("key", [f"{KEY}\r", f"{KEY}\n", f"{KEY}\0", f"{KEY}ü"])
def test_a_key_that_cannot_be_sent_is_not_shown(server: EmbeddingServer, key: str) -> None:
    """A line end that came with the key from a file must not bring the key into the error."""
    result = outcome(lambda: Endpoint("tiny", server.url, key).embed(["one"]))
    if isinstance(result, Exception):
        assert isinstance(result, ModelFailed | Invalid)
        assert KEY not in str(result)
    else:
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_password_in_the_address_is_in_no_name_and_no_error(server: EmbeddingServer) -> None:
    model = Endpoint("tiny", server.url.replace("http://", f"http://somebody:{KEY}@"), "")
    assert KEY not in model.id, "the name is stored"
    server.answer = "error"
    with pytest.raises(ModelFailed) as error:
        model.embed(["one"])
    assert KEY not in str(error.value)


@cases("answer", ["normal", "error", "garbage", "half", "hang"])
def test_the_key_is_in_no_log(server: EmbeddingServer, answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer = answer
    result = outcome(lambda: endpoint(server, timeout_s=0.2).embed(["a secret sentence"]))
    assert KEY not in repr(result)
    assert server.requests
    assert KEY not in caplog.text
    assert "a secret sentence" not in caplog.text


class closing_at:  # noqa: N801 -- read as a verb
    """Let the server go at a moment, so that a client which would wait for ever fails its test instead."""

    def __init__(self, server: EmbeddingServer, moment: float) -> None:
        from threading import Timer

        self._timer = Timer(max(moment - time.monotonic(), 0), server.closing.set)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()


# -- fastembed -------------------------------------------------------------------------------------------------------


class FakeTextEmbedding:
    """What of `fastembed.TextEmbedding` is used: it yields arrays, of any length."""

    def __init__(self, width: int = 16) -> None:
        self._width = width

    def embed(self, texts: Sequence[str]) -> Iterator[Any]:
        for text in texts:
            yield 3.0 * np.array(word_vector(text, self._width))


def test_fastembed_gives_unit_vectors_of_the_models_width() -> None:
    asked: list[str] = []

    def load(name: str) -> FakeTextEmbedding:
        asked.append(name)
        return FakeTextEmbedding()

    model = Fastembed("BAAI/small", load)
    assert asked == ["BAAI/small"]
    assert (model.id, model.dimensions) == ("fastembed:BAAI/small", 16)
    vectors = model.embed(["one two", "", "three"])
    assert lengths(vectors) == [1.0, 0.0, 1.0]
    assert vectors.dtype == np.float32
    assert model.embed([]).shape == (0, 16)


def test_fastembed_that_cannot_load_is_reported_in_a_sentence() -> None:
    def load(name: str) -> Any:
        raise OSError("no network")

    with pytest.raises(ModelFailed) as error:
        Fastembed("BAAI/small", load)
    assert_a_sentence(error, "BAAI/small", "no network")


def test_fastembed_that_fails_later_is_reported_in_a_sentence() -> None:
    fake = FakeTextEmbedding()
    model = Fastembed("BAAI/small", lambda name: fake)

    def broken(texts: Sequence[str]) -> Iterator[Any]:
        raise RuntimeError("out of memory")

    fake.embed = broken  # type: ignore[method-assign]
    with pytest.raises(ModelFailed) as error:
        model.embed(["one"])
    assert_a_sentence(error)


def test_fastembed_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(ModelFailed) as error:
        open_embedder(config.load(embedder="fastembed:BAAI/small"))
    assert_a_sentence(error, "fastembed is not installed", "pip install fastembed")


# -- choosing --------------------------------------------------------------------------------------------------------

PLUGIN = """
from memwell.testing import ScriptedEmbedder

def make(name):
    return ScriptedEmbedder(f"mine:{name}", dimensions=12)

def broken(name):
    raise RuntimeError("this plugin is broken")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed as far as anybody can tell, and registers embedders."""
    site = tmp_path / "site"
    about = site / "memwell_mine-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: memwell-mine\nVersion: 1.0\n")
    points = ["mine = memwell_mine:make", "broken = memwell_mine:broken", "missing = memwell_gone:make"]
    (about / "entry_points.txt").write_text("[memwell.embedders]\n" + "\n".join(points) + "\n")
    (site / "memwell_mine.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "memwell_mine", raising=False)


def chosen(name: str) -> Embedder | None:
    return open_embedder(config.load(embedder=name))


def test_a_plugin_is_chosen_by_its_name_and_given_the_rest(plugin: None) -> None:
    model = chosen("mine:some/model:7b")
    assert isinstance(model, ScriptedEmbedder)
    assert (model.id, model.dimensions) == ("mine:some/model:7b", 12)
    alone = chosen("mine")
    assert alone is not None
    assert alone.id == "mine:"


def test_a_search_with_a_plugin_finds_by_meaning(tmp_path: Path, plugin: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", "mine:x")
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        written = flow.write("Ships to the EU only")
        found = flow.search("ships to the EU only", recipe="meaning")
        assert [hit.id for hit in found] == [written]
        assert (found.method, found.warning) == ("meaning", None)


@pytest.mark.parametrize("name", ["broken", "missing"])
def test_a_plugin_that_cannot_be_loaded_leaves_search_its_words(
    tmp_path: Path, plugin: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", name)
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        written = flow.write("Ships to the EU only")
        found = flow.search("ships")
        assert [hit.id for hit in found] == [written]
        assert found.method == "words"
        assert found.warning


@cases("name", ["nobody", "nobody:x", "onnx", "onnx:", "openai", "openai:", "fastembed:", ":", "Mine"])
def test_an_unknown_name_is_refused_with_the_list(plugin: None, name: str) -> None:
    if name == ":":
        assert isinstance(chosen(name), MiniLM)
        return
    with pytest.raises(Invalid) as error:
        chosen(name)
    for kind in ("minilm", "wordllama", "none", "onnx:DIRECTORY", "openai:MODEL", "fastembed:MODEL", "plugin"):
        assert kind in str(error.value)


def test_a_search_under_an_unknown_name_goes_on_with_words_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMWELL_EMBEDDER", "nobody")
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        written = flow.write("Ships to the EU only")
        found = flow.search("ships")
        assert [hit.id for hit in found] == [written]
        assert found.method == "words"
        assert "MEMWELL_EMBEDDER" in (found.warning or "")


def test_meaning_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen("none") is None
    assert isinstance(chosen("wordllama"), WordLlama)
    monkeypatch.setenv("MEMWELL_EMBEDDER", "none")
    with Memory(tmp_path / "home", worker=False) as memory:
        flow = memory.flow("f")
        written = flow.write("Ships to the EU only")
        found = flow.search("ships")
        assert [hit.id for hit in found] == [written]
        assert (found.method, found.warning) == ("words", None)
        assert memory.jobs.list(kind="embed") == [], "there is nothing to embed with"
