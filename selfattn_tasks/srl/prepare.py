"""Turn SRL files into the folder that training loads."""

import itertools
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, check_integer

from ..files import write_json, write_lines
from ..folder import check_destination, hashes, new_folder
from ..words.vocabulary import by_frequency, overlaps, percent_unknown, write_symbols
from .formats import conll, conll12, lines
from .propositions import Sentence

logger = logging.getLogger(__name__)

META, LABELS = "meta.json", "dict.label.txt"
VERSION = 1


@dataclass(frozen=True)
class Options:
    """How to build the two dictionaries.

    Args:
        lowercase: lower-case the words of the dictionary, as published. The prepared lines keep
            their case, since there may be vectors for cased words.
        vocab_size: the largest number of words; 0 keeps all, as published.
        min_count: how often a word must occur in the training lines.
        form: one of ``conll.FORMATS``.
        word_column: as for ``conll.read``.
    """

    lowercase: bool = True
    vocab_size: int = 0
    min_count: int = 1
    form: str = "auto"
    word_column: int | None = None

    def __post_init__(self) -> None:
        check_integer("--vocab-size", self.vocab_size, 0)
        check_integer("--min-count", self.min_count)


def prepare(
    files: Mapping[str, Sequence[Path]],
    destination: Path,
    options: Options | None = None,
    *,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the folder; all or nothing.

    It holds ``SPLIT.txt`` (one proposition per line, see ``formats.lines``), ``SPLIT.conll`` (the
    complete gold sentences, also those without a predicate; their n-th proposition is line n),
    ``dict.word.txt`` and ``dict.label.txt`` in fairseq's format, most frequent first, and
    ``meta.json``. Words are counted once per line, as in deepatt: in a sentence with three
    predicates, three times.

    Args:
        files: for ``train``, ``valid`` and, optionally, ``test``, ``test1`` and so on: a file, a
            folder of CoNLL-2012 files, or a words and a props file.
        destination: the folder to make.
        options: how to build the dictionaries.
        overwrite: replace a folder that was prepared before.

    Returns:
        the content of ``meta.json``.

    Raises:
        UserError: for a bad file or option, a split without a proposition, or options that leave no
            word.
    """
    options = options or Options()
    given = itertools.chain(*files.values())
    check_destination(destination, overwrite=overwrite, mark=LABELS, inputs=given)
    sentences: dict[str, list[Sentence]] = {}
    for name, paths in files.items():
        sentences[name] = conll.read(*paths, form=options.form, word_column=options.word_column)
        logger.info("read %s: %s sentences", " ".join(map(str, paths)), len(sentences[name]))
        _check(name, paths, sentences[name])
    texts = {name: [each.words for each in found] for name, found in sentences.items()}
    for where, n in overlaps(texts).items():
        if n:
            logger.warning(
                "warning: sentences of %s: %s", where.replace(" in ", " that are also in "), n
            )
    text = {name: lines.lines_of(content) for name, content in sentences.items()}
    labels = Counter(tag for line in text["train"] for tag in line.tags)
    words = by_frequency(Counter(_words(text["train"], options)))
    kept = [item for item in words if item[1] >= options.min_count][: options.vocab_size or None]
    if not kept:
        raise UserError(f"--min-count {options.min_count} leaves no word of the train data")
    known = {word for word, _ in kept}
    meta = {
        "version": VERSION,
        "sentences": {name: len(content) for name, content in sentences.items()},
        "propositions": {name: len(content) for name, content in text.items()},
        "words": len(kept),
        "labels": len(labels),
        "unknown words in percent": {
            name: percent_unknown(_words(content, options), known) for name, content in text.items()
        },
        "tags not in train": {
            name: sorted({tag for line in content for tag in line.tags} - labels.keys())
            for name, content in text.items()
            if name != "train"
        },
        "options": asdict(options),
        "inputs": hashes(
            file for some in files.values() for p in some for file in conll.files_of(p)
        ),
    }
    with new_folder(destination, overwrite=overwrite, mark=LABELS) as folder:
        for name, content in text.items():
            write_lines(folder / f"{name}.txt", [str(line) for line in content])
            conll.write_columns(folder / f"{name}.conll", sentences[name])
        write_symbols(folder / "dict.word.txt", kept)
        write_symbols(folder / LABELS, by_frequency(labels))
        write_json(folder / META, meta)
    return meta


def _check(name: str, paths: Sequence[Path], sentences: Sequence[Sentence]) -> None:
    where = " and ".join(map(str, paths))
    if not any(sentence.propositions for sentence in sentences):
        raise UserError(f"{where}: no predicate, but the {name} data needs at least one")
    if not any(sentence.has_words for sentence in sentences):
        raise UserError(
            f"{where}: propositions without words; give the words file before it, as in "
            f"--{name.rstrip('0123456789')} WORDS PROPS"
        )
    conll12.check_words(sentences, where)
    words = {word for sentence in sentences for word in sentence.words}
    if len(words) == 1 and len(sentences) > 1:
        raise UserError(
            f"{where}: every word is {words.pop()!r}: name the column of the words (--word-column)"
        )


def _words(content: Sequence[lines.Line], options: Options) -> Iterator[str]:
    words = (word for line in content for word in line.words)
    return map(str.lower, words) if options.lowercase else words
