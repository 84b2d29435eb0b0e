"""The default sentence model: its tokenizer, its vectors, and what happens without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hatch_build
import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

from memwell import ModelFailed, config
from memwell.models.embedder import open_embedder, open_light_embedder, open_minilm
from memwell.models.minilm import DIMENSIONS, FILES, MAX_PIECES, VOCABULARY, WEIGHTS, MiniLM, QueryCache
from memwell.models.word_pieces import WordPieces
from memwell.models.wordllama import DATA, WordLlama

from ..cases import cases
from ..conformance.scene import run_python

pytestmark = pytest.mark.engines()


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


@pytest.fixture(scope="module")
def pieces() -> WordPieces:
    return WordPieces(DATA / VOCABULARY)


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    """The general tokenizer with the settings of the model."""
    lines = (DATA / VOCABULARY).read_text(encoding="utf-8").splitlines()
    numbers = {piece: number for number, piece in enumerate(lines)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    ends = [(name, numbers[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.enable_truncation(MAX_PIECES)
    return tokenizer


# -- the tokenizer ---------------------------------------------------------------------------------------------------

TEXTS = [
    "",
    " \n\t",
    "Rosalind's kiln reached 1,240 °C -- too hot!",
    "Café ÉCLAIR naïve Zürich façade Ångström",
    "İstanbul'da ΣΊΣΥΦΟΣ Σ",
    "Привет, мир",
    "天気がいい。東京へ行く",
    "가나다 라마",
    "שלום עולם",
    "नमस्ते दुनिया",
    "🦜 parrots🦜and 👩‍🚀",
    "a\x00b c\x0bd e\x85f g\u200bh i\u2028j k\u00a0l m\ufffdn o\x1cp",
    "don't [brackets] {braces} a_b `c` ~d~ $5 +1 <x> ^y",
    "x" * 100,
    "x" * 101,
    "word " * 400,
    "antidisestablishmentarianism floccinaucinihilipilification",
]
RANGES = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA), (0x627, 0x64A)]
RANGES += [(0x905, 0x94D), (0x2010, 0x2027), (0x20A0, 0x20AC), (0x3001, 0x3011), (0x3041, 0x3096), (0x4E00, 0x4FFF)]
RANGES += [(0xAC00, 0xAC80), (0x1F600, 0x1F64F), (0x20000, 0x20040), (0x01, 0x1F)]


@cases("text", TEXTS)
def test_texts_are_cut_as_the_general_tokenizer_cuts_them(pieces: WordPieces, reference: Tokenizer, text: str) -> None:
    assert pieces.encode(text, MAX_PIECES) == reference.encode(text).ids


def test_texts_of_random_characters_are_cut_as_the_general_tokenizer_cuts_them(
    pieces: WordPieces, reference: Tokenizer
) -> None:
    chance = random.Random(27)
    texts = []
    for _ in range(4000):
        ranges = chance.sample(RANGES, 3)
        signs = [chr(chance.randint(*chance.choice(ranges))) if chance.random() < 0.8 else " " for _ in range(24)]
        texts.append("".join(signs))
    different = [text for text in texts if pieces.encode(text, MAX_PIECES) != reference.encode(text).ids]
    assert different == []


def test_the_name_of_a_special_piece_in_a_text_is_a_word(pieces: WordPieces) -> None:
    start, *words, end = pieces.encode("stop [SEP] here [PAD]", MAX_PIECES)
    assert start not in words
    assert end not in words
    assert len(words) == 8, "brackets stand alone"


def test_a_lone_surrogate_is_left_out(pieces: WordPieces) -> None:
    assert pieces.encode("a\ud800b", MAX_PIECES) == pieces.encode("ab", MAX_PIECES)


def test_a_text_has_so_many_pieces_at_most(pieces: WordPieces) -> None:
    whole = pieces.encode("one two three four", 100)
    assert pieces.encode("one two three four", 4) == [*whole[:3], whole[-1]]
    assert len(pieces.encode("漢" * 100_000, MAX_PIECES)) == MAX_PIECES


@cases("data", [b"", b"\xff\xfe", b"one\ntwo\n", b"[UNK]\n[CLS]\n"])
def test_a_damaged_vocabulary_is_reported_in_a_sentence(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "vocabulary.txt").write_bytes(data)
    with pytest.raises(ModelFailed, match=r"vocabulary\.txt .*reinstall memwell\.$"):
        WordPieces(tmp_path / "vocabulary.txt")


# -- the model -------------------------------------------------------------------------------------------------------


@cases(
    "one, other, similarity",
    [
        ("The ferry to Gozo leaves at seven.", "When does the boat depart?", 0.465),
        ("Her violin is being repaired in Cremona.", "Who fixes string instruments?", 0.481),
        ("We pay the rent on the first of each month.", "The apartment's payment is due monthly.", 0.669),
        ("He is allergic to walnuts.", "The train was late again.", 0.064),
        ("Mein Bruder wohnt in Graz.", "My brother lives in Graz.", 0.411),
        ("cat", "kitten", 0.788),
    ],
)
def test_similarities_are_those_of_the_original_weights(model: MiniLM, one: str, other: str, similarity: float) -> None:
    first, second = model.embed([one, other])
    assert first @ second == pytest.approx(similarity, abs=0.03)


def test_vectors_have_unit_length_and_are_zeros_for_nothing(model: MiniLM) -> None:
    texts = ["She moved to Porto.", "", "🦜🦜 🎉", "天気がいい", "a " * 30_000, "x" * 500, " \n\t\x00"]
    vectors = model.embed(texts)
    assert vectors.shape == (len(texts), DIMENSIONS)
    assert vectors.dtype == np.float32
    assert [round(float(length), 4) for length in np.linalg.norm(vectors, axis=1)] == [1, 0, 1, 1, 1, 1, 0]
    assert model.embed([]).shape == (0, DIMENSIONS)
    assert not model.embed([""]).any()


def test_a_vector_does_not_depend_on_the_other_texts(model: MiniLM) -> None:
    texts = ["tulips", "The tulips were planted in October.", "word " * 300, "Who planted them?"]
    together = model.embed(texts)
    assert np.array_equal(together, model.embed(texts[::-1])[::-1])
    model.forget()
    assert np.array_equal(together, np.concatenate([model.embed([text]) for text in texts]))


def test_text_beyond_the_limit_counts_for_nothing(model: MiniLM) -> None:
    start = "word " * (MAX_PIECES - 2)
    assert np.array_equal(model.embed([start + "tulips"]), model.embed([start + "invoice"]))


def test_threads_get_the_vectors_of_their_own_texts(model: MiniLM) -> None:
    texts = [f"Parcel {number} was sent to street {number * 7}." for number in range(60)]
    alone = model.embed(texts)
    model.forget()

    def embed(part: int) -> bool:
        rows = range(part, 60, 5)
        single = all(np.array_equal(model.embed([texts[row]])[0], alone[row]) for row in rows)
        return single and np.array_equal(model.embed([texts[row] for row in rows]), alone[part::5])

    with ThreadPoolExecutor(5) as threads:
        assert all(threads.map(embed, list(range(5)) * 2))


def test_a_changed_answer_does_not_change_the_next_one(model: MiniLM) -> None:
    first = model.embed(["a query that is asked twice"])
    kept = first.copy()
    first[:] = 0
    assert np.array_equal(model.embed(["a query that is asked twice"]), kept)


def test_the_cache_holds_the_latest_queries() -> None:
    cache = QueryCache(2)
    one, two, three = (np.full((1, 3), number, np.float32) for number in (1, 2, 3))
    cache.add("one", one)
    cache.add("two", two)
    assert cache.find("one") is one
    cache.add("three", three)
    assert cache.find("two") is None, "it was used least recently"
    assert cache.find("one") is one
    assert cache.find("three") is three
    cache.clear()
    assert cache.find("one") is None


# -- its files -------------------------------------------------------------------------------------------------------


def test_the_build_gives_the_files_that_the_model_expects() -> None:
    built = {file.name: file.digest for file in hatch_build.FILES}
    assert {name: built[name] for name in FILES} == FILES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The model's files in a directory of their own, to be damaged."""
    for name in FILES:
        (tmp_path / name).symlink_to(DATA / name)
    return tmp_path


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(data)


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "missing": Path.unlink,
    "one bit": flip_a_bit,
    "a directory": replace_by_directory,
}


@pytest.mark.parametrize("name", [WEIGHTS, VOCABULARY])
@pytest.mark.parametrize("damage", DAMAGE)
def test_without_an_intact_file_the_light_model_stands_in_and_says_so(folder: Path, name: str, damage: str) -> None:
    DAMAGE[damage](folder / name)
    with pytest.raises(ModelFailed, match=r"missing or damaged: reinstall memwell\.$"):
        MiniLM(folder)
    embedder = open_minilm(folder)
    assert isinstance(embedder, WordLlama)
    assert embedder.warning is not None
    assert name in embedder.warning
    assert embedder.warning.endswith(".")


WITHOUT_RUNTIME = """
import sys
sys.modules["onnxruntime"] = None
from memwell.models.embedder import open_minilm
embedder = open_minilm()
print(embedder.id, embedder.embed(["hello"]).any())
print(embedder.warning)
"""


def test_without_the_runtime_the_light_model_stands_in_and_says_so() -> None:
    light, warning = run_python(WITHOUT_RUNTIME).splitlines()
    assert light == f"{WordLlama.id} True"
    assert warning.startswith("onnxruntime cannot be loaded: ")


OFFLINE = """
import sys

def no_network(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen"):
        raise RuntimeError(event)

sys.addaudithook(no_network)
from memwell.models.minilm import MiniLM
print(MiniLM().embed(["hello"]).shape)
print([name for name in sys.modules if name.split(".")[0] in ("torch", "tokenizers", "transformers", "huggingface_hub")])
"""


def test_the_model_needs_neither_a_framework_nor_a_network() -> None:
    assert run_python(OFFLINE).splitlines() == ["(1, 384)", "[]"]


LAZY = """
import os, sys, tempfile
os.environ["MEMWELL_EMBEDDER"] = "minilm"
from memwell import Memory
with tempfile.TemporaryDirectory() as home, Memory(home, worker=False) as memory:
    memory.flow("f").write("The tulips were planted in October.")
    print("onnxruntime" in sys.modules)
    print([hit.content for hit in memory.flow("f").search("When were the flowers put into the ground?")])
    print("onnxruntime" in sys.modules)
"""


def test_the_first_search_loads_the_model_and_nothing_before_it_does() -> None:
    assert run_python(LAZY).splitlines() == ["False", "['The tulips were planted in October.']", "True"]


def test_the_setting_chooses_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMWELL_EMBEDDER", raising=False)
    for settings in (config.load(), config.load(embedder="minilm")):
        assert isinstance(open_embedder(settings), MiniLM)
    light = open_light_embedder(config.load(embedder="minilm"))
    assert isinstance(light, WordLlama)
    assert light.warning is None
    assert open_light_embedder(config.load(embedder="none")) is None
