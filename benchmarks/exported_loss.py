"""What 8-bit weights cost: scores in PyTorch, and in onnxruntime with float32 and with int8.

  python -m benchmarks.exported_loss CHECKPOINT TEST [--references FILE]

TEST is a file that `selfattn score` takes as GOLD, or the source of a translation (greedy search).
Scores are F1, BLEU, accuracy in percent, or Pearson's correlation times 100.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfattn.errors import needed
from selfattn_experiments.machine import facts
from selfattn_tasks.batches import batches
from selfattn_tasks.cli import run
from selfattn_tasks.exported import graphs, networks
from selfattn_tasks.saved import find_checkpoint
from selfattn_tasks.sentences.formats.reading import read
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.metrics import ACCURACY, answers_of, figures
from selfattn_tasks.sentences.model.predictor import Predictor as Classifier
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.metrics import tag_f1
from selfattn_tasks.srl.tagger.predictor import Predictor as Labeller

from .table import origin

# A network by name: arrays to arrays.
Run = Callable[..., list[np.ndarray]]


def main() -> None:
    """Print a score and a size for each form."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--references", type=Path, help="of a translation")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.checkpoint = find_checkpoint(args.checkpoint)
    model = networks.read(args.checkpoint)
    score = {"tagger": _f1, "translation": _bleu}.get(model.facts["kind"], _figure)
    for name, runs, size in _forms(model):
        print(f"- {name}: {score(args, model, runs):.2f}, {size / 1e6:.2f} MB", flush=True)
    print("\n" + origin(facts("cpu")))


def _forms(model: networks.Exported) -> Iterator[tuple[str, dict[str, Run], int]]:
    runtime: Any = needed("onnxruntime", "selfattn[onnx]")
    yield "PyTorch", {n.name: _in_torch(n.module) for n in model.networks}, 0
    whole = {n.name: graphs.onnx_of(graphs.trace(n), n) for n in model.networks}
    for name, change in (("float32", lambda m: m), ("int8", graphs.quantised)):
        files = {key: change(m).SerializeToString() for key, m in whole.items()}
        sessions = {key: runtime.InferenceSession(file) for key, file in files.items()}
        yield name, {k: _in_onnx(s) for k, s in sessions.items()}, sum(map(len, files.values()))


def _in_torch(module: nn.Module) -> Run:
    @torch.inference_mode()
    def step(**inputs: np.ndarray) -> list[np.ndarray]:
        found = module.eval()(**{name: torch.from_numpy(t) for name, t in inputs.items()})
        return [t.numpy() for t in (found if isinstance(found, tuple) else (found,))]

    return step


def _in_onnx(session: Any) -> Run:
    return lambda **inputs: list(session.run(None, inputs))


class _Tagger(nn.Module):
    """A graph in the place of ``Tagger``."""

    def __init__(self, run: Run, like: Any) -> None:
        super().__init__()
        self.run, self.features = run, like.features

    def below(self, words: Tensor, places: Tensor | None = None, **more: Any) -> Tensor:
        """The inputs themselves, since a graph is in one piece: ``(S, T, 1)``, or 2 with places."""
        self.spellings = more.get("spellings")
        return torch.stack([words] if places is None else [words, places], -1)

    def above(self, x: Tensor, indicator: Tensor, padding_mask: Tensor | None) -> Tensor:
        inputs = dict(zip(("words", "places"), x.unbind(-1), strict=False))
        if self.spellings is not None:
            inputs["spellings"] = self.spellings
        arrays = {name: t.numpy() for name, t in inputs.items()}
        return torch.from_numpy(self.run(**arrays, predicate=indicator.argmax(1).numpy())[0])


class _Sentences(nn.Module):
    """A graph in the place of ``SentenceModel``."""

    def __init__(self, run: Run, block: int) -> None:
        super().__init__()
        self.run, self.block = run, block

    def forward(self, words: Tensor, missing: Tensor) -> Tensor:
        words = nn.functional.pad(words, (0, -words.shape[-1] % self.block))
        return torch.from_numpy(self.run(words=words.numpy())[0])


def _f1(args: argparse.Namespace, model: networks.Exported, runs: dict[str, Run]) -> float:
    tagger, vocabulary = Labeller.load(args.checkpoint).members[0]
    gold = conll.read(args.test, lenient=True)
    labeller = Labeller([(_Tagger(runs["tagger"], tagger), vocabulary)])  # type: ignore[list-item]
    return tag_f1(gold, labeller.predict(gold))["f1"]


def _figure(args: argparse.Namespace, model: networks.Exported, runs: dict[str, Run]) -> float:
    state = Classifier.load(args.checkpoint).state
    examples = read(args.test, state.kind, Reading(state.tokens)).examples
    graph: Any = _Sentences(runs["sentences"], model.networks[0].block)
    found = Classifier([(graph, state)]).predict(examples)
    gold = answers_of([example.target for example in examples])
    answers = answers_of([row.prediction for row in found])
    name, score = next(iter(figures(gold, answers).items()))
    return (1 if name == ACCURACY else 100) * (math.nan if score is None else score)


def _bleu(args: argparse.Namespace, model: networks.Exported, runs: dict[str, Run]) -> float:
    texts = args.test.read_text(encoding="utf-8").splitlines()
    tokenizer = model.tokenizer.backend_tokenizer
    rows = [tokenizer.encode(text).ids for text in texts]
    found = [""] * len(rows)
    for batch in batches([len(row) for row in rows], 1000):
        for i, tokens in zip(batch, _greedy([rows[i] for i in batch], model, runs), strict=True):
            found[i] = tokenizer.decode(tokens)
    references = args.references.read_text(encoding="utf-8").splitlines()
    return float(needed("sacrebleu").corpus_bleu(found, [references]).score)


def _greedy(
    rows: list[list[int]], model: networks.Exported, runs: dict[str, Run]
) -> list[list[int]]:
    padding, end = model.facts["padding"], model.facts["end"]
    length = max(map(len, rows))
    length += -length % model.networks[0].block
    source = np.full((len(rows), length), padding)
    for place, row in zip(source, rows, strict=True):
        place[: len(row)] = row
    _, memory = runs["encoder"](source=source)
    past = np.zeros((*memory.shape[:4], 0, memory.shape[5]), np.float32)
    token = np.full((len(rows), 1), end)
    found: list[list[int]] = [[] for _ in rows]
    alive = np.ones(len(rows), bool)
    while alive.any() and past.shape[4] < length * 2 + 10:
        log_probs, past = runs["step"](source=source, memory=memory, token=token, past=past)
        log_probs[:, padding] = -np.inf
        token = log_probs.argmax(1)[:, None]
        alive &= token[:, 0] != end
        for i in np.flatnonzero(alive):
            found[i].append(int(token[i, 0]))
    return found


if __name__ == "__main__":
    run(main, "benchmarks.exported_loss")
