"""Training and testing: a grid of one run, worked off by ``selfattn_experiments.runs``."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from selfattn.errors import UserError
from selfattn_experiments.runs import session
from selfattn_experiments.runs.grid import Grid
from selfattn_tasks.registry import TASKS

LANGUAGES = ("en", "de")
LAYERS = 2  # of the encoder, and of the decoder


@dataclass(frozen=True)
class Size:
    """What decides how long training takes and how good the model gets.

    Args:
        attention: self-attention of the encoder, as in ``--encoder-attention``.
        updates: optimizer steps.
        width: width of the model; the feed-forward layers have four times as much.
        seed: of the run.
    """

    attention: str = "mtsa"
    updates: int = 1600
    width: int = 128
    seed: int = 1


def work(place: Path, size: Size, user_dir: Path) -> Path:
    """Train, translate and score what is not done yet; return the run's folder.

    Args:
        place: holds ``data/``, made by ``selfattn_tasks.translation.prepare``; gets a folder for
            each size, whose runs differ in attention and seed only and so can be compared.
        size: of the model and of the run.
        user_dir: the fairseq plugin.

    Raises:
        UserError: if a step fails, or another process works on the same run.
    """
    grid = Grid(
        file=Path("scripts/demo.py"),
        task=TASKS["translation"],
        data=place / "data" / "data-bin",
        output=place / f"{size.updates}-updates-{size.width}-wide",
        user_dir=user_dir,
        seeds={size.attention: (size.seed,)},
        systems={size.attention: _flags(size)},
        tests={"test": place / "data" / "raw" / f"test.{LANGUAGES[1]}"},
        generate=(
            "--beam", "5", "--max-len-a", "1.3", "--max-len-b", "10",
            "--remove-bpe", "sentencepiece", "--max-tokens", "4000",
        ),
        # As many as OMP_NUM_THREADS allows, but the model is small.
        cpus_per_run=min(4, torch.get_num_threads()),
    )  # fmt: skip
    name = f"{size.attention}-{size.seed}"
    # By its name: a run of another attention may go on beside it.
    if session.work(grid, session.Options(jobs=1, retries=0, only=[name])):
        raise UserError(f"{name} failed, as said above; its logs are in {grid.output / name}")
    return grid.output / name


def _flags(size: Size) -> tuple[str, ...]:
    """The flags of fairseq-train."""
    bleu_args = {"beam": 1, "max_len_a": 1.3, "max_len_b": 10}
    return (
        "--arch", "transformer_mtsa", "--encoder-attention", size.attention,
        "--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1],
        *_both("layers", LAYERS),
        *_both("embed-dim", size.width), *_both("ffn-embed-dim", 4 * size.width),
        *_both("attention-heads", 4),
        "--encoder-normalize-before", "--decoder-normalize-before", "--share-all-embeddings",
        "--dropout", "0.1", "--criterion", "label_smoothed_cross_entropy",
        "--label-smoothing", "0.1", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)",
        "--clip-norm", "1", "--lr", "0.003",
        "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(size.updates // 10),
        "--total-num-update", str(size.updates), "--max-update", str(size.updates),
        "--max-tokens", "1500", "--num-workers", "0",
        "--eval-bleu", "--eval-bleu-args", json.dumps(bleu_args),
        "--eval-bleu-remove-bpe", "sentencepiece",
        "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
        "--no-epoch-checkpoints", "--save-interval-updates", str(max(1, size.updates // 8)),
        "--keep-interval-updates", "1",
        # Epochs are as long as the text; only the interval above decides.
        "--validate-interval", "1000000", "--save-interval", "1000000", "--log-interval", "10",
    )  # fmt: skip


def _both(name: str, value: int) -> list[str]:
    return [f"--encoder-{name}", str(value), f"--decoder-{name}", str(value)]
