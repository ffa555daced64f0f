"""Draw what the attention of a trained model does with a sentence.

Examples: a translation model (transformer_*), a tagger (deepatt*) and a model of sentences, whose
layers are its context, if that is an attention of this project, and its pool:

  selfattn show runs/my/checkpoint_best.pt "A dog runs on the beach."
  selfattn show runs/srl/checkpoint_best.pt "The old cat chased a mouse." \\
      --predicate chased --layer all --output cat
  selfattn show runs/snli/checkpoint_best.pt "A dog runs." "An animal moves." --layer all

Writes PREFIX.png and PREFIX.svg, with several layers PREFIX-layer1.png and so on, with several
sentences PREFIX-sentence1.png or PREFIX-sentence1-layer1.png and so on. What is drawn,
if the mechanism has it:

  token2token   weight of each key (column) for each query (row), a heatmap for each head
  source2token  weight of each token for the whole sentence
  gate          share of itself that a token keeps at the fusion gate
  selection     tokens that hard selection lets attend (heads) and be attended to (dependents)

Mechanisms with a weight per feature are shown by its mean over the features of a head, taken after
the softmax. Layers and heads are counted from 1, words from 0.
"""

import argparse
import importlib.util
import logging
import mimetypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import check_output, write_json
from selfattn_tasks.model_folder import WEIGHTS, translates
from selfattn_tasks.saved import find_checkpoint
from selfattn_tasks.text import NUMBER

from ..report.attention_panels import PARTS
from ..report.figures import FORMATS
from ..user_dir import find_user_dir
from .flags import check_outputs


@dataclass(frozen=True)
class Found:
    """What the layers of a model did with a sentence."""

    tokens: Sequence[str]  # the sentence as the layers see it
    layers: list[Any]  # one inspection a layer
    attentions: Sequence[str]  # the name of each layer's attention
    predicate: int | None = None  # position of a tagger's predicate, from 0
    note: str = ""  # what the user should know about it


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("checkpoint", type=Path, metavar="CHECKPOINT",
        help="a checkpoint, a run's folder, a Hugging Face folder, or a model that comes "
        "with the package")  # fmt: skip
    add("sentence", nargs="+", metavar="SENTENCE",
        help="one, in quotes; of a pair, for instance, with a model of sentences both")  # fmt: skip
    add("--layer", default="last", metavar="N", help="a number, last (default) or all")
    add("--heads", metavar="N,N", help="numbers of heads (default: all)")
    add("--what", metavar="PART,PART", help=f"of {', '.join(PARTS)} (default: all there are)")
    add("--output", type=Path, default=Path("attention"), metavar="PREFIX",
        help="default: attention, in the current folder")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="also write the numbers")
    tagging = parser.add_argument_group("taggers")
    tagging.add_argument("--predicate", metavar="P",
        help="the predicate: a word of the sentence, or a position counted from 0")  # fmt: skip
    tagging.add_argument("--tokenized", action="store_true", help="split at spaces only")
    translation = parser.add_argument_group("translation")
    translation.add_argument("--data", metavar="FOLDER",
        help="with the dictionaries (default: the checkpoint's, else its data)")  # fmt: skip
    translation.add_argument("--user-dir", metavar="FOLDER",
        help="package that registers the architecture, if the plugin does not")  # fmt: skip


def check(args: argparse.Namespace) -> None:
    """Refuse flags that do not fit, before anything is read or written."""
    args.heads = numbers(args.heads, "--heads")
    args.what = names(args.what)
    if args.output.name in ("", ".."):
        raise UserError(
            f"--output is {args.output}, which is a folder; give the beginning of files' names, as "
            "in pictures/cat"
        )
    if args.output.suffix in FORMATS:
        args.output = args.output.with_suffix("")
    elif str(mimetypes.guess_type(args.output.name)[0]).startswith(("image/", "application/pdf")):
        raise UserError(f"--output {args.output} must end in {' or '.join(FORMATS)}, or in neither")
    for ending in FORMATS:
        picture = args.output.with_name(args.output.name + ending)
        check_output("--output", picture)
        if args.json == picture:
            raise UserError(f"--json {args.json} is a picture of --output, too; give another name")
    check_outputs(args, "json", inputs=[find_checkpoint(args.checkpoint)])


def numbers(text: str | None, flag: str) -> list[int] | None:
    """``1,3`` as a list."""
    if text is None:
        return None
    if not all(map(NUMBER.fullmatch, text.split(","))):
        raise UserError(f"{flag} {text} is not allowed; give numbers with commas, as in 1,3")
    return list(dict.fromkeys(map(int, text.split(","))))


def names(text: str | None) -> list[str] | None:
    """``gate,selection`` as a list."""
    if text is None:
        return None
    for word in text.split(","):
        if word not in PARTS:
            raise UserError(f"--what {word} is unknown; allowed are {', '.join(PARTS)}")
    return text.split(",")


def look_into_tagger(args: argparse.Namespace) -> list[Found]:
    """The layers of a tagger on its one sentence."""
    from selfattn_tasks.srl import SRL
    from selfattn_tasks.srl.text.model import named_places

    if not (args.predicate or "").strip(", "):
        raise UserError("no predicate is named; give --predicate WORD or POSITION")
    (text,) = args.sentence
    model = SRL.from_pretrained(args.checkpoint)
    words = tuple(text.split()) if args.tokenized else model.words(text)
    if not words:
        raise UserError("the sentence is empty; type at least one word")
    (places,) = named_places([args.predicate], [words], flag="--predicate")
    if len(places) > 1:
        raise UserError(
            f"--predicate {args.predicate}: the sentence has it at "
            f"{' and '.join(map(str, places))}; give one position"
        )
    return [tagger_on(model.predictor, words, places[0])]


def tagger_on(predictor: Any, words: Sequence[str], predicate: int) -> Found:
    """The layers of a ``Predictor``'s first tagger, which is turned into float64."""
    from selfattn_tasks.capture import inspections
    from selfattn_tasks.srl.tagger.predictor import Query
    from selfattn_tasks.srl.text.segmentation import treebank_forms

    tagger, vocabulary = predictor.members[0]
    query = Query(treebank_forms(words, set(vocabulary.words)), predicate)
    layers: list[Any] = [layer.attention for layer in tagger.layers]
    seen = inspections(tagger, layers, lambda: predictor.log_probs([query]))
    names = [tagger.config.attention.name] * len(seen)
    return Found(words, seen, names, predicate)


def look_into_sentences(args: argparse.Namespace) -> list[Found]:
    """The context and the pool of an encoder on each sentence."""
    from selfattn_tasks.sentences.model.predictor import Predictor

    predictor = Predictor.load([args.checkpoint])
    tokens = predictor.state.tokens
    split = [tokens.of_words(t.split()) if args.tokenized else tokens(t) for t in args.sentence]
    return [sentence_model_on(predictor, words) for words in split]


def sentence_model_on(predictor: Any, words: tuple[str, ...]) -> Found:
    """Context and pool of a ``Predictor``'s first model, which is turned into float64."""
    from selfattn_tasks.sentences.model.looking import look

    model, state = predictor.members[0]
    names, seen = zip(*look(model, state, words), strict=True)
    return Found(words, list(seen), names)


def looking(checkpoint: Path) -> Any:
    """The plugin's module ``looking``.

    Raises:
        UserError: if the plugin or fairseq is missing.
    """
    folder = find_user_dir()
    if folder is None or importlib.util.find_spec("fairseq") is None:
        raise UserError(f"{checkpoint} is a translation model, which needs fairseq: run `make env`")
    if str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))  # as fairseq does with --user-dir
    module = importlib.import_module(f"{folder.name}.looking")
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    return module


def look_into_encoder(args: argparse.Namespace) -> list[Found]:
    """The encoder of a translation model on its one sentence."""
    if translates(args.checkpoint):
        from selfattn_tasks.hf.translator import Translator

        translator = Translator.from_pretrained(args.checkpoint)
        return [hf_encoder_on(translator.model.encoder, translator, args.sentence[0])]
    module = looking(args.checkpoint)
    translator = module.load(args.checkpoint, args.data, args.user_dir)
    return [encoder_on(module, translator, args.sentence[0])]


def encoder_on(module: Any, translator: Any, sentence: str) -> Found:
    """The encoder of what ``module.load`` made of a checkpoint, which is turned into float64."""
    return _noted(*module.look(translator, sentence))


def hf_encoder_on(encoder: Any, translator: Any, sentence: str) -> Found:
    """The encoder of a ``Translator``, or a copy of it, which is turned into float64."""
    import torch

    from selfattn_tasks.capture import inspections

    batch = translator.encode([sentence])
    (ids,) = batch["input_ids"]
    if len(ids) == 1:
        raise UserError("the sentence is empty; type at least one word")
    attentions = [layer.self_attn for layer in encoder.layers]
    seen = inspections(encoder, attentions, lambda: encoder(torch.tensor([ids])))
    unknown, pieces = translator.tokenizer.unk_token, batch.tokens()
    for i in (i for i, piece in enumerate(pieces) if piece == unknown):
        pieces[i] = sentence[slice(*batch.token_to_chars(i))]  # as SentencePiece has it
    count = ids.count(translator.tokenizer.unk_token_id)
    return _noted(pieces, seen, encoder.config.attention, count)


def _noted(pieces: Sequence[str], layers: list[Any], attention: str, unknown: int) -> Found:
    count = f"{unknown} of {len(pieces)} pieces {'is' if unknown == 1 else 'are'}"
    said = f"{count} unknown to the model; is the sentence written like its training text?"
    note = said if unknown else ""
    return Found(pieces, layers, [attention] * len(layers), note=note)


# What looks into a checkpoint, by the entry of its `task_state` (`KEY` in the task's `state.py`);
# one without such an entry is of a task of fairseq's own.
LOOKING = {"srl_tagging": look_into_tagger, "sentences": look_into_sentences}


def chosen_layers(text: str, count: int) -> list[int]:
    """Numbers of layers, from 1."""
    if text == "all":
        return list(range(1, count + 1))
    if text == "last":
        return [count]
    if not (NUMBER.fullmatch(text) and 1 <= int(text) <= count):
        raise UserError(f"--layer {text}: the model has the layers 1 to {count}; or all, or last")
    return [int(text)]


def find(args: argparse.Namespace) -> list[Found]:
    """What the model's layers did with each sentence, by the kind of the model.

    Raises:
        UserError: for flags of another kind, and for more sentences than it takes.
    """
    from selfattn_tasks.checkpoints import by_task

    args.checkpoint = find_checkpoint(args.checkpoint)
    look_into = by_task(args.checkpoint, LOOKING, look_into_encoder)
    if args.predicate is not None and look_into is not look_into_tagger:
        raise UserError(f"--predicate is for taggers, and {args.checkpoint} is not a tagger")
    if args.tokenized and look_into is look_into_encoder:
        raise UserError(f"--tokenized is for taggers and sentences; {args.checkpoint} translates")
    if look_into is not look_into_encoder or translates(args.checkpoint):
        for flag, value in (("--data", args.data), ("--user-dir", args.user_dir)):
            if value is not None:
                raise UserError(
                    f"{flag} {value} is for a translation that fairseq trained, and "
                    f"{args.checkpoint} is not one"
                )
    if len(args.sentence) > 1 and look_into is not look_into_sentences:
        raise UserError(
            f"{len(args.sentence)} sentences are given, but {args.checkpoint} takes one; put it in "
            "quotes"
        )
    return look_into(args)


def looks_of(found: Found, layer: str, heads: Sequence[int] | None = None) -> list[Any]:
    """The layers to draw, as --layer and --heads name them."""
    from ..report.attention import Look

    looks = []
    for number in chosen_layers(layer, len(found.layers)):
        inspection, name = found.layers[number - 1], found.attentions[number - 1]
        every = tuple(range(1, len(inspection.masks) + 1))
        tokens, count = tuple(found.tokens), len(found.layers)
        look = Look(tokens, inspection, number, count, name, every, found.predicate)
        looks.append(look if heads is None else look.with_heads(heads))
    return looks


def title_of(path: Path) -> str:
    """A checkpoint's name in titles: with its folder, or a Hugging Face folder alone."""
    named = path.absolute().parts
    return named[-2] if path.name == WEIGHTS else "/".join(named[-2:])


def wanted_parts(found: Found, looks: Sequence[Any], what: Sequence[str] | None) -> list[list[str]]:
    """What to draw of each layer, which is printed, too.

    Raises:
        UserError: if no layer has something that the user named.
    """
    there = list(dict.fromkeys(part for look in looks for part in look.parts))
    attention = ", ".join(dict.fromkeys(found.attentions))
    for part in what or ():
        if part not in there:
            raise UserError(f"--what {part}: {attention} has none; it has {', '.join(there)}")
    parts = what or there
    sizes = {"layer": len(found.layers), "token": len(found.tokens)}
    counts = ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in sizes.items())
    print(f"{attention}, {counts}: {', '.join(parts)}")
    return [[part for part in parts if part in look.parts] for look in looks]


def main(args: argparse.Namespace) -> None:
    """Look into the model and draw what is found."""
    check(args)
    # torch takes seconds to import, and a mistake in the flags should be reported at once.
    from ..report.attention import draw

    contents = []
    everything = find(args)
    title = title_of(args.checkpoint)
    for number, found in enumerate(everything, start=1):
        if found.note:
            print(found.note, file=sys.stderr)
        wanted = wanted_parts(found, looks := looks_of(found, args.layer, args.heads), args.what)
        for look, parts in zip(looks, wanted, strict=True):
            ending = f"-sentence{number}" if len(everything) > 1 else ""
            ending += f"-layer{look.layer}" if len(looks) > 1 else ""
            prefix = args.output.with_name(args.output.name + ending)
            if parts:
                print(f"wrote {' and '.join(map(str, draw(look, prefix, parts, title)))}")
        predicate = {} if found.predicate is None else {"predicate": found.predicate}
        layers = [look.numbers(parts) for look, parts in zip(looks, wanted, strict=True)]
        contents.append({"tokens": list(found.tokens), **predicate, "layers": layers})
    if args.json is not None:
        rest = contents[0] if len(contents) == 1 else {"sentences": contents}
        write_json(args.json, {"checkpoint": str(args.checkpoint), **rest})
        print(f"wrote {args.json}")
