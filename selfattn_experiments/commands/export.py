"""Write a trained model for another library, or take one back.

Example, a translation model as a folder for transformers, with the search that it was tested with:

  selfattn export --to hf runs/my/checkpoint_best.pt my-model --beam 5 \\
      --max-len-a 1.2 --max-len-b 10

Example, a tagger, or in the same way a model of sentences, in a small form; `selfattn predict`
reads the folder, too:

  selfattn average --inputs runs/srl/checkpoint_best.pt --half --keep-vectors 15000 \\
      --output srl-small.pt
  selfattn export --to hf srl-small.pt srl-small --record runs/srl/run.json

Example, back to a checkpoint for fairseq, of translation with its dictionaries beside it:

  selfattn export --to fairseq my-model runs/back/checkpoint.pt

Example, any model of this project as graphs that run without it (see docs/export.md):

  selfattn export --to onnx runs/srl/checkpoint_best.pt my-tagger
"""

import argparse
import os
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.exported import FACTS
from selfattn_tasks.files import check_output
from selfattn_tasks.folder import check_destination, new_folder
from selfattn_tasks.model_folder import CONFIG, WEIGHTS, task_of

from .flags import check_least, first_given

GRAPHS = ("onnx", "torch")
_CARD = ("record", "license", "trained_on")
_SEARCH = ("beam", "lenpen", "max_len_a", "max_len_b")


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--to", required=True, choices=("hf", "fairseq", *GRAPHS), help="what to write")
    add("source", type=Path, metavar="SOURCE",
        help="a checkpoint or a run's folder; for fairseq a Hugging Face folder; for ONNX and "
        "torch either, or a model that comes with the package")  # fmt: skip
    add("target", type=Path, metavar="TARGET", help="a folder; with --to fairseq a checkpoint")
    add("--data", metavar="FOLDER",
        help="of a translation model: its dictionaries (default: beside it, else those of its "
        "training)")  # fmt: skip
    add("--overwrite", action="store_true", help="replace the folder TARGET")
    add = parser.add_argument_group("with --to onnx").add_argument
    add("--int8", action="store_true", help="quantise weights to 8 bits")
    add = parser.add_argument_group("with --to hf").add_argument
    add("--record", type=Path, metavar="FILE", help="run.json (default: beside the checkpoint)")
    add("--license", metavar="NAME", help="for the model card, such as cc-by-sa-4.0")
    add("--trained-on", metavar="TEXT", help="for the model card: the data in words")
    add = parser.add_argument_group("with --to hf, of translation").add_argument
    add("--beam", type=int, help="width of the search (5)")
    add("--lenpen", type=float, help="length penalty (1)")
    add("--max-len-a", type=float, metavar="A", help="as in fairseq-generate (0)")
    add("--max-len-b", type=int, metavar="B", help="as in fairseq-generate (200)")


def refuse_given(args: argparse.Namespace, names: tuple[str, ...], reason: str) -> None:
    """Refuse the first of some flags that was given."""
    if flag := first_given(args, names):
        args.refuse(f"{flag} {reason}")


def main(args: argparse.Namespace) -> None:
    """Write the model."""
    check_least(args, beam=1, lenpen=0, max_len_a=0, max_len_b=1)
    if args.int8 and args.to != "onnx":
        args.refuse("--int8 needs --to onnx")
    if args.to == "fairseq":
        to_fairseq(args)
    elif args.to in GRAPHS:
        to_graphs(args)
    else:
        to_hf(args)
    print(f"wrote {args.target}")


def to_fairseq(args: argparse.Namespace) -> None:
    """Write a folder's model as a checkpoint."""
    refuse_given(args, ("overwrite",), "is for folders; --to fairseq writes a file")
    refuse_given(args, (*_CARD, "data", *_SEARCH), "does nothing with --to fairseq")
    check_output("TARGET", args.target)
    if args.source.is_file():
        raise UserError(f"{args.source} is a file; --to fairseq takes a Hugging Face folder")
    from selfattn_tasks import checkpoints, saved
    from selfattn_tasks.files import read_object

    source = saved.find_model(args.source)
    if os.path.realpath(args.target) in map(os.path.realpath, source.iterdir()):
        raise UserError(f"TARGET {args.target} is one of the inputs, which would be lost")
    if task_of(read_object(source / CONFIG)):
        saved.write(checkpoints.read(source / WEIGHTS), args.target)
        return
    from selfattn_tasks.hf import translation

    translation.to_fairseq(source, args.target)


def to_hf(args: argparse.Namespace) -> None:
    """Write a checkpoint's model as a folder."""
    inputs = args.source, args.data, args.record
    check_destination(args.target, overwrite=args.overwrite, mark=WEIGHTS, inputs=inputs)
    # transformers takes seconds to import, and a mistake in the flags should not.
    from selfattn_tasks.saved import find_checkpoint, find_model

    if (find_model(args.source) / WEIGHTS).is_file():
        raise UserError(f"{args.source} is a Hugging Face folder already")
    from selfattn_tasks import checkpoints
    from selfattn_tasks.hf import card, folder, translation

    path = find_checkpoint(args.source)
    record = card.read_record(args.record, path)
    state = checkpoints.read(path)
    is_words = task_of(state) is not None
    if is_words:
        refuse_given(args, ("data", *_SEARCH), f"belongs to translation, which {path} is not")
    given = {name: getattr(args, name) for name in _SEARCH if getattr(args, name) is not None}
    with new_folder(args.target, overwrite=args.overwrite, mark=WEIGHTS) as new:
        if is_words:
            about = card.of_words(*folder.write(state, new, path))
        else:
            search = translation.Search(**given)
            about = card.of_translation(translation.to_hf(state, new, path, args.data, search))
        card.write_card(new, args.target.name, about, record, args.license, args.trained_on)


def to_graphs(args: argparse.Namespace) -> None:
    """Write a checkpoint's networks as files of ONNX or of torch.export."""
    refuse_given(args, (*_CARD, *_SEARCH), "needs --to hf")
    inputs = args.source, args.data
    check_destination(args.target, overwrite=args.overwrite, mark=FACTS, inputs=inputs)
    from selfattn_tasks.exported.networks import export
    from selfattn_tasks.saved import find_checkpoint

    source = find_checkpoint(args.source)
    with new_folder(args.target, overwrite=args.overwrite, mark=FACTS) as new:
        export(source, new, args.to, args.data, args.int8)
