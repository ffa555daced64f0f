"""Apply a trained model: find who did what to whom, classify sentences, or translate.

MODEL is a checkpoint, the folder of a run, or the name of a model that comes with the package.
It decides the task, and holds all that is needed, but for a translation checkpoint's dictionaries.
Several make an ensemble.

  selfattn predict --model srl-en-small "The cat chased a mouse."
  selfattn predict --model translation-en-de-small "Save changes"

Of standard input, a model of sentences or of translation reads one text per line, and so does one
of translation of --input; one of sentences takes its corpora's forms there, as `selfattn predict
sentences --help` says. The rest is about semantic roles.

Examples: a text, a file of prose (empty lines end a paragraph), and standard input, one text per
line:

  selfattn predict --model runs/srl "The cat chased a mouse. It got away."
  selfattn predict --model runs/srl --prose book.txt --output book.html
  selfattn predict --model runs/srl --format jsonl < texts.txt

Texts are split into sentences and words by NLTK. The model finds the predicates if it was trained
to; --predicates names them instead, and a line of standard input may name its own after a tab,
separated by commas: words, or positions counted from 0 where the text is one sentence.

Examples: from a file with predicates (annotated or not) to a props file, and its score:

  selfattn predict runs/srl/checkpoint_best.pt --input dev.conll --output dev.props
  selfattn score srl dev.conll dev.props

Offsets in JSON count characters from 0: of the text or, with --prose, of the file, where an end of
line is one character.

Decoders: argmax; published, argmax and then the post-processing of Tan et al. 2018, on whose code
the MTSA paper's is based (an I-X of any X continues the span before it, which keeps its label);
tan and he, Viterbi with the BIO constraints of Tan et al. 2018 (I-X may follow O) and of He et al.
2017 (it may not); strict, as he, and no sentence starts with I-X; structured, the best here, also
the structural constraints of He et al. 2017: unique core roles, C-X after an X, R-X beside an X.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from selfattn.errors import UserError
from selfattn_tasks.files import check_no_pipes, writing
from selfattn_tasks.progress import Progress
from selfattn_tasks.saved import find_checkpoint, find_model
from selfattn_tasks.srl import SRL, Sentence, Text
from selfattn_tasks.srl.tagger.output import FORMATS, Located, pieces
from selfattn_tasks.srl.tagger.request import prose, read_queries
from selfattn_tasks.srl.tags import DECODERS
from selfattn_tasks.srl.text.documents import names_in
from selfattn_tasks.text import NUMBER, decoded

from .flags import check_outputs, first_given

if TYPE_CHECKING:
    from selfattn_tasks.srl.tagger.predictor import Predictor

# A sentence of a file with predicates, or of a text.
Shown = Sentence | Located
# Flags that neither models of sentences nor of translation have.
_OF_ROLES = (
    "predicates", "word_column", "format", "find_predicates", "confidence", "bf16", "decoder",
)  # fmt: skip
# Modules for models that are no taggers, by the entry of `task_state`.
_OTHERS = {"srl_tagging": "", "sentences": "predict_sentences"}
DECODER = "structured"
# What the end of --output's name says about its format.
ENDINGS = {
    ".json": "json", ".jsonl": "jsonl", ".conll": "conll", ".html": "html", ".htm": "html",
    ".txt": "text", ".props": "props", "": "props",
}  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", nargs="*", metavar="TEXT",
        help="with --model: what to label; otherwise checkpoints, as --model")  # fmt: skip
    add("--model", action="append", type=Path, metavar="MODEL",
        help="a checkpoint or a folder with one; repeated, an ensemble")  # fmt: skip
    given = parser.add_argument_group("sentences")
    add, what = given.add_argument, given.add_mutually_exclusive_group()
    what.add_argument("--input", nargs="+", action="extend", type=Path, metavar="FILE",
                      help="any format that `selfattn prepare srl` reads, a words and a props "
                      "file, or two columns: word, and lemma of the predicate or -; of a model of "
                      "translation, plain text, one sentence per line; of one of sentences, what "
                      "`selfattn prepare sentences` reads")  # fmt: skip
    add("--word-column", type=int, metavar="N", help="of --input, as for `selfattn prepare srl`")
    what.add_argument("--prose", type=Path, metavar="FILE", help="plain text")
    what.add_argument("--sentence", action="append", metavar="TEXT",
        help="one sentence, which is not split into several; may be repeated")  # fmt: skip
    add("--predicates", nargs="+", action="extend", metavar="P",
        help="words of the text, or positions counted from 0 (default: found by the "
        "model)")  # fmt: skip
    add("--find-predicates", action="store_true",
        help="label the predicates that the model finds (--target predicates or both), not those "
        "of --input")  # fmt: skip
    add("--tokenized", action="store_true", help="split sentences at spaces only")
    add = parser.add_argument_group("labels").add_argument
    add("--decoder", choices=DECODERS, help=f"default: {DECODER}; see above")
    add("--confidence", action="store_true",
        help="add to json and jsonl how probable each span and each proposition is")  # fmt: skip
    add("--output", type=Path, metavar="FILE", help="default: standard output")
    add("--format", choices=FORMATS,
        help="text: roles under the words; json: one list; jsonl: one line per sentence; props: "
        "what the official scorer reads; conll or columns: words and props; lines: index words ||| "
        "tags; html: a page with brackets above the words (default: text; with --output, by its "
        "ending: .json, .jsonl, .conll, .html, .txt, .props or none, which is props)")  # fmt: skip
    add("--device", default="cpu", help="cpu (default) or cuda")
    add("--bf16", action="store_true",
        help="matrix products in bfloat16: faster on many CPUs; a few answers differ")  # fmt: skip


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    if args.model:
        args.texts, args.checkpoint = args.checkpoint, args.model
    elif not args.checkpoint:
        args.refuse("a model is missing; give --model MODEL")
    else:
        args.texts, args.checkpoint = [], [Path(path) for path in args.checkpoint]
        for path in args.checkpoint:
            if not os.path.exists(find_model(path)) and " " in str(path):
                args.refuse(f"{str(path)!r} is no checkpoint; a text needs --model MODEL before it")
    if args.texts and os.path.isfile(args.texts[0]):
        name = args.texts[0]
        args.refuse(f"{name} is a file; give it as --input {name}, or --prose {name} (text, roles)")
    if args.input and args.predicates:
        args.refuse("--predicates belongs to sentences; --input names its predicates itself")
    if several := [name for name in names_in(args.predicates or ()) if len(name.split()) > 1]:
        args.refuse(f"--predicates takes words, not {several[0]!r}; a TEXT comes before the flag")
    if args.input and len(args.input) > 2:
        args.refuse("--input takes one file or folder, or a words and a props file")
    if args.tokenized and args.input:
        args.refuse("--tokenized is for texts; leave it out with --input")
    if args.word_column is not None and not args.input:
        args.refuse("--word-column needs --input")
    if args.texts and (args.input or args.prose or args.sentence):
        args.refuse("a TEXT cannot go with --input, --prose or --sentence")
    if args.find_predicates and not args.input:
        args.refuse("--find-predicates needs --input; in texts, predicates are found by default")
    if args.confidence and form_of(args) not in ("json", "jsonl"):
        args.refuse("--confidence needs --format json or jsonl, which have a place for it")
    args.checkpoint = [find_checkpoint(path) for path in args.checkpoint]
    inputs = filter(None, [*(args.input or ()), args.prose, *args.checkpoint])
    check_outputs(args, "output", inputs=inputs)


def form_of(args: argparse.Namespace) -> str:
    """The form that --format, or else the name of --output, asks for.

    Raises:
        UserError: if that name ends otherwise.
    """
    if args.format or not args.output:
        return args.format or "text"
    form = ENDINGS.get(args.output.suffix.lower())
    if form is None:
        allowed = ", ".join(filter(None, ENDINGS))
        raise UserError(f"--output {args.output} must end in {allowed}, or --format be given")
    return form


def invite(what: str) -> None:
    """Say on a terminal what to type."""
    if sys.stdin is not None and sys.stdin.isatty():
        print(what, file=sys.stderr)


def typed() -> Iterator[str]:
    """The lines of standard input.

    Raises:
        UserError: if it is closed, or no UTF-8 text.
    """
    if sys.stdin is None:
        raise UserError("standard input is closed; give texts, or a file by a flag")
    assert isinstance(sys.stdin.buffer, io.BufferedReader)  # for the type checker
    yield from decoded(Path("standard input"), sys.stdin.buffer)


def texts(args: argparse.Namespace) -> Iterator[Text]:
    """The texts of the command line, of --prose or of standard input."""
    if args.prose:
        yield from prose(args.prose)
        return
    given = args.texts or args.sentence
    if not given:
        invite("Type sentences, one per line; end with Ctrl-D.")
    named = tuple(args.predicates or ())
    for number, line in enumerate(given or typed(), start=1):
        text, tab, own = line.rpartition("\t")
        if text.strip() and not given:
            flag = f"standard input, line {number}, after the tab:"
            yield Text(text, tuple(own.split()), flag=flag)
        else:  # an empty one counts
            yield Text(line, named if given and line.strip() else (), flag="--predicates")


def labelled(args: argparse.Namespace, model: SRL) -> Iterator[Located]:
    """The sentences of all texts, as they are needed.

    Raises:
        UserError: if there is no text, and as for :meth:`SRL.stream`.
    """
    is_empty = True
    named = names_in(args.predicates or ())
    unmet = {name.lower(): name for name in named}
    documents = model.stream(
        texts(args),
        predicates=args.predicates or (),
        tokenized=args.tokenized,
        whole=bool(args.sentence),
        confidence=args.confidence,
        progress=sys.stderr.isatty(),
    )
    for number, document in enumerate(documents):
        for sentence in document.sentences:
            is_empty = False
            if unmet:
                words = set(map(str.lower, sentence.words))
                places = len(sentence.words) if len(document.sentences) == 1 else 0
                met = (n for n in unmet if NUMBER.fullmatch(n) and int(n) < places)
                for name in words.intersection(unmet).union(met):
                    del unmet[name]
            yield Located(sentence, number, document.start)
    if is_empty:
        raise UserError("there is no sentence; give a TEXT, --prose FILE or --input FILE")
    for name in unmet.values():
        place = ", nor this position as one sentence" if NUMBER.fullmatch(name) else ""
        logging.warning("--predicates %s: no text has this word%s", name, place)


def put(parts: Iterable[str], args: argparse.Namespace) -> None:
    """Write text to --output, or print it."""
    if args.output:
        with writing(args.output) as file:
            file.writelines(part.encode("utf-8") for part in parts)
        return
    if sys.stdout is None:
        raise UserError("standard output is closed; give --output FILE")
    sys.stdout.buffer.writelines(part.encode("utf-8") for part in parts)
    sys.stdout.flush()


class Count:
    """What the last line says about the propositions that pass through."""

    def __init__(self) -> None:
        self.total = 0
        self.broken: Counter[str] = Counter()

    def of(self, sentences: Iterable[Shown]) -> Iterator[Shown]:
        """The same sentences."""
        from selfattn_tasks.srl.decode_structure import count_violations

        for sentence in sentences:
            plain = sentence if isinstance(sentence, Sentence) else sentence.sentence.labelled
            self.total += len(plain.propositions)
            self.broken += count_violations([p.spans for p in plain.propositions])
            yield sentence

    def say(self, seconds: float) -> None:
        """Print it to stderr."""
        kinds = (f"{self.broken[kind]} {kind}" for kind in ("unique", "continuation", "reference"))
        print(
            f"{self.total:,} proposition{'s' * (self.total != 1)} in {seconds:.1f} s: "
            f"{60 * self.total / seconds:,.0f} a minute; structural constraints broken: "
            f"{', '.join(kinds)}",
            file=sys.stderr,
        )


def shown(label: str, total: int | None, unit: str) -> Progress:
    """A bar on stderr, if that is a terminal."""
    silent = not sys.stderr.isatty()
    return Progress(None, label, total, unit, stream=sys.stderr, disable=silent)


def predict_file(
    predictor: Predictor, sentences: Sequence[Sentence], args: argparse.Namespace
) -> list[Sentence]:
    """Label the predicates that the sentences of a file have, or with a flag those found."""
    find = range(len(sentences)) if args.find_predicates else ()
    with shown("labelling", len(sentences), "sentences") as progress:
        return predictor.predict(
            sentences, args.decoder or DECODER, progress.to, find=find, confidence=args.confidence
        )


def refuse_roles(args: argparse.Namespace, kind: str, *more: str) -> None:
    """Refuse the flags that only taggers have, and more that this kind of model lacks."""
    if flag := first_given(args, (*_OF_ROLES, *more)):
        raise UserError(
            f"{flag} belongs to models of semantic roles, and {args.checkpoint[0]} is {kind}"
        )


def main(args: argparse.Namespace) -> None:
    """Label the sentences, write them, and say how fast it was."""
    from selfattn_tasks.checkpoints import by_task

    check(args)
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    if other := by_task(args.checkpoint[0], _OTHERS, "predict_translation"):
        import_module(f".{other}", __package__).take_over(args)
        return
    check_no_pipes(*(args.input or ()))
    form = form_of(args)  # a mistake in the flags should be reported before a file is read
    sentences = args.input and read_queries(
        *args.input, word_column=args.word_column, may_lack_predicates=args.find_predicates
    )
    # torch takes seconds to import; a mistake in the flags should be reported at once.
    from selfattn_tasks.devices import find_device
    from selfattn_tasks.srl.tagger.predictor import Predictor

    find_device(args.device, "--device")
    predictor = Predictor.load(args.checkpoint, args.device, args.bf16)
    if sentences is None:
        model = SRL(predictor, args.decoder or DECODER)
        if not args.tokenized:
            model.words("")  # NLTK takes seconds to import, too
    count = Count()
    start = time.perf_counter()
    found = labelled(args, model) if sentences is None else predict_file(predictor, sentences, args)
    put(pieces(count.of(found), form, shutil.get_terminal_size((100, 24)).columns), args)
    count.say(time.perf_counter() - start)
