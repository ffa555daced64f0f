"""A checkpoint that is missing, broken or of another model: one sentence, exit code not 0."""

import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils

from plugin.compat import vocabulary
from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from tests.plugin.helpers import sentence
from tests.plugin.test_fairseq_features import dictionary

FROZEN = Path(__file__).resolve().parents[1] / "data" / "checkpoint_v0_1" / "nmt.pt"


@pytest.fixture
def truncated(toy_run, tmp_path):
    content = (toy_run / "checkpoint_best.pt").read_bytes()
    (tmp_path / "half.pt").write_bytes(content[: len(content) // 2])
    return tmp_path / "half.pt"


def test_broken_file(truncated, toy_generate, toy_train, tmp_path):
    line = sentence(toy_generate(truncated), "fairseq-generate")
    assert str(truncated) in line and "truncated or damaged" in line
    line = sentence(toy_train(["--save-dir", tmp_path / "run", "--restore-file", truncated]))
    assert str(truncated) in line and "truncated or damaged" in line


def test_missing_file(toy_generate, toy_train, tmp_path):
    missing = tmp_path / "none.pt"
    line = sentence(toy_generate(missing), "fairseq-generate")
    assert str(missing) in line and "does not exist" in line
    # fairseq itself would train from scratch without a word
    for flag in ("--restore-file", "--continue-once"):
        line = sentence(toy_train(["--save-dir", tmp_path / "run", flag, missing]))
        assert f"{flag} {missing} does not exist" in line


def test_an_average_may_start_later(toy_run, toy_train, run_folder):
    """By --store-ema in a run that is resumed; its next update moves it a little."""
    flags = ["--save-dir", run_folder, "--store-ema", "--ema-decay", "0.9"]
    done = toy_train([*flags, "--max-update", "5"]).ok()
    assert "has no average: it starts from the weights there" in done.stdout + done.stderr
    before = checkpoints.read(toy_run / "checkpoint_last.pt")["model"]
    after = checkpoints.read(run_folder / "checkpoint_last.pt")
    name = "encoder.embed_tokens.weight"
    new, found = after["model"][name], after["extra_state"]["ema"][name]
    torch.testing.assert_close(found, 0.9 * before[name] + 0.1 * new)
    assert not torch.equal(new, before[name])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--encoder-attention", "multihead"], "--encoder-attention is multihead here and mtsa in"),
        # these weights would load, and mean something else
        (["--mtsa-sigma-s", "scaled_logsigmoid"], "--mtsa-sigma-s is scaled_logsigmoid here and "),
    ],
    ids=["attention", "switch"],
)
def test_resume_with_another_model(flags, message, toy_train, run_folder):
    before = (run_folder / "checkpoint_last.pt").read_bytes()
    line = sentence(toy_train(["--save-dir", run_folder, *flags]))
    assert message in line and "checkpoint_last.pt" in line
    assert (run_folder / "checkpoint_last.pt").read_bytes() == before


def test_resume_multihead_with_another_switch(toy_train, tmp_path):
    """A checkpoint of fairseq's own attention stores none, and a command without one gives none."""
    plain = ["--save-dir", tmp_path, "--encoder-attention", "multihead"]
    masked = [*plain, "--multihead-masks", "forward_backward"]
    for flags, other, message in (
        (plain, masked, "--multihead-masks is forward_backward here and none in"),
        (masked, plain, "--multihead-masks is none here and forward_backward in"),
    ):
        toy_train([*flags, "--max-update", "1"]).ok()
        assert message in sentence(toy_train(other))
        (tmp_path / "checkpoint_last.pt").unlink()


def test_finetuning_with_other_switches_warns(toy_run, toy_train, tmp_path):
    old = toy_run / "checkpoint_best.pt"
    flags = ["--finetune-from-model", old, "--save-dir", tmp_path, "--decoder-attention-heads", "4"]
    done = toy_train(flags).ok()
    assert "--decoder-attention-heads is 4 here and 2 in the checkpoint" in done.stdout
    line = sentence(toy_train([*flags[:-1], "8"]))  # resumes, and does not start again
    assert "--decoder-attention-heads is 8 here and 4 in the checkpoint" in line


def test_translate_with_another_model(toy_run, toy_generate):
    overrides = "{'encoder_ffn_embed_dim': 24}"
    done = toy_generate(toy_run / "checkpoint_best.pt", ["--model-overrides", overrides])
    line = sentence(done, "fairseq-generate")
    assert "is of another architecture than this model" in line
    assert "encoder.layers.0.fc1.weight has shape (32, 16) there and (24, 16) here" in line


def test_optimizer_of_another_criterion(toy_train, run_folder):
    flags = ["--save-dir", run_folder, "--criterion", "label_smoothed_cross_entropy"]
    assert "Criterion does not match" in sentence(toy_train(flags))


@pytest.fixture(scope="module")
def other_words(toy_data, tmp_path_factory):
    """The corpus with a target dictionary of the same size whose words are in another order."""
    folder = tmp_path_factory.mktemp("other_words") / "data-bin"
    shutil.copytree(toy_data, folder)
    lines = (folder / "dict.tgt.txt").read_text().splitlines(keepends=True)
    (folder / "dict.tgt.txt").write_text("".join([lines[1], lines[0], *lines[2:]]))
    return folder


def test_other_words_of_the_same_number(toy_run, toy_generate, toy_train, other_words, run_folder):
    checkpoint = toy_run / "checkpoint_best.pt"
    line = sentence(toy_generate(checkpoint, data=other_words), "fairseq-generate")
    assert "target vocabulary dict.tgt.txt" in line and str(other_words) in line
    line = sentence(toy_train(["--save-dir", run_folder], data=other_words))
    assert "target vocabulary dict.tgt.txt" in line and "checkpoint_last.pt" in line


def test_vocabulary_of_another_size(toy_run, toy_generate, toy_data, tmp_path):
    shutil.copytree(toy_data, tmp_path / "data-bin")
    with (tmp_path / "data-bin/dict.src.txt").open("a") as file:
        file.write("newcomer 1\n")
    checkpoint = toy_run / "checkpoint_best.pt"
    line = sentence(toy_generate(checkpoint, data=tmp_path / "data-bin"), "fairseq-generate")
    assert "source vocabulary dict.src.txt" in line

    # a checkpoint from before the plugin knows no vocabulary: the shapes tell
    state = torch.load(checkpoint, weights_only=False)
    state["task_state"] = {}
    torch.save(state, tmp_path / "old.pt")
    done = toy_generate(tmp_path / "old.pt", data=tmp_path / "data-bin")
    line = sentence(done, "fairseq-generate")
    assert "the vocabulary does not match the checkpoint" in line and "embed_tokens" in line


def test_a_task_with_a_dictionary_for_each_language():
    """Its first one is both source and target in training, those of a pair in translation."""
    languages = {"en": dictionary(20), "de": dictionary(30)}
    state = {vocabulary.FINGERPRINTS: vocabulary.fingerprints(SimpleNamespace(dicts=languages))}
    task = SimpleNamespace(dicts=languages, source_dictionary=languages["de"])
    vocabulary.check(task, state, "x.pt")
    languages["de"] = dictionary(31)
    with pytest.raises(
        UserError, match=r"the de vocabulary dict\.de\.txt of the data \(31 entries"
    ):
        vocabulary.check(task, state, "x.pt")


def test_the_mask_that_denoising_adds_to_the_dictionary_is_no_other_vocabulary():
    task = SimpleNamespace(source_dictionary=dictionary(20))
    for symbol in ("<mask>", "<other>"):
        words = dictionary(20)
        words.add_symbol(symbol)
        pretrained = SimpleNamespace(source_dictionary=words)
        state = {vocabulary.FINGERPRINTS: vocabulary.fingerprints(pretrained)}
        if symbol == "<mask>":
            vocabulary.check(task, state, "x.pt")
        else:
            with pytest.raises(UserError, match="is not the one that x.pt was trained with"):
                vocabulary.check(task, state, "x.pt")


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_average_is_read_like_other_weights(tmp_path, monkeypatch):
    """What --ema-seed-model names: with flags beside its weights, and nothing in it runs."""
    state = checkpoints.read(FROZEN)
    state["extra_state"]["ema"] = state["model"]
    torch.save(state, tmp_path / "a.pt")
    found = checkpoint_utils.load_ema_from_checkpoint(str(tmp_path / "a.pt"))
    assert found["model"].keys() == state["model"].keys()
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    torch.save({**state, "note": Touch(str(tmp_path / "ran"))}, tmp_path / "b.pt")
    with pytest.raises(pickle.UnpicklingError):
        checkpoint_utils.load_ema_from_checkpoint(str(tmp_path / "b.pt"))
    assert not (tmp_path / "ran").exists()
