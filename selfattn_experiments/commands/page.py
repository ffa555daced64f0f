"""Try a trained model in a browser: type a text, see what it says and what its attention does.

Examples: a translation model, a tagger or a model of sentences; its checkpoint, a run's folder,
a Hugging Face folder, or a model that comes with the package:

  selfattn page runs/my/checkpoint_best.pt --port 8000
  selfattn page srl-en-small

The page is served to this machine alone, unless --host or --share says otherwise, and sends nothing
anywhere. The model runs on the CPU, one request at a time. Needs `pip install gradio`.
"""

import argparse
import base64
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, check_integer, needed
from selfattn_tasks.checkpoints import by_task
from selfattn_tasks.model_folder import translates
from selfattn_tasks.srl.tagger import html

from ..report.figures import encoded
from .show import (
    Found,
    encoder_on,
    hf_encoder_on,
    looking,
    looks_of,
    sentence_model_on,
    tagger_on,
    title_of,
)

# In characters, and in tokens: more make a picture that nobody can read.
LONGEST, DRAWN = 2000, 60
STYLE = """
.said { font-size: 1.4em; margin: 0 0 0.5em }
.problem { color: #b3261e }
.bars td { padding: 2px 12px 2px 0 }
.bars meter { width: 12em }
img { max-width: 100%; height: auto; margin-bottom: 1em }
"""
Answer = tuple[str, Callable[[], list[Found]]]


@dataclass(frozen=True)
class Model:
    """A model that is ready to answer."""

    boxes: Mapping[str, int]  # what a person types, and into how many lines
    layers: int  # how many can be chosen by number
    # Called with the texts; returns a piece of a page, and what looks into the layers.
    answer: Callable[..., Answer]


def open_tagger(path: Path) -> Model:
    """A tagger: brackets over the words."""
    from selfattn_tasks.srl import SRL

    model = SRL.from_pretrained(path)
    looked = deepcopy(model.predictor)  # looking turns it into float64

    def answer(text: str, predicates: str) -> Answer:
        sentences = model(text, predicates=predicates.split()).sentences
        rows = [(s, p.predicate) for s in sentences for p in s.labelled.propositions]

        def look() -> list[Found]:
            if not rows:
                raise UserError("The model finds no predicate; name one.")
            sentence, place = rows[0]
            return [tagger_on(looked, sentence.words, place)]

        return "".join(html.as_html(sentence.labelled) for sentence in sentences), look

    boxes = {"Text": 3, "Predicates (empty: those that the model finds)": 1}
    return Model(boxes, len(looked.members[0][0].layers), answer)


def open_sentences(path: Path) -> Model:
    """A model of sentences: the class, the score or the candidate, with all probabilities."""
    from selfattn_tasks.sentences.model.predictor import Predictor
    from selfattn_tasks.sentences.record import SCORES, Example

    predictor = Predictor.load(path)
    looked = deepcopy(predictor)
    kind, tokens = predictor.state.kind, predictor.state.tokens
    labels = predictor.state.vocabulary.labels
    boxes = {"single": {"Sentence": 2}, "pair": {"First sentence": 2, "Second sentence": 2}}

    def answer(*texts: str) -> Answer:
        if kind.shape == "candidates":
            texts = (texts[0], *texts[1].splitlines())
        texts = tuple(text for text in texts if text.strip())
        example = Example(tuple(map(tokens, texts)), None)
        ((said, shares),) = predictor.predict([example])
        names = {"score": SCORES, "index": texts[1:]}.get(kind.target, labels)
        if isinstance(said, int):
            said = texts[1 + said]
        said = f"{said:.2f}" if isinstance(said, float) else said
        page = f'<p class="said">{escape(said)}</p>' + bars(names, shares)
        return page, lambda: [sentence_model_on(looked, words) for words in example.sentences]

    candidates = {"Question": 2, "Candidates, one per line": 5}
    return Model(boxes.get(kind.shape, candidates), 0, answer)


def bars(names: Iterable[Any], probabilities: Iterable[float]) -> str:
    """A table of probabilities."""
    rows = "".join(
        f'<tr><td dir="auto">{escape(str(name))}</td><td><meter value="{share:.4f}"></meter></td>'
        f"<td>{100 * share:.1f} %</td></tr>"
        for name, share in zip(names, probabilities, strict=True)
    )
    return f'<table class="bars">{rows}</table>'


def open_translation(path: Path) -> Model:
    """A translation model; the width of the search is 5."""
    module = looking(path)
    # Looking turns it into float64, and fairseq's hub interface cannot be copied.
    translator, looked = module.load(path), module.load(path)

    def answer(text: str) -> Answer:
        found = encoder_on(module, looked, text)  # refuses what is too long
        said = translator.translate(text, beam=5)
        page = f'<p class="said" dir="auto">{escape(said)}</p><p>{escape(found.note)}</p>'
        return page, lambda: [found]

    return Model({"Text": 3}, len(looked.models[0].encoder.layers), answer)


def open_hf_translation(path: Path) -> Model:
    """A translation model in a Hugging Face folder; the search is the folder's."""
    from selfattn_tasks.hf.translator import Translator

    translator = Translator.from_pretrained(path)
    looked = deepcopy(translator.model.encoder)

    def answer(text: str) -> Answer:
        said = f'<p class="said" dir="auto">{escape(translator(text))}</p>'
        return said, lambda: [hf_encoder_on(looked, translator, text)]

    return Model({"Text": 3}, len(looked.layers), answer)


def opening(path: Path) -> Callable[[Path], Model]:
    """What opens a checkpoint, by its kind."""
    return open_hf_translation if translates(path) else by_task(path, OPENING, open_translation)


OPENING = {"srl_tagging": open_tagger, "sentences": open_sentences}


def pictures(everything: Iterable[Found], layer: str) -> str:
    """The attention of each sentence as pictures, or a sentence that says why there is none."""
    from ..report.attention import picture

    found = []
    for seen in everything:
        if len(seen.tokens) > DRAWN:
            raise UserError(f"{len(seen.tokens)} tokens are too many for a picture of attention.")
        for look in looks_of(seen, layer):
            data = base64.b64encode(encoded(picture(look, look.parts))).decode()
            alt = f"attention of layer {look.layer}"
            found.append(f'<img alt="{alt}" src="data:image/png;base64,{data}">')
    return "".join(found)


def respond(model: Model, *typed: str | None) -> tuple[str, str]:
    """What the page and its API return for what stands in the boxes, and the chosen layer."""
    *texts, layer = [text or "" for text in typed]
    page = ""
    try:
        for name, text in zip(model.boxes, texts, strict=True):
            if len(text) > LONGEST:
                raise UserError(f"{name}: {len(text):,} characters; at most {LONGEST:,} are taken.")
            if half := re.search("[\ud800-\udfff]", text):
                raise UserError(f"{name}: {half[0]!a} is half a character, which is no text.")
        if not texts[0].strip():
            raise UserError("There is no text; type one word at least.")
        page, look = model.answer(*texts)
        return page, pictures(look(), layer)
    except UserError as error:  # of the attention alone, if there is an answer
        return page, f'<p class="problem">{escape(str(error))}</p>'


def build(path: Path) -> Any:
    """The page of a model, to be launched.

    Raises:
        UserError: if Gradio is missing, or the model cannot be read.
    """
    # Not sent, and of few requests: Gradio sums up all that it keeps after each one.
    os.environ |= {"GRADIO_ANALYTICS_ENABLED": "False", "GRADIO_ANALYTICS_MAX_EVENTS": "100"}
    gr = needed("gradio")
    model = opening(path)(path)
    title = title_of(path)
    layers = ["last", "all", *map(str, range(1, model.layers + 1))]
    with gr.Blocks(title=title, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(f"# {title}")
        with gr.Row():
            with gr.Column(scale=1, min_width=280):
                boxes = [gr.Textbox(label=n, lines=k, max_lines=10) for n, k in model.boxes.items()]
                layer = gr.Dropdown(layers, label="Layer")
                button = gr.Button("Go", variant="primary")
            with gr.Column(scale=2, min_width=480):
                said = gr.HTML(css_template=STYLE + html.STYLE, apply_default_css=False)
                drawn = gr.HTML(css_template=STYLE, apply_default_css=False)
        events = [button.click, *(box.submit for box in boxes)]
        answer = partial(respond, model)
        gr.on(events, answer, [*boxes, layer], [said, drawn], api_name="answer")
    return page


def add_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL",
        help="a checkpoint, a folder with one, or a model that comes with the package")  # fmt: skip
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine alone)")
    add("--port", type=int, help="default: the first free one from 7860 on")
    add("--share", action="store_true", help="also a public address, by Gradio's servers")


@contextmanager
def usable(args: argparse.Namespace) -> Iterator[None]:
    """What the system says against the address, in a sentence."""
    try:
        yield
    except OSError as error:
        port = "" if args.port is None else f" --port {args.port}"
        reason = error.strerror or error
        raise UserError(f"--host {args.host}{port} cannot be used: {reason}") from None


def main(args: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    from selfattn_tasks.saved import find_checkpoint

    if args.port is not None:
        check_integer("--port", args.port, most=65535)
    with (
        usable(args),
        socket.socket(socket.AF_INET6 if ":" in args.host else socket.AF_INET) as probe,
    ):
        # Gradio would try a hundred ports, and after the model is loaded.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((args.host, args.port or 0))
    page = build(find_checkpoint(args.model))
    with usable(args):
        _, *addresses = page.launch(
            server_name=args.host, server_port=args.port, share=args.share, quiet=True,
            prevent_thread_lock=True, run_history=False, footer_links=["api"],
        )  # fmt: skip
    print(*filter(None, addresses), flush=True)
    page.block_thread()
