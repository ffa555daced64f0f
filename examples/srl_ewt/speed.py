"""Propositions a minute of CPU time, from raw text: splitting, predicates, roles.

Example, the development set's sentences as texts, three passes of each setting, interleaved:

  python examples/srl_ewt/speed.py runs/srl/checkpoint_last.pt \\
      --texts data/srl_ewt/ewt-verbs.dev.conll --output speed.json

Models that find predicates (--target both); loading is not counted. medium: see
SELFATTN_MATMUL_PRECISION in docs/benchmarks.md.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run
from selfattn_tasks.files import write_json
from selfattn_tasks.srl import Sentence, read
from selfattn_tasks.srl.tagger.predictor import Predictor
from selfattn_tasks.srl.tags import DECODERS
from selfattn_tasks.srl.text.segmentation import Segmenter

PRECISIONS = ("highest", "medium")


def passed(predictor: Predictor, sentences: list[Sentence], precision: str, decoder: str) -> float:
    """Propositions a minute of one pass: words of the text, predicates, roles of gold predicates.

    How many predicates are found depends on the training; the work for a gold one does not.
    """
    torch.set_float32_matmul_precision(precision)
    start = time.process_time()
    segmenter = Segmenter()
    for sentence in sentences:
        segmenter(" ".join(sentence.words))
    predictor.predicates([sentence.words for sentence in sentences])
    predictor.predict(sentences, decoder)
    count = sum(len(sentence.propositions) for sentence in sentences)
    return 60 * count / (time.process_time() - start)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="checkpoints or folders")
    parser.add_argument("--texts", type=Path, required=True, help="a file in a CoNLL format")
    parser.add_argument("--sentences", type=int, default=500, help="how many (500)")
    parser.add_argument("--decoder", choices=DECODERS, default="argmax")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--output", type=Path, required=True, help="a JSON file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sentences = read(args.texts)[: args.sentences]
    models = {name: Predictor.load(name) for name in args.models}
    found: dict[str, list[float]] = {}
    origin = facts("cpu")
    for _ in range(args.passes):
        for name, model in models.items():
            for precision in PRECISIONS:
                speed = passed(model, sentences, precision, args.decoder)
                found.setdefault(f"{name} {precision}", []).append(speed)
    for name, values in found.items():
        print(f"{median(values):9,.0f}  {name}")
    rounded = {name: [round(value) for value in values] for name, values in found.items()}
    write_json(args.output, {"propositions a minute": rounded, **origin})


if __name__ == "__main__":
    run(main)
