"""What `selfattn predict` does with a model of translation."""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import chain

from selfattn_tasks.text import iter_lines

from .predict import invite, put, refuse_roles, shown, typed


def take_over(args: argparse.Namespace) -> None:
    """Translate the texts, the lines of --input or those of standard input, a line each.

    Raises:
        UserError: as for ``Translator``, and for flags of semantic roles.
    """
    refuse_roles(args, "one of translation", "prose", "tokenized")
    if len(args.checkpoint) > 1:
        args.refuse("one model translates at a time; average checkpoints by `selfattn average`")
    from selfattn_tasks.devices import find_device
    from selfattn_tasks.hf.translator import Translator
    from transformers.utils import logging  # isort: skip

    find_device(args.device, "--device")
    logging.disable_progress_bar()  # of a second of loading, on a terminal or not
    translator = Translator.from_pretrained(args.checkpoint[0], args.device)
    given = args.texts or args.sentence
    read = chain.from_iterable(map(iter_lines, args.input)) if args.input else typed()
    if not given and not args.input:
        invite("Type sentences, one per line; Ctrl-D ends and translates.")
    start, count = time.perf_counter(), 0

    def lines() -> Iterator[str]:
        nonlocal count
        with shown("translating", len(given) if given else None, "lines") as progress:
            for count, said in enumerate(translator.stream(given or read), start=1):
                progress.to(count)
                yield f"{said}\n"

    put(lines(), args)
    seconds = time.perf_counter() - start
    print(f"{count:,} line{'s' * (count != 1)} in {seconds:.1f} s", file=sys.stderr)
