"""Propositions a minute of CPU time, from raw text: splitting, predicates, roles.

Example, the development set's sentences as texts, three passes of each setting, interleaved:

  python examples/srl_ewt/speed.py runs/srl/checkpoint_last.pt \\
      --texts data/srl_ewt/ewt-verbs.dev.conll --output speed.json

Models that find predicates (--target both); loading is not counted. medium: see
SELFATTN_MATMUL_PRECISION in docs/benchmarks.md; bf16: `selfattn predict --bf16`.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.files import write_json
from selfattn_tasks.srl import SRL, Sentence, read
from selfattn_tasks.srl.tagger.predictor import Predictor
from selfattn_tasks.srl.tagger.reading import Reading
from selfattn_tasks.srl.tags import DECODERS
from selfattn_tasks.srl.text.segmentation import Segmenter, treebank_forms

# Precision of float32 products, and whether they are in bfloat16.
SETTINGS = {"highest": ("highest", False), "medium": ("medium", False), "bf16": ("medium", True)}


class Gold(Predictor):
    """Finds predicates and then labels the gold ones.

    How many are found depends on training; the work for a gold one does not.
    """

    places: dict[tuple[str, ...], list[int]]

    def places_in(self, reading: Reading, rows: Sequence[int]) -> list[list[int]]:
        """The gold predicates."""
        super().places_in(reading, rows)
        return [self.places[tuple(reading.sentences[row])] for row in rows]


def passed(model: SRL, sentences: list[Sentence], setting: str) -> float:
    """Propositions a minute of a pass: splitting, finding, and the roles of gold predicates."""
    precision, model.predictor.bf16 = SETTINGS[setting]
    torch.set_float32_matmul_precision(precision)
    texts = [" ".join(sentence.words) for sentence in sentences]
    start = time.process_time()
    segmenter = Segmenter()
    for text in texts:
        segmenter(text)
    documents = model.stream(texts, tokenized=True)
    count = sum(len(list(document.propositions)) for document in documents)
    return 60 * count / (time.process_time() - start)


def load(path: str, sentences: list[Sentence], decoder: str) -> SRL:
    """A model that labels the gold predicates of ``sentences``."""
    predictor = Gold.load(path)
    assert isinstance(predictor, Gold)
    model = SRL(predictor, decoder)
    predictor.places = {
        treebank_forms(s.words, model.known): [p.predicate for p in s.propositions]
        for s in sentences
    }
    return model


def main() -> None:
    """Measure and write."""
    parser = script_parser(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="checkpoints or folders")
    parser.add_argument("--texts", type=Path, required=True, help="a file in a CoNLL format")
    parser.add_argument("--sentences", type=int, default=500, help="how many (500)")
    parser.add_argument("--decoder", choices=DECODERS, default="argmax")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--output", type=Path, required=True, help="a JSON file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sentences = read(args.texts)[: args.sentences]
    models = {name: load(name, sentences, args.decoder) for name in args.models}
    found: dict[str, list[float]] = {}
    origin = facts("cpu")
    for _ in range(args.passes):
        for name, model in models.items():
            for setting in SETTINGS:
                speed = passed(model, sentences, setting)
                found.setdefault(f"{name} {setting}", []).append(speed)
    for name, values in found.items():
        print(f"{median(values):9,.0f}  {name}")
    rounded = {name: [round(value) for value in values] for name, values in found.items()}
    write_json(args.output, {"propositions a minute": rounded, **origin})


if __name__ == "__main__":
    run(main)
