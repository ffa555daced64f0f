"""Everything between text files and a fairseq data-bin."""

import itertools
import logging
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, check_integer

from ..files import read_object, write_json, write_lines
from ..folder import check_destination, hashes, new_folder
from ..text import Cleaning, Pair, ParallelText, clean_pairs, read_lines, read_pairs
from . import vocabulary
from .binarise import preprocess
from .split import count_overlap, split_pairs
from .suspicions import suspicions

logger = logging.getLogger(__name__)

SUMMARY = "prepared.json"
MOST_WORKERS = 1024  # more processes than cores would only take the memory
_LANGUAGE = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Options:
    """How to prepare a corpus.

    Args:
        source_lang: short name, used as file suffix, for example ``en``.
        target_lang: the same for the other side.
        vocab_size: SentencePiece pieces, shared by both languages.
        vocab_type: ``bpe`` or ``unigram``.
        cleaning: what a sentence must look like.
        workers: processes of fairseq-preprocess.
    """

    source_lang: str
    target_lang: str
    vocab_size: int = 8000
    vocab_type: str = "bpe"
    cleaning: Cleaning = field(default_factory=Cleaning)
    workers: int = 1

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source_lang, self.target_lang

    def __post_init__(self) -> None:
        for flag, value in zip(("--source-lang", "--target-lang"), self.languages, strict=True):
            if not _LANGUAGE.fullmatch(value):
                raise UserError(f"{flag} is {value!r}, but must be letters, digits or underscores")
        if self.source_lang == self.target_lang:
            raise UserError(
                f"--source-lang and --target-lang are both {self.source_lang!r}, but must differ"
            )
        check_integer("--vocab-size", self.vocab_size, 4)
        check_integer("--workers", self.workers, most=MOST_WORKERS)
        if math.isinf(self.cleaning.max_ratio):
            raise UserError("--max-ratio is inf, but must be a number of 1 or more")


def find_pair(prefix: str, options: Options, flag: str) -> tuple[Path, Path]:
    """Find the two files ``PREFIX.LANG`` or ``PREFIX.LANG.gz``.

    Args:
        prefix: the start of their paths.
        options: their languages.
        flag: where the user named them, for messages.

    Raises:
        UserError: if one is missing.
    """
    found = []
    for lang in options.languages:
        candidates = [Path(f"{prefix}.{lang}"), Path(f"{prefix}.{lang}.gz")]
        existing = [path for path in candidates if path.exists()]
        if not existing:
            raise UserError(f"{flag} is {prefix}, but there is no file {candidates[0]} (nor .gz)")
        found.append(existing[0])
    return found[0], found[1]


def prepare(
    files: Mapping[str, tuple[Path, Path]],
    destination: Path,
    options: Options,
    *,
    held_out: int = 500,
    seed: int = 1,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Clean, split if asked, learn a vocabulary, encode and binarise; all or nothing.

    The destination holds ``data-bin/`` for fairseq, ``spm.model`` and ``spm.vocab``, ``raw/`` with
    the clean text of valid and test, against which translations are scored, and ``prepared.json``
    with counts, options and the SHA-256 of every input.

    Args:
        files: source and target of ``train``, ``valid``, ``test`` and, for further test sets,
            ``test1``, ``test2`` and so on; or of ``pair`` alone, which is split.
        destination: the folder to make.
        options: languages, vocabulary, cleaning.
        held_out: of ``pair``, the number of pairs in valid, and in test.
        seed: of the split of ``pair``.
        overwrite: replace a folder that was prepared before.

    Returns:
        the content of ``prepared.json``.

    Raises:
        UserError: for every mistake in flags or files.
    """
    if {*files} != {"pair"} and ("pair" in files or not {"train", "valid"} <= {*files}):
        raise UserError("give files for train and valid, or one pair of files to split")
    given = itertools.chain(*files.values())
    check_destination(destination, overwrite=overwrite, mark=SUMMARY, inputs=given)
    inputs = {name: read_pairs(*paths) for name, paths in files.items()}
    warnings = suspicions(inputs)
    for warning in warnings:
        logger.warning("warning: %s", warning)
    counts: dict[str, dict[str, int]] = {}
    text: dict[str, list[Pair]] = {}
    for name, content in inputs.items():
        training = name in ("train", "pair")
        text[name], counts[name] = clean_pairs(content, options.cleaning, training=training)
    if "pair" in files:
        text = split_pairs(text["pair"], held_out, seed)
        distinct = sum(len(pairs) for pairs in text.values())
        _drop(counts["pair"], "duplicates left out", counts["pair"]["kept"] - distinct)
    _check_sizes(text)
    with new_folder(destination, overwrite=overwrite, mark=SUMMARY) as folder:
        pieces = _write_text(folder, text, options, inputs, counts)
        logger.info("binarising with fairseq-preprocess")
        tests = [name for name in text if name.startswith("test")]
        preprocess(
            folder / "encoded", folder / "data-bin", options.languages, tests,
            workers=options.workers,
        )  # fmt: skip
        shutil.rmtree(folder / "encoded")  # SentencePiece gives it back from the raw text
        summary = {
            "languages": list(options.languages),
            "pairs": {name: len(pairs) for name, pairs in text.items()},
            "pieces": pieces,
            "counts": counts,
            "warnings": warnings,
            "sentences also in train": {
                name: count_overlap(pairs, text["train"])
                for name, pairs in text.items()
                if name != "train"
            },
            "dictionary": len(read_lines(folder / "data-bin" / f"dict.{options.source_lang}.txt")),
            "options": asdict(options)
            | ({"held_out": held_out, "seed": seed} if "pair" in files else {}),
            "inputs": hashes(
                p for content in inputs.values() for p in (content.source, content.target)
            ),
        }
        write_json(folder / SUMMARY, summary)
    return summary


def lowercased(data: Path) -> bool | None:
    """Whether the text of the dictionaries in a folder was lower-cased; None: not prepared here.

    Raises:
        UserError: if ``prepared.json`` there, or in the folder above, does not say so.
    """
    for path in (data / SUMMARY, data.parent / SUMMARY):
        if path.is_file():
            try:
                return bool(read_object(path)["options"]["cleaning"]["lowercase"])
            except (KeyError, TypeError):
                raise UserError(
                    f"{path} does not say how text was cleaned; prepare the data again"
                ) from None
    return None


def _check_sizes(text: Mapping[str, list[Pair]]) -> None:
    for name, pairs in text.items():
        if not pairs:
            raise UserError(
                f"the {name} data has no pair left after cleaning, but needs at least one"
            )


def _drop(counts: dict[str, int], reason: str, pairs: int) -> None:
    """Move pairs from ``kept`` to a reason, so that all counts but ``read`` add up to ``read``."""
    counts["kept"] -= pairs
    counts[reason] = counts.get(reason, 0) + pairs


def _write_text(
    folder: Path,
    text: dict[str, list[Pair]],
    options: Options,
    inputs: Mapping[str, ParallelText],
    counts: dict[str, dict[str, int]],
) -> dict[str, dict[str, int]]:
    """Learn the vocabulary, drop over-long pairs from ``text``, write raw and encoded text."""
    train = text["train"]
    logger.info("learning %d %s pieces", options.vocab_size, options.vocab_type)
    vocabulary.learn(
        [side for pair in train for side in pair],
        folder / "spm",
        options.vocab_size,
        options.vocab_type,
    )
    processor = vocabulary.load(folder / "spm.model")
    (folder / "raw").mkdir()
    (folder / "encoded").mkdir()
    limit = options.cleaning.max_length
    pieces: dict[str, dict[str, int]] = {}
    for name, pairs in text.items():
        sides = [processor.encode([pair[i] for pair in pairs]) for i in (0, 1)]
        fits = [max(len(a), len(b)) <= limit for a, b in zip(*sides, strict=True)]
        if not all(fits):
            _refuse_or_report(name, fits, options, inputs)
            _drop(counts[name if name in inputs else "pair"], "too many pieces", fits.count(False))
            text[name] = list(itertools.compress(pairs, fits))
        pieces[name] = {}
        for side, lang in enumerate(options.languages):
            kept = list(itertools.compress(sides[side], fits))
            pieces[name][lang] = sum(map(len, kept))
            write_lines(folder / "encoded" / f"{name}.{lang}", [" ".join(line) for line in kept])
            if name != "train":
                write_lines(folder / "raw" / f"{name}.{lang}", [p[side] for p in text[name]])
    _check_sizes(text)
    return pieces


def _refuse_or_report(
    name: str, fits: list[bool], options: Options, inputs: Mapping[str, ParallelText]
) -> None:
    limit = options.cleaning.max_length
    if name in inputs and (name != "train" or options.cleaning.strict):
        # Nothing was dropped before under these conditions, so positions are line numbers.
        number = fits.index(False) + 1
        raise UserError(
            f"{inputs[name].source} or {inputs[name].target}, line {number}: more than "
            f"--max-length {limit} SentencePiece pieces, which {name} data must not have"
        )
    if options.cleaning.strict:
        raise UserError(
            f"{inputs['pair'].source} or {inputs['pair'].target}: {fits.count(False)} pairs of "
            f"more than --max-length {limit} SentencePiece pieces, which --strict does not allow"
        )
    logger.info("%s: dropped %d pairs of more than %d pieces", name, fits.count(False), limit)
