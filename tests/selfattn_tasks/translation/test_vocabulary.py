"""SentencePiece: exact round trip, same result every time, limits explained."""

import re

import pytest

from selfattn.errors import UserError
from selfattn_tasks.translation import vocabulary

pytest.importorskip("sentencepiece")

SENTENCES = [f"the {a} cat sees {b} grüne Häuser – № {n}" for n, (a, b) in enumerate(
    (a, b) for a in ("small", "old", "wet", "quick") for b in ("two", "ten", "no", "many", "all"))
]  # fmt: skip


@pytest.mark.parametrize("model_type", vocabulary.MODEL_TYPES)
def test_round_trip_and_same_bytes(tmp_path, model_type):
    for name in ("a", "b"):
        vocabulary.learn(SENTENCES, tmp_path / name, 42, model_type)
    for ending in ("model", "vocab"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert len((tmp_path / "a.vocab").read_text("utf-8").splitlines()) == 42
    processor = vocabulary.load(tmp_path / "a.model")
    assert processor.get_piece_size() == 42
    for sentence, pieces in zip(SENTENCES, processor.encode(SENTENCES), strict=True):
        assert "".join(pieces).replace("▁", " ").strip() == sentence
        assert all(processor.piece_to_id(piece) != processor.unk_id() for piece in pieces)
    assert processor.encode([]) == []


@pytest.mark.parametrize("model_type", vocabulary.MODEL_TYPES)
@pytest.mark.parametrize(("wanted", "pattern"), [(9000, r"at most (\d+)"), (5, r"at least (\d+)")])
def test_the_limit_in_the_message_works(tmp_path, model_type, wanted, pattern):
    with pytest.raises(UserError, match=f"--vocab-size is {wanted}") as caught:
        vocabulary.learn(SENTENCES, tmp_path / "a", wanted, model_type)
    limit = int(re.search(pattern, str(caught.value))[1])
    vocabulary.learn(SENTENCES, tmp_path / "a", limit, model_type)
    assert vocabulary.load(tmp_path / "a.model").get_piece_size() == limit


@pytest.mark.parametrize(
    ("size", "model_type", "words"),
    [
        (3, "bpe", "--vocab-size 3 is not allowed; it must be at least 4"),
        (
            99999999999,
            "bpe",
            "99999999999 is not allowed; it must be at most 2147483647",
        ),
        (50, "word", "must be one of bpe, unigram"),
    ],
)
def test_unknown_settings_are_refused(tmp_path, size, model_type, words):
    with pytest.raises(UserError, match=words):
        vocabulary.learn(SENTENCES, tmp_path / "a", size, model_type)


def test_missing_and_damaged_models_are_named(tmp_path):
    with pytest.raises(UserError, match=r"no SentencePiece model .*spm\.model"):
        vocabulary.load(tmp_path / "spm.model")
    (tmp_path / "spm.model").write_bytes(b"not a model")
    with pytest.raises(UserError, match="is not a SentencePiece model, or is damaged"):
        vocabulary.load(tmp_path / "spm.model")
