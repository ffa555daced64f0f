"""Label the arguments of predicates with a trained SRL model.

The checkpoint is all that is needed; several are averaged as an ensemble.

Examples: from a file with predicates (annotated or not) to a props file, and its score:

  selfattn predict runs/srl/checkpoint_best.pt --input dev.conll --output dev.props
  selfattn score srl dev.conll dev.props

Example: one sentence; predicates are words in it, or positions counted from 0:

  selfattn predict runs/srl/checkpoint_best.pt \\
      --sentence "The old cat chased a mouse." --predicates chased

Without --input and --sentence, sentences are read from standard input, one per line. --predicates
apply to every sentence; a line may name its own after a tab, separated by commas.

Decoders: argmax; published, argmax and then the post-processing of Tan et al. 2018, on whose code
the MTSA paper's is based (an I-X of any X continues the span before it, which keeps its label);
tan and he, Viterbi with the BIO constraints of Tan et al. 2018 (I-X may follow O) and of He et al.
2017 (it may not); strict, as he, and no sentence starts with I-X; structured, the best here, also
the structural constraints of He et al. 2017: unique core roles, C-X after an X, R-X beside an X.
"""

import argparse
import logging
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from selfattn.errors import UserError
from selfattn.files import write_lines
from selfattn_tasks.progress import Progress
from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.formats import conll, lines
from selfattn_tasks.srl.tagger.request import read_queries, typed_sentences
from selfattn_tasks.srl.tagger.show import as_json, as_text
from selfattn_tasks.srl.tags import DECODERS

from .checks import check_outputs

FORMATS = ("text", "json", "jsonl", "props", "columns", "lines")
# What the end of --output's name says about its format; any other name gets a props file.
ENDINGS = {".json": "json", ".jsonl": "jsonl", ".conll": "columns"}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    add = parser.add_argument
    add("checkpoint", nargs="+", type=Path, metavar="CHECKPOINT", help="one, or an ensemble")
    given = parser.add_argument_group("sentences")
    add, what = given.add_argument, given.add_mutually_exclusive_group()
    what.add_argument("--input", nargs="+", type=Path, metavar="FILE",
                      help="any format that `selfattn prepare srl` reads, a words and a props "
                      "file, or two columns: word, and lemma of the predicate or -")  # fmt: skip
    add("--word-column", type=int, metavar="N", help="of --input, as for `selfattn prepare srl`")
    what.add_argument("--sentence", action="append", metavar="TEXT", help="may be repeated")
    add("--predicates", nargs="+", metavar="P",
        help="words of the sentence, or positions counted from 0")  # fmt: skip
    add("--find-predicates", action="store_true",
        help="label the predicates that the model finds (--target predicates or both), not those "
        "of --input")  # fmt: skip
    add("--tokenized", action="store_true", help="split sentences at spaces only")
    add = parser.add_argument_group("labels").add_argument
    add("--decoder", choices=DECODERS, default="argmax", help="default: argmax; see above")
    add("--confidence", action="store_true",
        help="add to json and jsonl how probable each span and each proposition is")  # fmt: skip
    add("--output", type=Path, metavar="FILE", help="default: standard output")
    add("--format", choices=FORMATS,
        help="text: roles under the words; json: one list; jsonl: one line per sentence; props: "
        "what the official scorer reads; columns: words and props; lines: index words ||| tags "
        "(default: text; with --output, by its ending: .json, .jsonl, .conll, otherwise "
        "props)")  # fmt: skip
    add("--device", default="cpu", help="cpu (default) or cuda")


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    if args.input and args.predicates:
        args.refuse("--predicates belongs to sentences; --input names its predicates itself")
    if args.find_predicates and not args.input:
        args.refuse("--find-predicates needs --input")
    if args.input and len(args.input) > 2:
        args.refuse("--input takes one file or folder, or a words and a props file")
    form = args.format or ENDINGS.get(args.output.suffix if args.output else "", "")
    if args.confidence and form not in ("json", "jsonl"):
        args.refuse("--confidence needs --format json or jsonl, which have a place for it")
    check_outputs(args, "output")


def typed() -> list[str]:
    """The lines of standard input."""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"standard input, line {line}: not UTF-8 text") from None


def wanted(args: argparse.Namespace) -> list[Sentence]:
    """The sentences and their predicates."""
    if args.input:
        return read_queries(
            *args.input, word_column=args.word_column, may_lack_predicates=args.find_predicates
        )
    if args.sentence is None and sys.stdin.isatty():
        print("Type sentences, one per line; end with Ctrl-D.", file=sys.stderr)
    texts = args.sentence or [line for line in typed() if line.strip()]
    if not texts:
        raise UserError("there is no sentence; give --input FILE or --sentence TEXT")
    return typed_sentences(texts, args.predicates or (), split=not args.tokenized)


def write(sentences: Sequence[Sentence], args: argparse.Namespace) -> None:
    """Write the result to --output, or print it, in the form that the flags ask for."""
    target = args.output or Path("/dev/stdout")
    form = args.format or (ENDINGS.get(target.suffix, "props") if args.output else "text")
    writers: dict[str, Callable[[Path, Sequence[Sentence]], None]] = {
        "props": conll.write_props,
        "columns": conll.write_columns,
        "lines": lines.write,
    }
    if form in writers:
        writers[form](target, sentences)
    elif form == "text":
        width = shutil.get_terminal_size((100, 24)).columns
        write_lines(target, [f"{as_text(sentence, width)}\n" for sentence in sentences])
    else:
        parts = [as_json(sentence) for sentence in sentences]
        write_lines(target, ["[", ",\n".join(parts), "]"] if form == "json" else parts)


def _is_of_sentences(checkpoint: Path) -> bool:
    """Whether `selfattn predict sentences` applies the model; a broken file is reported later."""
    from selfattn_tasks import checkpoints
    from selfattn_tasks.sentences.state import KEY

    try:
        return KEY in checkpoints.task_state(checkpoint)
    except UserError:
        return False


def main(args: argparse.Namespace) -> None:
    """Label the sentences, write them, and say how fast it was."""
    check(args)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    if _is_of_sentences(args.checkpoint[0]):
        from . import predict_sentences

        predict_sentences.take_over(args)
        return
    sentences = wanted(args)
    import torch

    # torch takes seconds to import; a mistake in the flags should be reported at once.
    from selfattn_tasks.srl.decode_structure import count_violations
    from selfattn_tasks.srl.tagger.predicates import with_predicates
    from selfattn_tasks.srl.tagger.predictor import Predictor

    if args.device != "cpu" and not (args.device == "cuda" and torch.cuda.is_available()):
        raise UserError(f"--device {args.device} cannot be used here; cpu can")
    predictor = Predictor.load(args.checkpoint, args.device)
    if args.find_predicates:
        found = predictor.predicates([sentence.words for sentence in sentences])
        sentences = with_predicates(sentences, found)
    total = sum(len(s.propositions) for s in sentences)
    silent = not sys.stderr.isatty()
    start = time.perf_counter()
    with Progress(
        None, "labelling", total, "propositions", stream=sys.stderr, disable=silent
    ) as progress:
        predicted = predictor.predict(
            sentences, args.decoder, progress.to, confidence=args.confidence
        )
    seconds = time.perf_counter() - start
    write(predicted, args)
    broken = count_violations([p.spans for s in predicted for p in s.propositions])
    kinds = ", ".join(f"{broken[kind]} {kind}" for kind in ("unique", "continuation", "reference"))
    print(
        f"{total:,} propositions in {seconds:.1f} s: {60 * total / seconds:,.0f} a minute; "
        f"structural constraints broken: {kinds}",
        file=sys.stderr,
    )
