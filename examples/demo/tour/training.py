"""The three steps after the data: train, average, translate; each done once and resumable."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from selfattn.errors import UserError
from selfattn_experiments import averaging
from selfattn_experiments.process import frugal
from selfattn_experiments.report import parse_line
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.files import read_object, write_json, write_lines
from selfattn_tasks.text import read_lines
from selfattn_tasks.translation.outputs import in_corpus_order, parse_hypothesis

from .process import run_logged
from .progress import Stopwatch, TrainingProgress

logger = logging.getLogger(__name__)

LANGUAGES = ("en", "de")
_CHECKPOINT = re.compile(r"checkpoint_\d+_(\d+)\.pt")


@dataclass(frozen=True)
class Size:
    """What decides how long a training takes and how good it gets.

    Args:
        attention: self-attention of the encoder, as in ``--encoder-attention``.
        updates: optimizer steps.
        encoder_layers: layers of the encoder.
        decoder_layers: layers of the decoder.
        width: width of the model; the feed-forward layers have four times as much.
        heads: attention heads.
        max_tokens: pieces a batch, at most.
        learning_rate: at its peak, after a tenth of the updates; then linear to 0.
        seed: of the training.
    """

    attention: str = "mtsa"
    updates: int = 1600
    encoder_layers: int = 2
    decoder_layers: int = 2
    width: int = 128
    heads: int = 4
    max_tokens: int = 1500
    learning_rate: float = 3e-3
    seed: int = 1


class Run:
    """One training in one folder.

    Args:
        folder: for everything that this run writes.
        data: a folder that ``selfattn_tasks.translation.prepare`` made.
        size: the model and its training.
        user_dir: the fairseq plugin.

    Raises:
        UserError: if the folder holds a run with other settings, or they cannot be read.
    """

    def __init__(self, folder: Path, data: Path, size: Size, user_dir: Path) -> None:
        self.folder, self.data, self.size, self.user_dir = folder, data, size, user_dir
        self.checkpoints = folder / "checkpoints"
        self._last_checkpoint = self.checkpoints / "checkpoint_last.pt"
        self.averaged = folder / "averaged.pt"
        self.train_log = folder / "train.log"
        self.translate_log = folder / "translate.log"
        self.tensorboard = folder / "tensorboard"
        self.hypotheses = folder / f"test.{LANGUAGES[1]}"
        self._settings = folder / "run.json"
        self.stopwatch = Stopwatch(folder / "seconds.json")
        folder.mkdir(parents=True, exist_ok=True)
        if self._settings.is_file():
            before = read_object(self._settings)
            if before != asdict(size):
                changed = ", ".join(k for k, v in asdict(size).items() if before.get(k) != v)
                raise UserError(
                    f"{folder} holds a training with another value of {changed}: "
                    "remove that folder, or choose another with --dir"
                )
        else:
            write_json(self._settings, asdict(size))

    def updates_done(self) -> int:
        """The updates of the newest checkpoint; 0 if there is none.

        Raises:
            UserError: if it cannot be read.
        """
        if not self._last_checkpoint.exists():
            return 0
        return checkpoints.updates(self._last_checkpoint)

    def train(self) -> bool:
        """Train up to the last update, from where an earlier attempt stopped; False if done before.

        Raises:
            UserError: if fairseq-train fails.
        """
        if self.updates_done() >= self.size.updates:
            return False
        progress = TrainingProgress(self.size.updates)

        def on_line(line: str) -> None:
            if record := parse_line(line):
                progress.show(record)

        with self.stopwatch.timed("training"):
            try:
                run_logged(
                    "fairseq-train",
                    self.train_command(),
                    self.train_log,
                    on_line=on_line,
                    environment=_environment(),
                )
            finally:
                progress.close()
        if (done := self.updates_done()) < self.size.updates:
            raise UserError(
                f"fairseq-train stopped after {done} of {self.size.updates} updates; "
                f"its log is {self.train_log}"
            )
        return True

    def train_command(self) -> list[str]:
        """The fairseq-train command of this run."""
        size = self.size
        every = max(1, size.updates // 8)
        bleu_args = {"beam": 1, "max_len_a": 1.3, "max_len_b": 10}
        return [
            sys.executable, "-m", "fairseq_cli.train", str(self.data / "data-bin"),
            "--user-dir", str(self.user_dir), "--arch", "transformer_mtsa",
            "--encoder-attention", size.attention,
            "--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1],
            *_both("layers", size.encoder_layers, size.decoder_layers),
            *_both("embed-dim", size.width), *_both("ffn-embed-dim", 4 * size.width),
            *_both("attention-heads", size.heads),
            "--encoder-normalize-before", "--decoder-normalize-before", "--share-all-embeddings",
            "--dropout", "0.1", "--criterion", "label_smoothed_cross_entropy",
            "--label-smoothing", "0.1", "--optimizer", "adam", "--adam-betas", "(0.9, 0.98)",
            "--clip-norm", "1", "--lr", str(size.learning_rate),
            "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(size.updates // 10),
            "--total-num-update", str(size.updates), "--max-update", str(size.updates),
            "--max-tokens", str(size.max_tokens), "--num-workers", "0",
            "--seed", str(size.seed),
            "--eval-bleu", "--eval-bleu-args", json.dumps(bleu_args),
            "--eval-bleu-remove-bpe", "sentencepiece",
            "--save-dir", str(self.checkpoints), "--no-epoch-checkpoints",
            "--save-interval-updates", str(every), "--keep-interval-updates", "2",
            # Epochs are as long as the text; only the interval above decides.
            "--validate-interval", "1000000", "--save-interval", "1000000",
            "--tensorboard-logdir", str(self.tensorboard),
            "--log-format", "json", "--log-interval", "10", *_device(),
        ]  # fmt: skip

    def average(self) -> bool:
        """Average the last two checkpoints; False if done before."""
        if self.averaged.is_file():
            return False
        # At the end of an epoch fairseq writes checkpoint_last.pt only, no checkpoint by update.
        matches = [(_CHECKPOINT.fullmatch(p.name), p) for p in self.checkpoints.iterdir()]
        earlier = {int(m[1]): p for m, p in matches if m and int(m[1]) < self.size.updates}
        newest = [earlier[max(earlier)]] if earlier else []
        saved.write(averaging.average([*newest, self._last_checkpoint]), self.averaged)
        return True

    def translate(self) -> bool:
        """Translate the test set with beam search; False if done before.

        Raises:
            UserError: if fairseq-generate fails or leaves sentences out.
        """
        if self.hypotheses.is_file():
            return False
        found: list[tuple[int, str]] = []

        def on_line(line: str) -> None:
            if hypothesis := parse_hypothesis(line):
                found.append(hypothesis)

        command = [
            sys.executable, "-m", "fairseq_cli.generate", str(self.data / "data-bin"),
            "--user-dir", str(self.user_dir), "--path", str(self.averaged),
            "--source-lang", LANGUAGES[0], "--target-lang", LANGUAGES[1],
            "--gen-subset", "test", "--beam", "5", "--max-len-a", "1.3", "--max-len-b", "10",
            "--remove-bpe", "sentencepiece", "--max-tokens", "4000", *_device(),
        ]  # fmt: skip
        with self.stopwatch.timed("translation"):
            run_logged(
                "fairseq-generate",
                command,
                self.translate_log,
                on_line=on_line,
                environment=_environment(),
            )
        write_lines(self.hypotheses, in_corpus_order(found, len(self.references())))
        return True

    def sources(self) -> list[str]:
        """The clean source side of the test set."""
        return read_lines(self.data / "raw" / f"test.{LANGUAGES[0]}")

    def references(self) -> list[str]:
        """The clean target side of the test set."""
        return read_lines(self.data / "raw" / f"test.{LANGUAGES[1]}")

    def translations(self) -> list[str]:
        """What the averaged model made of the test set."""
        return read_lines(self.hypotheses)


def _both(name: str, encoder: int, decoder: int | None = None) -> list[str]:
    return [f"--encoder-{name}", str(encoder), f"--decoder-{name}", str(decoder or encoder)]


def _device() -> list[str]:
    return [] if torch.cuda.is_available() else ["--cpu"]


def _environment() -> dict[str, str]:
    """What the subprocesses add to the environment; the user's own settings win."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    threads = max(1, min(4, cores - round(os.getloadavg()[0])))
    ours = {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONWARNINGS": "ignore",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
    }
    return frugal() | ours | {name: os.environ[name] for name in ours if name in os.environ}
