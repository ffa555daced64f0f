"""The training script without fairseq: two processes by a launcher's variables, bad files."""

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.conftest import ROOT, free_port

pytest.importorskip("accelerate")
SCRIPT = ROOT / "examples/pytorch/train.py"
WORDS = {"good": "bright warm kind clever lovely", "bad": "dull cold rude silly ugly"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files of which the words say the label, 96 and 31 lines; one text is empty.

    The second begins with a byte order mark.
    """
    folder = tmp_path_factory.mktemp("tsv")
    draw = random.Random(1)
    for name, size in (("train", 96), ("valid", 31)):
        labels = draw.choices(list(WORDS), k=size)
        texts = (draw.choices(WORDS[label].split(), k=draw.randint(1, 6)) for label in labels)
        lines = [
            f"{label}\tthe day was {' '.join(text)}"
            for label, text in zip(labels, texts, strict=True)
        ]
        text = "\n".join([*lines[1:], f"{labels[0]}\t"]) + "\n"
        (folder / f"{name}.tsv").write_text(text, "utf-8-sig" if name == "valid" else "utf-8")
    return folder / "train.tsv", folder / "valid.tsv"


def test_two_processes_train_one_model(files, run_cli, tmp_path):
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [SCRIPT, *files, "--epochs", "2", "--save", tmp_path / "weights.pt"]
    with ThreadPoolExecutor() as pool:
        ranks = [
            pool.submit(run_cli, command, **group, RANK=rank, LOCAL_RANK=rank) for rank in "01"
        ]
    first, second = (rank.result() for rank in ranks)
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    accuracies = re.findall(r"epoch \d: accuracy (\d\.\d+)", first.stdout)
    assert len(accuracies) == 2 and float(accuracies[-1]) > 0.9
    assert second.stdout == ""
    weights = torch.load(tmp_path / "weights.pt")
    assert weights["encoder.layers.0.self_attn.attention.v_proj.weight"].shape == (128, 128)
    assert len(weights["classes.bias"]) == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "bad.tsv: each line must hold a label, a tab and a text\n"),
        (("--save", "nowhere/w.pt"), "--save: there is no folder nowhere\n"),
    ],
)
def test_a_mistake_gets_a_sentence_before_training(flags, message, files, run_cli, tmp_path):
    (tmp_path / "bad.tsv").write_text("good\tday\nno label\n")
    done = run_cli([SCRIPT, tmp_path / "bad.tsv", files[1], *flags])
    assert done.returncode == 1 and done.stderr.endswith(message)
    assert "Traceback" not in done.stderr
