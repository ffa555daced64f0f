"""From the archives to a fairseq data-bin, in steps that are done once each.

``text`` cleans, ``vocabulary`` learns SentencePiece, ``encoded`` applies it, ``data-bin`` is what
fairseq trains on. Each is a folder with a ``step.json``. Of the corpus, only what SentencePiece
learns from is held in memory.

Differs:
    tensor2tensor 1.9 learns word pieces of its own (``SubwordTextEncoder``, 33,708 of them) on a
    few megabytes and writes rare characters as numbers; here SentencePiece's BPE of the same size
    learns on a million pairs and rare characters are unknown. Text is put in Unicode's form NFC.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from selfattn.errors import UserError, check_integer
from selfattn_tasks.files import write_json, write_lines
from selfattn_tasks.progress import Progress, Show, ticking
from selfattn_tasks.translation import vocabulary
from selfattn_tasks.translation.binarise import preprocess
from selfattn_tasks.translation.prepare import MOST_WORKERS

from .sources import PARTS, Sources, as_inputs
from .steps import made_of, run_step
from .text import LANGUAGES, write_text

SUMMARY = "prepared.json"
_BATCH = 5000
# <unk>, <s> and </s> of SentencePiece; fairseq has its own.
_CONTROL_PIECES = 3


@dataclass(frozen=True)
class Options:
    """How to prepare the data; the defaults are those published, as nearly as possible."""

    # With <unk>, <s> and </s>. fairseq also has <pad>: 33,708, as many as tensor2tensor.
    vocab_size: int = 33_707
    vocab_pairs: int = 1_000_000  # of training, about, that the vocabulary is learned from
    coverage: float = 0.9999  # share of the characters that get pieces
    max_length: int = 256  # the most pieces of a training sentence, its end included
    # The most by which one side of a training pair may be longer than the other; None: any.
    max_ratio: float | None = None
    workers: int = 1  # processes and threads

    def __post_init__(self) -> None:
        check_integer("--vocab-pairs", self.vocab_pairs)
        check_integer("--max-length", self.max_length, 2)
        check_integer("--workers", self.workers, most=MOST_WORKERS)
        if not 0 < self.coverage <= 1:
            raise UserError(f"--coverage is {self.coverage}, but must be above 0 and at most 1")


def prepare(
    sources: Sources,
    archives: Mapping[str, Path],
    destination: Path,
    options: Options,
    *,
    any_data: bool = False,
    show: Show = lambda line: None,
) -> dict[str, Any]:
    """Do the steps that are not done yet.

    Returns:
        The counts of each step, which ``prepared.json`` holds too.

    Raises:
        UserError: for every mistake in flags or files.
    """
    destination.mkdir(parents=True, exist_ok=True)
    text = run_step(
        destination / "text",
        as_inputs(sources)
        | {"--max-length": options.max_length, "--max-ratio": options.max_ratio}
        | ({"--any-data": True} if any_data else {}),
        lambda folder: write_text(
            folder, sources, archives, options.max_length - 1, options.max_ratio, any_data, show
        ),
        show,
    )
    learned = run_step(
        destination / "vocabulary",
        {
            "text": made_of(text),
            "--vocab-size": options.vocab_size,
            "--vocab-pairs": options.vocab_pairs,
            "--coverage": options.coverage,
        },
        lambda folder: _learn(folder, destination / "text", text["counts"], options, show),
        show,
    )
    encoded = run_step(
        destination / "encoded",
        {
            "text": made_of(text),
            "vocabulary": made_of(learned),
            "--max-length": options.max_length,
        },
        lambda folder: _encode(folder, destination, text["counts"], options, show),
        show,
    )
    binary = run_step(
        destination / "data-bin",
        {"encoded": made_of(encoded), "vocabulary": made_of(learned)},
        lambda folder: _binarise(folder, destination, encoded["counts"], options, show),
        show,
    )
    records = {"text": text, "vocabulary": learned, "encoded": encoded, "data-bin": binary}
    summary = {name: record["counts"] for name, record in records.items()}
    write_json(destination / SUMMARY, summary)
    return summary


def _learn(
    folder: Path, text: Path, counts: Mapping[str, Any], options: Options, show: Show
) -> dict[str, Any]:
    """SentencePiece from every n-th training pair, and the dictionary of all its pieces."""
    pairs = counts["train"]["kept"]
    step = -(-pairs // options.vocab_pairs)
    used = -(-pairs // step)
    show(f"vocabulary: learning {options.vocab_size:,} pieces from {used:,} of {pairs:,} pairs")

    def sample() -> Iterator[str]:
        progress = Progress(show, "vocabulary: reading", used, "pairs")
        with _open(text / "train.en") as left, _open(text / "train.de") as right:
            for pair in islice(zip(left, right, strict=True), 0, None, step):
                progress.update(1)
                for line in pair:
                    yield line.rstrip("\n")

    with ticking(show, "vocabulary: learning"):
        vocabulary.learn(sample(), folder / "spm", options.vocab_size, "bpe", options.coverage)
    lines = (folder / "spm.vocab").read_text(encoding="utf-8").split("\n")[:-1]
    # All pieces, whether training has them or not: so the size is exactly the published one.
    pieces = [line.split("\t")[0] for line in lines[_CONTROL_PIECES:]]
    write_lines(folder / "dict.txt", [f"{piece} 1" for piece in pieces])
    return {"pairs": used, "pieces": len(pieces)}


def _encode(
    folder: Path, destination: Path, counts: Mapping[str, Any], options: Options, show: Show
) -> dict[str, Any]:
    """The clean text as pieces; training pairs with too many are left out."""
    processor = vocabulary.load(destination / "vocabulary" / "spm.model")
    dictionary = (destination / "vocabulary" / "dict.txt").read_text(encoding="utf-8")
    known = {line.rpartition(" ")[0] for line in dictionary.split("\n")}
    result: dict[str, Any] = {}
    for part in PARTS:
        found: Counter[str] = Counter()
        progress = Progress(show, f"encoded: {part}", counts[part]["kept"], "pairs")
        limit = options.max_length if part == "train" else None
        names = [f"{part}.{language}" for language in LANGUAGES]
        text = destination / "text"
        with (
            _open(text / names[0]) as left,
            _open(text / names[1]) as right,
            _open(folder / names[0], "w") as source,
            _open(folder / names[1], "w") as target,
        ):
            for batch in _batches(zip(left, right, strict=True)):
                sides = [
                    processor.encode([p[i][:-1] for p in batch], num_threads=options.workers)
                    for i in (0, 1)
                ]
                for pair in zip(*sides, strict=True):
                    if limit is not None and max(map(len, pair)) + 1 > limit:
                        found["too many pieces"] += 1
                        continue
                    found["kept"] += 1
                    for file, language, line in zip((source, target), LANGUAGES, pair, strict=True):
                        file.write(" ".join(line) + "\n")
                        found[f"{language} pieces"] += len(line)
                        found[f"{language} unknown"] += sum(piece not in known for piece in line)
                progress.update(len(batch))
        if not found["kept"]:
            raise UserError(
                f"--max-length {options.max_length} leaves no pair for {part}, but one or more are "
                "needed"
            )
        result[part] = dict(found)
    return result


def _binarise(
    folder: Path, destination: Path, counts: Mapping[str, Any], options: Options, show: Show
) -> dict[str, Any]:
    """fairseq-preprocess."""
    total = sum(
        part[f"{language} pieces"] + part["kept"]
        for part in counts.values()
        for language in LANGUAGES
    )
    with ticking(show, f"data-bin: binarising {total:,} pieces"):
        preprocess(
            destination / "encoded", folder, LANGUAGES, ["test"], workers=options.workers,
            dictionary=destination / "vocabulary" / "dict.txt",
        )  # fmt: skip
    # It holds the time of day, and nothing that the counts do not say.
    (folder / "preprocess.log").unlink(missing_ok=True)
    symbols = (folder / "dict.en.txt").read_bytes().count(b"\n") + 4
    return {"symbols": symbols, "pieces": total}


def _open(path: Path, mode: str = "r") -> IO[str]:
    # newline="\n": a line ends nowhere else.
    return path.open(mode, encoding="utf-8", newline="\n")


def _batches(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(pairs)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
