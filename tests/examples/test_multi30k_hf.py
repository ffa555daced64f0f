"""Training Multi30k's model by Seq2SeqTrainer, on a toy: it learns, resumes, translates."""

import runpy
import shutil

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")

from safetensors.torch import load_file

from tests.conftest import ROOT

SCRIPT = ROOT / "examples/multi30k_en_de/train_hf.py"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What prepare.sh would make of a few lines, by the parts of it that need no fairseq."""
    from selfattn_tasks.files import write_json, write_lines
    from selfattn_tasks.translation import vocabulary

    folder = tmp_path_factory.mktemp("toy") / "data"
    for name in ("../text", "raw", "data-bin"):
        (folder / name).mkdir(parents=True)
    text = [f"{'a b ' * (i % 5 + 1)}c{'d' * (i % 3)}" for i in range(60)]
    for part, size in (("../../text/train", 60), ("valid", 9), ("test", 5)):
        for language in ("en", "de"):
            write_lines(folder / "raw" / f"{part}.{language}", text[:size])
    vocabulary.learn(text, folder / "spm", 12, "bpe")
    pieces = {p for line in vocabulary.load(folder / "spm.model").encode(text) for p in line}
    for language in ("en", "de"):
        write_lines(
            folder / "data-bin" / f"dict.{language}.txt", [f"{p} 1" for p in sorted(pieces)]
        )
    options = {
        "source_lang": "en",
        "target_lang": "de",
        "cleaning": {"lowercase": True, "max_length": 250, "max_ratio": 5.0},
    }
    write_json(folder / "prepared.json", {"options": options})
    return folder


def test_a_training_is_resumed_and_its_model_translates(data, tmp_path, monkeypatch):
    run = tmp_path / "run"
    main = runpy.run_path(str(SCRIPT))["main"]
    words = ["x", data.parent / "text", data, run, "--updates", "6", "--seed", "3"]
    monkeypatch.setattr("sys.argv", [*map(str, words)])
    main()
    whole = load_file(run / "model.safetensors")
    translated = (run / "test.hyp").read_text().splitlines()
    assert len(translated) == 5
    shutil.rmtree(run / "checkpoint-6")
    (run / "model.safetensors").unlink()
    main()
    for name, value in load_file(run / "model.safetensors").items():
        assert torch.equal(value, whole[name]), name
    assert (run / "test.hyp").read_text().splitlines() == translated


def test_batches_hold_so_many_tokens_and_each_pair_once():
    batches = runpy.run_path(str(SCRIPT))["batches"]
    rows = [{"input_ids": [i] * (i % 17 + 1), "labels": [i] * (i % 5 + 1)} for i in range(200)]
    found = batches(rows, 64)
    assert sorted(row["input_ids"][0] for batch in found for row in batch) == list(range(200))
    for batch in found:
        assert len(batch) * max(len(row["input_ids"]) for row in batch) <= 64
        assert len(batch) < 8 or len(batch) % 8 == 0
