"""From the files of a corpus to the folder that training reads."""

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.errors import UserError, check_integer

from ..files import write_json, writing
from ..folder import check_destination, hashes, new_folder
from ..words.embeddings import read_vectors
from ..words.vocabulary import by_frequency, overlaps, percent_unknown, write_symbols
from . import counts
from .folder import ALL, FOLDS, META, VECTORS, VERSION, WORDS, words_of, write_vectors
from .folds import draw_folds, draw_share
from .formats.reading import read_all
from .formats.source import Reading
from .record import HIGHEST, LOWEST, NLI_LABELS, Example, Kind

logger = logging.getLogger(__name__)

Parts = dict[str, list[Example]]


@dataclass(frozen=True)
class Options:
    """How to prepare a corpus.

    Args:
        kind: of the task.
        reading: of its files.
        folds: parts of cross-validation; 0: the corpus has its own parts.
        seed: of the folds, or of the share that is held out.
        valid_share: of the training data, where no validation data are given;
            0.1 by default.
        select_on_test: the test data are the validation data, as in the papers.
        length_percentile: training examples with a sentence above this percentile of their
            lengths are left out (SNLI in the papers: 97); 100 keeps all.
        vectors: files of word vectors; a word takes its vector from the first
            that has one.
    """

    kind: Kind
    reading: Reading = field(default_factory=Reading)
    folds: int = 0
    seed: int = 1
    valid_share: float | None = None
    select_on_test: bool = False
    length_percentile: float = 100.0
    vectors: tuple[Path, ...] = ()

    def check(self, names: Iterable[str]) -> None:
        """Refuse flags that contradict each other; ``names`` are the parts that files are given of.

        Raises:
            UserError: if they do.
        """
        check_integer("--seed", self.seed, least=0)
        others = sorted(set(names) - {"train"})
        if not 0 < self.length_percentile <= 100:
            raise UserError(
                f"--length-percentile is {self.length_percentile:g}, but must be more than 0 and "
                "at most 100"
            )
        if self.reading.repeat and self.reading.sst == "binary":
            raise UserError("--sst-repeat goes with --sst fine, not with binary")
        if self.reading.repeat and self.folds:
            raise UserError(f"--sst-repeat repeats phrases, and --folds {self.folds} has none")
        if self.folds and (others or self.valid_share is not None or self.length_percentile < 100):
            raise UserError(
                f"--folds {self.folds} makes the parts of --train alone: leave out --valid, "
                "--test, --valid-share and --length-percentile"
            )
        if self.valid_share is not None and ("valid" in others or self.select_on_test):
            raise UserError(
                f"--valid-share {self.valid_share} is for training data without --valid and "
                "without --select-on-test"
            )
        if self.select_on_test and "valid" in others:
            raise UserError("--select-on-test makes the test data choose: leave out --valid")


def prepare(
    files: Mapping[str, Sequence[Path]],
    destination: Path,
    options: Options,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the folder; all or nothing. ``Folder`` reads it again.

    It gets ``PART.jsonl``, one example per line, and ``dict.txt``, the words of training in
    fairseq's format; or with folds ``all.jsonl`` and ``folds.json``, and no ``dict.txt``, since
    each fold has other words to learn from. ``meta.json`` says what it is made of, and
    ``vectors.npz`` has the vectors of the words of all parts.

    Args:
        files: of ``train``, ``valid``, ``test``, ``test1`` and so on.
        destination: the folder to make.
        options: how.
        overwrite: replace a folder that was prepared before.

    Returns:
        the content of ``meta.json``.

    Raises:
        UserError: for a bad file or option.
    """
    options.check(files)
    given = itertools.chain(*files.values(), options.vectors)
    check_destination(destination, overwrite=overwrite, mark=META, inputs=given)
    parts, whole, meta = _read(dict(files), options)
    numbers: list[int] = []
    if options.folds:
        (examples,) = parts.values()
        numbers = draw_folds(len(examples), options.folds, options.seed)
        lacking = counts.missing_in_folds(examples, numbers, options.folds)
        meta["classes missing in folds"] = lacking if options.kind.target == "class" else {}
    else:
        meta["valid share"] = _hold_out(parts, options, meta["forms"]["train"])
        parts = {name: parts[name] for name in ("train", "valid")} | parts
    words = [] if options.folds else by_frequency(Counter(words_of(parts["train"])))
    meta |= _settings(options) | _described(parts, {word for word, _ in words}, options.kind)
    meta |= _overlaps(parts | whole, options)
    vectors = _vectors(parts, options, meta)
    with new_folder(destination, overwrite=overwrite, mark=META) as folder:
        for name, examples in parts.items():
            with writing(folder / f"{name}.jsonl") as file:
                file.writelines(f"{example.line()}\n".encode() for example in examples)
        if options.folds:
            write_json(folder / FOLDS, numbers)
        else:
            write_symbols(folder / WORDS, words)
        if vectors is not None:
            write_vectors(folder / VECTORS, *vectors)
        write_json(folder / META, meta)
    return meta


def _read(
    files: dict[str, Sequence[Path]], options: Options
) -> tuple[Parts, Parts, dict[str, Any]]:
    """The examples of all parts, those of trees without phrases, and the facts of their files."""
    parts: Parts = {}
    whole: Parts = {}
    meta: dict[str, Any] = {"forms": {}, "dropped": {}, "read as Latin-1": {}}
    if options.folds:
        files = {Path(ALL).stem: files["train"]}
    names = [*files]
    for name in names:  # which may grow
        part = None if options.folds else name.rstrip("0123456789")
        reading = replace(options.reading, part=part, phrases=name == "train")
        corpus = read_all(files[name], options.kind, reading)
        if name == "train":  # its rows may say themselves of which part they are
            new = {part: own for part, own in corpus.parts.items() if part not in files}
            files |= new
            names += new
        parts[name] = corpus.examples
        if reading.phrases and corpus.form == "trees":
            plain = replace(reading, phrases=False)
            whole[name] = read_all(files[name], options.kind, plain).examples
        meta["forms"][name] = corpus.form
        meta["dropped"][name] = dict(corpus.dropped)
        meta["read as Latin-1"][name] = corpus.recoded
        logger.info("read %s: %s examples", " ".join(map(str, files[name])), len(corpus.examples))
    if "trees" not in meta["forms"].values():
        if options.reading.sst:
            raise UserError(f"--sst is {options.reading.sst}, but no file has trees")
        if options.reading.repeat:
            raise UserError("--sst-repeat is given, but no file has trees")
    meta["inputs"] = hashes(path for paths in files.values() for path in paths)
    return parts, whole, meta


def _hold_out(parts: Parts, options: Options, form: str) -> float | None:
    """Give the parts a validation part if they have none, and leave out what is too long.

    Returns:
        the share of the training data that was drawn.
    """
    share = None
    if options.select_on_test:
        if "test" not in parts:
            raise UserError("--select-on-test needs --test, or --folds")
        if "valid" in parts:
            raise UserError("--select-on-test is given, but --train names its own validation part")
        parts["valid"] = parts["test"]
    elif "valid" not in parts:
        if form == "trees":
            raise UserError("trees need --valid: a part of them has the phrases of the others")
        train = parts["train"]
        strata = [e.target if options.kind.target == "class" else None for e in train]
        share = 0.1 if options.valid_share is None else options.valid_share
        held = set(draw_share(strata, share, options.seed))
        parts["valid"] = [example for n, example in enumerate(train) if n in held]
        parts["train"] = [example for n, example in enumerate(train) if n not in held]
        logger.info("drew %s of the training examples for validation", f"{len(held):,}")
    elif options.valid_share is not None:
        raise UserError(
            f"--valid-share is {options.valid_share}, but --train names its own validation part"
        )
    if options.length_percentile < 100:
        kept = counts.without_longest(parts["train"], options.length_percentile)
        if not kept:
            raise UserError(
                f"--length-percentile is {options.length_percentile:g}, which leaves no example"
            )
        logger.info("left out %s longer training examples", f"{len(parts['train']) - len(kept):,}")
        parts["train"] = kept
    return share


def _settings(options: Options) -> dict[str, Any]:
    """What was asked for, which makes the data another than those of other settings."""
    reading, by_score = options.reading, options.kind.target == "score"
    return {
        "version": VERSION,
        "kind": str(options.kind),
        "lowest": LOWEST if by_score else None,
        "highest": HIGHEST if by_score else None,
        "tokens": asdict(reading.tokens),
        "sst": reading.sst,
        "sst repeat": reading.repeat,
        "label column": reading.label_column,
        "folds": options.folds or None,
        "seed": options.seed,
        "selection": "test" if options.select_on_test else "dev",
        "length percentile": options.length_percentile,
    }


def _described(parts: Parts, known: set[str], kind: Kind) -> dict[str, Any]:
    """What is in the parts; ``known`` are the words of training, none with folds.

    Raises:
        UserError: if there is one class only.
    """
    found: dict[str, dict[str, int]] = {}
    labels: list[str] = []
    if kind.target == "class":
        found = {name: counts.classes(examples) for name, examples in parts.items()}
        first, learned = next(iter(found.items()))
        if len(learned) < 2:
            raise UserError(f"part {first}: the data have one class only: {', '.join(learned)}")
        labels = sorted(learned)  # not of the test set, which would give the network its classes
    return {
        "labels": list(NLI_LABELS) if kind is Kind.NLI else labels,
        "examples": {name: len(examples) for name, examples in parts.items()},
        "classes": found,
        "labels not in train": {
            name: sorted(own.keys() - found.get("train", own).keys()) for name, own in found.items()
        },
        "words": len(known),
        "unknown words in percent": {
            name: percent_unknown(words_of(examples), known)
            for name, examples in parts.items()
            if known
        },
    }


def _overlaps(parts: Parts, options: Options) -> dict[str, Any]:
    """Lengths and repeated texts; of trees, those of whole sentences."""
    distinct = {
        name: [example.sentences for example in examples]
        for name, examples in parts.items()
        if not (options.select_on_test and name == "valid")
    }
    return {
        "lengths": {name: counts.lengths(examples) for name, examples in parts.items()},
        "overlaps": overlaps(distinct),
        "repeated": {name: counts.repeated(examples) for name, examples in parts.items()},
    }


def _vectors(
    parts: Parts, options: Options, meta: dict[str, Any]
) -> tuple[list[str], np.ndarray] | None:
    """Words of all parts and their vectors; what they cover is noted in ``meta``."""
    if not options.vectors:
        return None
    words = sorted({word for part in parts.values() for word in words_of(part)})
    wanted = {form for word in words for form in (word, word.lower())}
    files = [read_vectors(path, wanted) for path in options.vectors]
    for path, found in zip(options.vectors[1:], files[1:], strict=True):
        if found.width != files[0].width:
            raise UserError(
                f"--vectors: {path} has vectors of {found.width} numbers, but "
                f"{options.vectors[0]} of {files[0].width}"
            )
    rows: dict[str, np.ndarray] = {}
    for vectors in reversed(files):
        for word in words:
            if (row := vectors.row(word)) is not None:
                rows[word] = vectors.values[row].numpy()
    if not rows:
        raise UserError(f"--vectors: {options.vectors[0]} has no vector of any word of the data")
    meta["inputs"] |= hashes(options.vectors)
    meta["vectors"] = {
        "width": files[0].width,
        "words": len(rows),
        "without in percent": {
            name: percent_unknown(words_of(part), rows) for name, part in parts.items()
        },
    }
    return list(rows), np.stack(list(rows.values()))
