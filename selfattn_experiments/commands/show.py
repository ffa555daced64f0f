"""Draw what the attention of a trained model does with a sentence.

Examples, a translation model (transformer_*) and a tagger (deepatt*):

  selfattn show runs/my/checkpoint_best.pt "A dog runs on the beach."
  selfattn show runs/srl/checkpoint_best.pt "The old cat chased a mouse." \\
      --predicate chased --layer all --output pictures/cat

Writes PREFIX.png and PREFIX.svg, with several layers PREFIX-layer1.png and so on. What is drawn,
where the mechanism has it:

  token2token   weight of each key (column) for each query (row), a heatmap for each head
  source2token  weight of each token for the whole sentence
  gate          share of itself that a token keeps at the fusion gate
  selection     tokens that hard selection lets attend (heads) and be attended to (dependents)

Weights of mechanisms with a weight per feature are means over the features of a head, taken after
the softmax. Layers and heads are counted from 1, words from 0.
"""

import argparse
import importlib.util
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfattn import _user_dir
from selfattn.errors import UserError
from selfattn.files import check_output, write_json

from ..report.attention_panels import PARTS
from ..report.figures import FORMATS
from .checks import check_outputs

Found = tuple[Sequence[str], list[Any], str, int | None]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT")
    add("sentence", metavar="SENTENCE", help="one sentence, in quotes")
    add("--layer", default="last", metavar="N", help="a number, last (default) or all")
    add("--heads", metavar="N,N", help="numbers of heads (default: all)")
    add("--what", metavar="PART,PART", help=f"of {', '.join(PARTS)} (default: all that there are)")
    add("--output", type=Path, default=Path("attention"), metavar="PREFIX",
        help="default: attention, in the current folder")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write the numbers, too")
    tagging = parser.add_argument_group("taggers")
    tagging.add_argument("--predicate", metavar="P",
        help="the predicate: a word of the sentence, or a position counted from 0")  # fmt: skip
    tagging.add_argument("--tokenized", action="store_true", help="split at spaces only")
    translation = parser.add_argument_group("translation")
    translation.add_argument("--data", metavar="FOLDER",
        help="of the dictionaries (default: the checkpoint's, else the training's)")  # fmt: skip
    translation.add_argument("--user-dir", metavar="FOLDER",
        help="what registers the architecture, if the plugin does not")  # fmt: skip


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    args.heads = numbers(args.heads, "--heads")
    args.what = names(args.what)
    if args.output.suffix in FORMATS:
        args.output = args.output.with_suffix("")
    for ending in FORMATS:
        check_output("--output", args.output.with_name(args.output.name + ending))
    check_outputs(args, "json")


def numbers(text: str | None, flag: str) -> list[int] | None:
    """The numbers in a text such as ``1,3``; None for all."""
    if text is None:
        return None
    if not all(word.isascii() and word.isdigit() for word in text.split(",")):
        raise UserError(f"{flag} {text} is not allowed; give numbers with commas, as in 1,3")
    return list(dict.fromkeys(map(int, text.split(","))))


def names(text: str | None) -> list[str] | None:
    """The parts in a text such as ``gate,selection``; None for all."""
    if text is None:
        return None
    for word in text.split(","):
        if word not in PARTS:
            raise UserError(f"--what {word} is unknown; allowed are {', '.join(PARTS)}")
    return text.split(",")


def look_into_tagger(args: argparse.Namespace) -> Found:
    """Words, inspections of all layers, the attention's name and the predicate's position."""
    from selfattn.layers.capture import inspections
    from selfattn_tasks.srl.tagger.predictor import Predictor, Query
    from selfattn_tasks.srl.tagger.request import typed_sentence

    given = [args.predicate] if args.predicate is not None else []
    sentence = typed_sentence(args.sentence, given, split=not args.tokenized, flag="--predicate")
    if len(sentence.propositions) > 1:
        places = " and ".join(str(p.predicate) for p in sentence.propositions)
        raise UserError(
            f"--predicate {args.predicate}: the sentence has it at {places}; give one position"
        )
    predicate = sentence.propositions[0].predicate
    predictor = Predictor.load([args.checkpoint])
    tagger = predictor.members[0][0]
    query = Query(sentence.words, predicate)
    layers: list[Any] = [layer.attention for layer in tagger.layers]
    seen = inspections(tagger, layers, lambda: predictor.log_probs([query]))
    return sentence.words, seen, tagger.config.attention.name, predicate


def look_into_encoder(args: argparse.Namespace) -> Found:
    """Pieces, inspections of all layers, the attention's name, no predicate."""
    folder = _user_dir.find_user_dir()
    if folder is None or importlib.util.find_spec("fairseq") is None:
        raise UserError(
            f"{args.checkpoint} is a translation model, which takes fairseq: run `make env`"
        )
    sys.path.insert(0, str(folder.parent))  # as fairseq does with --user-dir
    look = importlib.import_module(f"{folder.name}.looking").look
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    found = look(args.checkpoint, args.sentence, args.data, args.user_dir)
    if found.unknown:
        print(
            f"{found.unknown} of {len(found.pieces)} pieces are unknown to the model; is the "
            "sentence written as its training text was?",
            file=sys.stderr,
        )
    return found.pieces, found.layers, found.attention, None


def chosen_layers(text: str, count: int) -> list[int]:
    """Numbers of layers, from 1."""
    if text == "all":
        return list(range(1, count + 1))
    if text == "last":
        return [count]
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= count):
        raise UserError(f"--layer {text}: the model has the layers 1 to {count}; or all, or last")
    return [int(text)]


def main(args: argparse.Namespace) -> None:
    """Look into the model and draw what is found."""
    check(args)
    # torch takes seconds to import, and a mistake in the flags should not.
    from selfattn_tasks import checkpoints
    from selfattn_tasks.srl.tagger.state import KEY

    from ..report.attention import Look, draw

    # What looks into a checkpoint, by the entry that its task has in it; without one, it is one of
    # fairseq's own tasks.
    tasks = {KEY: look_into_tagger}
    entries = checkpoints.read(args.checkpoint).get("task_state") or {}
    look_into = next((tasks[key] for key in tasks if key in entries), look_into_encoder)
    if args.predicate is not None and look_into is not look_into_tagger:
        raise UserError(f"--predicate is for taggers, and {args.checkpoint} is not a tagger")
    tokens, seen, attention, predicate = look_into(args)
    looks = []
    for layer in chosen_layers(args.layer, len(seen)):
        inspection = seen[layer - 1]
        heads = tuple(range(1, len(inspection.masks) + 1))
        look = Look(tuple(tokens), inspection, layer, len(seen), attention, heads, predicate)
        looks.append(look if args.heads is None else look.with_heads(args.heads))
    parts = args.what or looks[0].parts
    for part in parts:
        if part not in looks[0].parts:
            raise UserError(
                f"--what {part}: {attention} has none; it has {', '.join(looks[0].parts)}"
            )
    print(f"{attention}, {len(seen)} layers, {len(tokens)} tokens: {', '.join(parts)}")
    title = "/".join(args.checkpoint.absolute().parts[-2:])
    for picture in looks:
        ending = f"-layer{picture.layer}" if len(looks) > 1 else ""
        prefix = args.output.with_name(args.output.name + ending)
        written = draw(picture, prefix, parts, title)
        print(f"wrote {' and '.join(map(str, written))}")
    if args.json is not None:
        content: dict[str, Any] = {"checkpoint": str(args.checkpoint), "tokens": list(tokens)}
        if predicate is not None:
            content["predicate"] = predicate
        write_json(args.json, {**content, "layers": [look.numbers(parts) for look in looks]})
        print(f"wrote {args.json}")
