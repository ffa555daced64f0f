"""``--biblosa-block-length auto`` in real commands, and where it ends up."""

import logging
import math
import statistics
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from plugin.block_length import resolve_block_length
from plugin.tasks._shared import is_training
from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from tests.plugin.helpers import parsed

ARCH = ("--arch", "transformer_biblosa_tiny")


def stored(folder):
    return checkpoints.model_flags(checkpoints.read(folder / "checkpoint_last.pt"))[
        "biblosa_block_length"
    ]


def test_it_comes_from_the_training_data_and_stays_in_the_checkpoint(
    toy_text, toy_train, toy_generate, tmp_path
):
    lines = (toy_text / "train.src").read_text(encoding="utf-8").splitlines()
    lengths = [len(line.split()) + 1 for line in lines]  # and the end of the sentence
    mean = statistics.mean(lengths)
    longest = mean + statistics.pstdev(lengths) * math.sqrt(2 * math.log(400 / mean))
    expected = math.ceil((2 * longest) ** (1 / 3))
    assert expected == 3  # where nobody knows the data it is 4

    done = toy_train([*ARCH, "--save-dir", tmp_path, "--max-update", "2"]).ok()
    assert f"auto: blocks of {expected} tokens by the cube-root rule" in done.stderr + done.stdout
    assert stored(tmp_path) == expected
    done = toy_generate(tmp_path / "checkpoint_last.pt").ok()
    assert "auto: blocks" not in done.stderr + done.stdout
    assert done.stdout.count("H-") == 20

    # A run that resumes from it, or starts from it, keeps the number, whatever its batches.
    for more in (
        {"save_dir": str(tmp_path)},
        {"save_dir": "nowhere", "restore_file": str(tmp_path / "checkpoint_last.pt")},
        {"save_dir": "nowhere", "continue_once": str(tmp_path / "checkpoint_last.pt")},
        {"save_dir": "nowhere", "finetune_from_model": str(tmp_path / "checkpoint_best.pt")},
    ):
        args = flags(max_tokens=40_000, **more)
        resolve_block_length(args, task([100, 900]))
        assert args.biblosa_block_length == expected


def task(lengths):
    def load_dataset(split, **_):
        if split != "train":
            raise FileNotFoundError
        datasets[split] = SimpleNamespace(sizes=np.array(lengths))

    datasets = {}
    return SimpleNamespace(datasets=datasets, load_dataset=load_dataset)


def flags(**changed):
    given = {"encoder_attention": "biblosa", "biblosa_block_length": 0, "max_tokens": 1000}
    return Namespace(**{**given, "biblosa_block_length_extra": 0, "batch_size": None, **changed})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        # Mean 20, deviation 10: n = 20 + 10 sqrt(2 ln 50) = 47.97, cube root of 2 n 4.58.
        ({}, 5),
        ({"biblosa_block_length_extra": 1}, 6),
        ({"biblosa_block_length": 7}, 7),
        # n = 20 + 10 sqrt(2 ln 2) = 31.8, cube root 3.99.
        ({"batch_size": 2}, 4),
        ({"batch_size": 50, "max_tokens": None}, 5),
        ({"max_tokens": 10}, 4),  # one sentence a batch: n = 20
        ({"encoder_attention": "disa"}, 0),
    ],
)
def test_the_number_that_is_written_back(changed, expected, tmp_path, caplog):
    args, source = flags(save_dir=str(tmp_path), **changed), task([10, 30])
    with caplog.at_level(logging.INFO):
        resolve_block_length(args, source)
    assert args.biblosa_block_length == expected
    assert source.datasets == {}
    assert len(caplog.records) == (expected not in (0, 7))


def test_a_task_that_knows_its_lengths_is_asked_for_them(tmp_path):
    args, source = flags(save_dir=str(tmp_path)), SimpleNamespace(sentence_lengths=(20.0, 10.0))
    resolve_block_length(args, source)
    assert args.biblosa_block_length == 5


def test_the_training_set_is_read_as_such_whatever_its_name(tmp_path):
    """--task srl_tagging leaves long sentences out of the training set alone."""

    def load_dataset(split, **given):
        lengths = [10, 30] if is_training(split, given) else [10, 30, 900]
        source.datasets[split] = SimpleNamespace(sizes=np.array(lengths))

    source = SimpleNamespace(datasets={}, load_dataset=load_dataset)
    args = flags(save_dir=str(tmp_path), train_subset="train2")
    resolve_block_length(args, source)
    assert args.biblosa_block_length == 5


@pytest.mark.parametrize(
    ("changed", "source", "missing"),
    [
        ({"train_subset": "train2"}, task([3]), "no set 'train2'"),
        ({}, SimpleNamespace(), "no set 'train'"),
        ({"max_tokens": None}, task([3]), "size of a batch"),
    ],
)
def test_what_is_missing_is_said_with_the_flag(changed, source, missing, tmp_path):
    with pytest.raises(UserError, match=missing) as error:
        resolve_block_length(flags(save_dir=str(tmp_path), **changed), source)
    assert str(error.value).endswith("such as --biblosa-block-length 4")


@pytest.mark.parametrize(("text", "value"), [("auto", 0), ("0", 0), ("12", 12)])
def test_values_of_the_flag(text, value):
    args = parsed("data", *ARCH, "--biblosa-block-length", text)
    assert args.biblosa_block_length == value


def test_a_value_that_is_none(capsys):
    with pytest.raises(SystemExit):
        parsed("data", *ARCH, "--biblosa-block-length", "cube")
    assert (
        "'cube' is not a block length; give a number of tokens, or auto" in capsys.readouterr().err
    )
