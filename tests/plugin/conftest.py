"""A toy corpus, and fairseq's commands as real processes on it."""

import random
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("fairseq")

import plugin  # noqa: F401 - mends fairseq, and registers all that it has
from tests.conftest import Done
from tests.plugin.helpers import BLEU, FLAGS, MORE

SIZES = {"train": 200, "valid": 20, "test": 20}

# Small enough that a run of 4 updates takes about four seconds, most of it imports.
TINY = """
    --user-dir plugin --cpu --num-workers 0 --no-progress-bar --log-interval 1 --seed 1
    --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32
    --encoder-attention-heads 2 --decoder-attention-heads 2
    --optimizer adam --lr 0.003 --criterion cross_entropy --max-tokens 400
""".split()

Run = Callable[..., Done]


def sentence_pair(generator: random.Random) -> tuple[str, str]:
    """One pair of a toy language: the target says the source backwards in other words."""
    words = [f"{kind}{generator.randrange(6)}" for kind in generator.choices("abc", k=5)]
    words = words[: generator.randint(2, 5)]
    return " ".join(words), " ".join("x" + word for word in reversed(words))


def write_corpus(folder: Path, sizes: Mapping[str, int] = SIZES) -> None:
    """Write train, valid and test text: ``train.src``, ``train.tgt`` and so on."""
    generator = random.Random(1)
    for split, size in sizes.items():
        pairs = [sentence_pair(generator) for _ in range(size)]
        for language, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run_module(run_cli: Run) -> Run:
    """A function that runs ``python -m MODULE ARGS`` and captures what it prints.

    ``run_module(name, args, limit=None, **options of run_cli)``; ``limit`` bounds the size in bytes
    of every file that the process writes, as a full disk does.
    """

    def run(
        module: str, args: Sequence[str | Path], limit: int | None = None, **options: object
    ) -> Done:
        command = ["-m", module, *args]
        if limit is None:
            return run_cli(command, **options)
        bounded = ["-c", f'ulimit -f {limit // 1024}; exec "$PYTHON" "$@"', "bash", *command]
        return run_cli(bounded, python="bash", PYTHON=sys.executable, **options)

    return run


@pytest.fixture(scope="session")
def toy_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy corpus as text."""
    folder = tmp_path_factory.mktemp("toy_text")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="session")
def toy_data(toy_text: Path, run_module: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus as fairseq-preprocess binarised it."""
    folder = tmp_path_factory.mktemp("toy_data") / "data-bin"
    prefixes = [f"--{split}pref={toy_text / split}" for split in SIZES]
    languages = ["--source-lang=src", "--target-lang=tgt"]
    run_module("fairseq_cli.preprocess", [*languages, *prefixes, "--destdir", folder]).ok()
    return folder


@pytest.fixture(scope="session")
def toy_train(toy_data: Path, run_module: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A function that trains on the toy corpus: ``toy_train([*flags], **options)``.

    Defaults: a 16-wide ``transformer_mtsa_tiny`` on the CPU for 4 updates; a flag that is given
    again overrides them, ``data=FOLDER`` the corpus; other options go to ``run_module``.
    """

    def train(args: Sequence[str | Path], data: Path = toy_data, **options: object) -> Done:
        # Without a folder, fairseq would go on from checkpoints in the clone, if there are any.
        folder = ["--save-dir", tmp_path_factory.mktemp("unsaved")]
        flags = ["--arch", "transformer_mtsa_tiny", "--max-update", "4", *TINY, *folder, *args]
        return run_module("fairseq_cli.train", [data, *flags], **options)

    return train


@pytest.fixture(scope="session")
def toy_run(toy_train: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``--save-dir`` of a finished toy run of 4 updates; copy it before changing it."""
    folder = tmp_path_factory.mktemp("toy_run") / "run"
    toy_train(["--save-dir", folder, "--save-interval-updates", "1"]).ok()
    return folder


@pytest.fixture
def run_folder(toy_run: Path, tmp_path: Path) -> Path:
    """A copy of it, ``run`` in the test's own folder."""
    return shutil.copytree(toy_run, tmp_path / "run")


@pytest.fixture(scope="session")
def toy_generate(toy_data: Path, run_module: Run) -> Run:
    """Translates the test set: ``toy_generate(checkpoint, [*flags], **options)``."""

    def generate(
        checkpoint: Path, args: Sequence[str | Path] = (), data: Path = toy_data, **options: object
    ) -> Done:
        flags = ["--user-dir", "plugin", "--cpu", "--path", checkpoint, "--beam", "2", *args]
        return run_module("fairseq_cli.generate", [data, *flags], **options)

    return generate


@pytest.fixture(scope="session")
def prepared(toy_text, run_cli, tmp_path_factory) -> Path:
    """The toy corpus in SentencePiece pieces, as scripts/prepare_translation.py makes it."""
    folder = tmp_path_factory.mktemp("prepared") / "toy"
    splits = [f"--{split}={toy_text / split}" for split in ("train", "valid", "test")]
    languages = ["--source-lang=src", "--target-lang=tgt", "--vocab-size=24"]
    run_cli(["scripts/prepare_translation.py", *languages, *splits, "--dest", folder]).ok()
    return folder


@pytest.fixture(scope="session")
def train(prepared, run_cli):
    """A function that trains a tiny MTSA model: ``train(save_dir, *flags)`` returns the log."""

    def run(save_dir: Path, *flags: str) -> list[str]:
        command = ["-m", "fairseq_cli.train", prepared / "data-bin", *FLAGS, "--save-dir", save_dir]
        return run_cli([*command, *flags]).ok().lines

    return run


@pytest.fixture(scope="session")
def trained(train, tmp_path_factory):
    """A function from an attention's name to the folder and the log of its run."""
    made = {}

    def get(attention: str) -> tuple[Path, list[str]]:
        if attention not in made:
            folder = tmp_path_factory.mktemp(attention)
            board = ("--tensorboard-logdir", str(folder / "tensorboard"))
            made[attention] = (
                folder,
                train(folder, "--encoder-attention", attention, *MORE, *board, *BLEU),
            )
        return made[attention]

    return get
