"""From text to translations with fairseq's own commands, each a real process."""

import re
import shutil

import pytest
from fairseq import checkpoint_utils

from selfattn.config import MTSAConfig
from selfattn.errors import UserError
from selfattn_tasks.translation import parts
from tests.plugin.helpers import UPDATES, hypotheses, logged

ATTENTIONS = ("mtsa", "multihead")
PRESETS = ("paper", "nmt", "srl")


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_it_learns_and_validates_with_bleu(trained, attention):
    folder, lines = trained(attention)
    losses = [float(record["loss"]) for record in logged(lines, "train_inner")]
    assert len(losses) == UPDATES
    assert losses[-1] < 0.8 * losses[0]
    assert [record["valid_num_updates"] for record in logged(lines, "valid")][-1] == str(UPDATES)
    assert all(0 <= float(record["valid_bleu"]) <= 100 for record in logged(lines, "valid"))
    samples = [line for line in lines if "example hypothesis" in line or "reference:" in line]
    assert samples
    assert not any("\u2581" in line for line in samples), "BLEU of pieces, not of words"
    assert not any("WRONG BLEU" in line for line in lines)
    assert (folder / "checkpoint_1_4.pt").is_file(), "no checkpoint inside of an epoch"


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_tensorboard_curves_hold_the_logged_losses(trained, attention):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder, lines = trained(attention)

    def curve(name: str, tag: str) -> dict[int, float]:
        events = accumulator.EventAccumulator(str(folder / "tensorboard" / name)).Reload()
        return {event.step: event.value for event in events.Scalars(tag)}

    losses = curve("train_inner", "loss")
    assert losses == {
        int(record["num_updates"]): pytest.approx(float(record["loss"]), abs=1e-3)
        for record in logged(lines, "train_inner")
    }
    assert len(losses) == UPDATES
    validated = [int(record["valid_num_updates"]) for record in logged(lines, "valid")]
    assert list(curve("valid", "bleu")) == validated
    assert UPDATES in validated


def test_the_validate_command_repeats_the_training_s_figures(trained, prepared, run_cli):
    folder, lines = trained("mtsa")
    flags = ["--user-dir", "plugin", "--cpu", "--path", folder / "checkpoint_last.pt"]
    done = run_cli(
        ["-m", "fairseq_cli.validate", prepared / "data-bin", *flags, "--log-format", "json"]
    ).ok()
    (record,) = logged(done.lines, "valid")
    last = logged(lines, "valid")[-1]
    assert float(record["valid_loss"]) == pytest.approx(float(last["valid_loss"]), abs=2e-3)
    assert record["valid_bleu"] == last["valid_bleu"], "the checkpoint forgot --eval-bleu"


def test_generate_and_interactive_agree(trained, prepared, run_cli):
    """Beam search over the binarised test set, and over the same raw sentences typed in."""
    folder, _ = trained("mtsa")
    common = ["--user-dir", "plugin", "--cpu", "--path", folder / "checkpoint_best.pt"]
    common += ["--beam", "4", "--max-len-b", "10", "--remove-bpe", "sentencepiece"]
    generated = run_cli(
        ["-m", "fairseq_cli.generate", prepared / "data-bin", *common, "--scoring", "sacrebleu"]
    ).ok()
    assert "Generate test with beam=4: BLEU" in generated.stdout
    found = hypotheses(generated.stdout)
    sentences = (prepared / "raw" / "test.src").read_text(encoding="utf-8")
    assert len(found) == len(sentences.splitlines()) == 20
    pieces = ["--bpe", "sentencepiece", "--sentencepiece-model", prepared / "spm.model"]
    typed = run_cli(
        [
            "-m",
            "fairseq_cli.interactive",
            prepared / "data-bin",
            *common,
            *pieces,
            "--buffer-size",
            "7",
        ],
        stdin=sentences,
    ).ok()
    again = hypotheses(typed.stdout)
    # --bpe does not join again what --remove-bpe has joined.
    joined = re.findall(r"^D-(\d+)\t\S+\t(.*)$", typed.stdout, flags=re.MULTILINE)
    assert {int(number): words for number, words in joined} == {n: w for n, (_, w) in again.items()}
    assert any(" " in words for _, words in again.values())
    assert set(again) == set(found)
    for number, (score, words) in found.items():
        assert again[number] == (pytest.approx(score, abs=1e-4), words)


def test_a_sentence_does_not_depend_on_its_batch_mates(trained, prepared, run_cli):
    """Sources are padded on the left; alone, a sentence has no padding at all."""
    folder, _ = trained("mtsa")
    found = {}
    for size in ("1", "20"):
        flags = ["--user-dir", "plugin", "--cpu", "--path", folder / "checkpoint_best.pt"]
        flags += ["--beam", "4", "--max-len-b", "10", "--batch-size", size]
        flags += ["--required-batch-size-multiple", "1"]
        done = run_cli(["-m", "fairseq_cli.generate", prepared / "data-bin", *flags]).ok()
        found[size] = hypotheses(done.stdout)
    assert len(found["1"]) == 20
    for number, (score, words) in found["1"].items():
        assert found["20"][number] == (pytest.approx(score, abs=1e-4), words)


def test_diverse_beam_search_compares_a_sentence_with_itself(trained, prepared, run_cli):
    """Whatever is in its batch, and wherever it stands in the data."""
    folder, _ = trained("mtsa")
    found = {}
    for size in ("1", "7"):
        flags = ["--user-dir", "plugin", "--cpu", "--path", folder / "checkpoint_best.pt"]
        flags += ["--beam", "4", "--nbest", "4", "--max-len-b", "10", "--batch-size", size]
        flags += ["--diverse-beam-groups", "2", "--diverse-beam-strength", "0.3"]
        done = run_cli(["-m", "fairseq_cli.generate", prepared / "data-bin", *flags]).ok()
        found[size] = sorted(re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, flags=re.MULTILINE))
    assert len(found["1"]) == 80 and found["1"] == found["7"]


def test_a_folder_that_was_moved_away_from_its_data(trained, prepared, tmp_path):
    """Dictionaries beside the checkpoint come first; without any, one sentence says so."""
    folder, _ = trained("mtsa")
    shutil.copy(folder / "checkpoint_best.pt", tmp_path / "model.pt")
    assert parts.find_parts(tmp_path)["data_name_or_path"] == str(prepared / "data-bin")
    with pytest.raises(UserError, match=r"holds no dict\.LANGUAGE\.txt"):
        parts.find_parts(tmp_path, data="elsewhere")
    for language in ("src", "tgt"):
        shutil.copy(prepared / "data-bin" / f"dict.{language}.txt", tmp_path)
    shutil.copy(prepared / "spm.model", tmp_path)
    assert parts.find_parts(tmp_path) == {
        "checkpoint_file": "model.pt",
        "data_name_or_path": str(tmp_path),
        "bpe": "sentencepiece",
        "sentencepiece_model": str(tmp_path / "spm.model"),
    }
    with pytest.raises(UserError, match="holds no checkpoint7.pt"):
        parts.find_parts(tmp_path, "checkpoint7.pt")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_trains_and_its_checkpoint_says_all_of_it(train, tmp_path, monkeypatch, preset):
    """The checkpoint keeps its attention whatever the presets and defaults are later."""
    train(tmp_path, "--mtsa-preset", preset, "--max-update", "2")
    bare = {name: {"masks": "backward", "window": 1} for name in MTSAConfig.presets}
    expected = MTSAConfig.make(preset)
    monkeypatch.setattr(MTSAConfig, "presets", bare)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "checkpoint_last.pt")]
    )
    attention = model.encoder.layers[0].self_attn.attention
    for switch in ("masks", "window", "sigma_t", "sigma_s", "s2t_input", "s2t_layers"):
        assert getattr(attention.config, switch) == getattr(expected, switch)
    assert attention.config.attention_dropout == 0.1
