"""A toy corpus, and fairseq's commands as real processes on it."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("fairseq")

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"train": 200, "valid": 20, "test": 20}

# Small enough that a training of 20 updates takes about five seconds, most of it imports.
TINY = """
    --user-dir plugin --cpu --num-workers 0 --no-progress-bar --log-interval 1 --seed 1
    --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32
    --encoder-attention-heads 2 --decoder-attention-heads 2
    --optimizer adam --lr 0.003 --criterion cross_entropy --max-tokens 400
""".split()  # noqa: SIM905 - a command line reads better than a list

Run = Callable[..., subprocess.CompletedProcess[str]]


def sentence_pair(generator: random.Random) -> tuple[str, str]:
    """One pair of a toy language: the target says the source backwards in other words."""
    words = [f"{kind}{generator.randrange(6)}" for kind in generator.choices("abc", k=5)]
    words = words[: generator.randint(2, 5)]
    return " ".join(words), " ".join("x" + word for word in reversed(words))


def run_command(
    module: str, args: Sequence[str | Path], cwd: Path = ROOT, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m MODULE ARGS`` and capture what it prints; never raises on failure."""
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **env},
        input=stdin,
        text=True,
        capture_output=True,
        timeout=300,
    )


@pytest.fixture(scope="session")
def toy_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, valid and test text: ``train.src``, ``train.tgt`` and so on."""
    folder = tmp_path_factory.mktemp("toy_text")
    generator = random.Random(1)
    for split, size in SIZES.items():
        pairs = [sentence_pair(generator) for _ in range(size)]
        for language, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def toy_data(toy_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus as fairseq-preprocess binarised it."""
    folder = tmp_path_factory.mktemp("toy_data") / "data-bin"
    prefixes = [f"--{split}pref={toy_text / split}" for split in SIZES]
    languages = ["--source-lang=src", "--target-lang=tgt"]
    done = run_command("fairseq_cli.preprocess", [*languages, *prefixes, "--destdir", folder])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def toy_train(toy_data: Path) -> Run:
    """A function that trains on the toy corpus: ``toy_train([*flags], **environment)``.

    Defaults: a 16-wide transformer on the CPU for 4 updates; a flag given again overrides them.
    """

    def train(args: Sequence[str | Path], **env: str) -> subprocess.CompletedProcess[str]:
        flags = ["--arch", "transformer", "--max-update", "4", *TINY, *args]
        return run_command("fairseq_cli.train", [toy_data, *flags], **env)

    return train
