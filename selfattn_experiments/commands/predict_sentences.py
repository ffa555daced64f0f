"""Apply a trained model of sentences: classes, scores or chosen candidates, or vectors.

The checkpoint is all that is needed; several are averaged as an ensemble.

Examples, a file of any form that `selfattn prepare sentences` reads, with labels or without, and
its accuracy or correlation:

  selfattn predict sentences runs/sick/checkpoint_best.pt --input test.tsv --output test.pred
  selfattn score sentences test.tsv test.pred

Example, typed sentences, two for each example of a model of pairs:

  selfattn predict sentences runs/sick/checkpoint_best.pt \\
      --sentence "A dog runs." --sentence "A dog sleeps."

Example, the trivial system that every table should show, of a prepared folder: the most frequent
class, the mean score, or the candidate that shares most with the question, rare words counting
more:

  selfattn predict sentences --baseline data-bin/squad --input dev.jsonl --output overlap.tsv

Without --input and --sentence, sentences are read from standard input, one per line; empty lines
are left out. The output has tabs and a header line: the prediction, and the probability of each
label, or of each whole score; for candidates, counted from 0, their probabilities in one column.
"""

import argparse
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import writing
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.saved import find_checkpoint
from selfattn_tasks.sentences.baselines import baseline
from selfattn_tasks.sentences.formats.reading import read
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.predictions import write
from selfattn_tasks.sentences.record import Example, Kind, read_examples
from selfattn_tasks.sentences.tokens import Tokens

from .flags import check_outputs
from .predict import invite, refuse_roles, shown, typed

logger = logging.getLogger(__name__)
# How many typed sentences make an example; a question has all that are typed as candidates.
_SENTENCES = {"single": 1, "pair": 2}


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", nargs="*", type=Path, metavar="CHECKPOINT", help="one, or an ensemble")
    add("--baseline", type=Path, metavar="FOLDER",
        help="instead of a checkpoint: the trivial system, which knows the training part of this "
        "folder, or all of it if it has folds")  # fmt: skip
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--input", nargs=1, type=Path, metavar="FILE", help="see above")
    what.add_argument("--sentence", action="append", metavar="TEXT", help="may be repeated")
    add("--tokenized", action="store_true", help="split sentences at spaces only")
    add("--output", type=Path, metavar="FILE", help="default: standard output")
    add("--embeddings", type=Path, metavar="FILE",
        help="write the sentences' vectors for NumPy (.npy), too: examples x width, or examples x "
        "sentences x width where an example has several")  # fmt: skip
    add("--device", default="cpu", help="cpu (default) or cuda")


def take_over(args: argparse.Namespace) -> None:
    """Go on where `selfattn predict` finds that a model is one of sentences.

    Raises:
        UserError: as for ``main``, and for flags of semantic roles.
    """
    refuse_roles(args, "one of sentences")
    if args.prose:
        args.refuse("--prose belongs to models of semantic roles; --input names a file of examples")
    args.sentence = args.sentence or args.texts
    if args.input and len(args.input) > 1:
        args.refuse("--input takes one file with a model of sentences")
    args.embeddings = args.baseline = None
    main(args)


def main(args: argparse.Namespace) -> None:
    """Predict, write what is asked for, and say how fast it was."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    args.checkpoint = [find_checkpoint(path) for path in args.checkpoint]
    check_outputs(args, "output", "embeddings", inputs=[*(args.input or ()), *args.checkpoint])
    if args.input and args.tokenized:
        args.refuse("--tokenized is for texts; leave it out with --input")
    if bool(args.checkpoint) == (args.baseline is not None):
        args.refuse("give a checkpoint, or --baseline FOLDER")
    if args.baseline is not None:
        _apply_baseline(args)
        return
    import numpy as np

    # torch takes seconds to import, and a mistake in the flags should not.
    from selfattn_tasks.devices import find_device
    from selfattn_tasks.sentences.model.predictor import Predictor

    find_device(args.device, "--device")
    predictor = Predictor.load(args.checkpoint, args.device)
    state, meta = predictor.state, predictor.state.meta
    examples = wanted(args, state.kind, state.tokens, meta)
    total = len(examples)
    start = time.perf_counter()
    with shown("predicting", total, "examples") as progress:
        predictions = predictor.predict(examples, progress.to)
    seconds = time.perf_counter() - start
    if args.embeddings is not None:
        with shown("encoding", total, "examples") as progress:
            vectors = predictor.embed(examples, progress.to)
        with writing(args.embeddings) as file:
            np.save(file, vectors)
    write(args.output or Path("/dev/stdout"), predictions, meta)
    rate = 60 * total / seconds
    what = f"{total:,} example{'s' * (total != 1)}"
    print(f"{what} in {seconds:.1f} s: {rate:,.0f} a minute", file=sys.stderr)


def _apply_baseline(args: argparse.Namespace) -> None:
    if args.embeddings is not None:
        raise UserError("--embeddings needs a checkpoint: --baseline has no vectors of sentences")
    from selfattn_tasks.sentences.folder import ALL, Folder

    folder = Folder(args.baseline)
    examples = wanted(args, folder.kind, folder.tokens, folder.meta)
    training = (
        list(read_examples(folder.path / ALL, folder.kind))
        if folder.fold_count
        else folder.examples("train")
    )
    found = baseline(folder.kind, folder.labels, training, examples)
    write(args.output or Path("/dev/stdout"), found, folder.meta)


def wanted(
    args: argparse.Namespace, kind: Kind, tokens: Tokens, meta: Mapping[str, Any]
) -> list[Example]:
    """The examples of --input, or those that typed sentences make.

    Raises:
        UserError: if the file cannot be read, or there is no sentence, or one too few.
    """
    if args.input:
        reading = Reading(tokens, labelled=False, targets=False, sst=meta.get("sst") or "fine")
        corpus = read(args.input[0], kind, reading)
        if len(corpus.parts) > 1:
            logger.warning(
                "%s holds the parts %s, and training may have seen some: all are predicted",
                args.input[0], ", ".join(corpus.parts),
            )  # fmt: skip
        # None in a Hugging Face folder.
        known = meta.get("inputs", {}).values() if meta.get("folds") else ()
        # Not a pipe, which has been read and would wait for another writer.
        if known and args.input[0].is_file() and sha256_of(args.input[0]) in known:
            logger.warning(
                "%s is the corpus that was cut into folds: training has seen all but two of them",
                args.input[0],
            )
        return corpus.examples
    if not args.sentence:
        invite("Type sentences, one per line; Ctrl-D ends.")
    lines = args.sentence or list(typed())
    texts = args.sentence or [line for line in lines if line.strip()]
    if left_out := len(lines) - len(texts):
        logger.warning("lines without a sentence are left out: %d", left_out)
    if not texts:
        raise UserError("there is no sentence; give --input FILE or --sentence TEXT")
    words = [tokens.of_words(t.split()) if args.tokenized else tokens(t) for t in texts]
    count = _SENTENCES.get(kind.shape, len(words))
    groups = [tuple(words[i : i + count]) for i in range(0, len(words), count)]
    if not kind.accepts(len(groups[-1])):
        given = "1 sentence is" if len(words) == 1 else f"{len(words)} sentences are"
        raise UserError(f"{given} given, but an example of the task {kind} is {kind.takes}")
    return [Example(group, None) for group in groups]
