"""Checkpoints that version 0.1 wrote load for ever, and translate as they did."""

import argparse
import math

import numpy
import pytest
import torch

from plugin.models.transformer import AttentionTransformerModel
from selfattn_tasks import checkpoints


def test_torch_s_list_of_allowed_types_belongs_to_the_process(repo_root):
    """What others allow or forget, as transformers' Trainer does on resuming, changes nothing."""
    folder = repo_root / "tests" / "data" / "checkpoint_v0_1"
    with torch.serialization.safe_globals([argparse.Namespace, numpy.ndarray, numpy.dtype]):
        before = set(torch.serialization.get_safe_globals())
        checkpoints.read(folder / "paper.pt")
        assert set(torch.serialization.get_safe_globals()) == before
    AttentionTransformerModel.from_pretrained(str(folder), "paper.pt")
    assert argparse.Namespace not in torch.serialization.get_safe_globals()


@pytest.mark.parametrize("preset", ["paper", "nmt"])
def test_version_0_1_translates_as_it_did(preset, repo_root):
    folder = repo_root / "tests" / "data" / "checkpoint_v0_1"
    sentences = (folder / "text" / "test.src").read_text(encoding="utf-8").splitlines()
    model = AttentionTransformerModel.from_pretrained(str(folder), f"{preset}.pt")
    batches = model.generate([model.encode(sentence) for sentence in sentences], beam=4)
    found = [
        (best["score"].item() / math.log(2), model.decode(best["tokens"])) for best, *_ in batches
    ]
    lines = (folder / f"{preset}.expected").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(sentences)
    for line, (score, words) in zip(lines, found, strict=True):
        _, expected_score, expected = line.split("\t")
        assert words == expected
        assert score == pytest.approx(float(expected_score), abs=1e-4)


@pytest.mark.parametrize("data", ["tests/data/checkpoint_v0_1", "./"])
def test_the_folder_of_the_dictionaries_is_named_as_fairseq_names_it(data, repo_root, monkeypatch):
    """Below the checkpoint's folder with a dot at its beginning, else from where one is."""
    monkeypatch.chdir(repo_root)
    folder = "tests/data/checkpoint_v0_1"
    found = AttentionTransformerModel.from_pretrained(folder, "paper.pt", data)
    assert len(found.src_dict) > 4
