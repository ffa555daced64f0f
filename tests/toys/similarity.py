"""A task as small as the list in CONTRIBUTING allows: how similar two sentences are, in numbers.

A gold file holds ``NUMBER<TAB>SENTENCE<TAB>SENTENCE`` lines, a predicted one has a number per line.
The scores are Pearson's correlation and the mean squared error, from sums that are no counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from selfattn.errors import UserError
from selfattn_tasks.metric import Counts, Metric, SentenceCounts
from selfattn_tasks.task import Scores, Task
from selfattn_tasks.text import read_lines

_LINE = re.compile(r"(\d+(?:\.\d+)?)\t[^\t]+\t[^\t]+")


class SimilarityMetric(Metric):
    """Pearson's correlation or the mean squared error."""

    source = "similarity"
    signature = "toy:similarity|version:1"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.higher_is_better = name == "Pearson"

    def counts(
        self, gold: Sequence[float], outputs: Sequence[Sequence[float]]
    ) -> list[SentenceCounts]:
        """One, x, y, and the products x^2, y^2, xy of each sentence."""
        x = np.array(gold, dtype=np.float64)
        return [
            np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
            for y in (np.array(out, dtype=np.float64) for out in outputs)
        ]

    def scores(self, sums: Counts) -> Counts:
        n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        if self.name == "MSE":
            return (xx + yy - 2 * xy) / n
        spread = np.sqrt((n * xx - x * x) * (n * yy - y * y))
        return 100 * (n * xy - x * y) / np.where(spread > 0, spread, np.inf)


class Similarity(Task):
    """The task."""

    name = "similarity"
    gold_holds = "similarities"
    metrics = ("Pearson", "MSE")
    metric = SimilarityMetric
    prepare = "selfattn prepare similarity"
    train_flags = ("--task", "similarity_of_sentences")
    predictor = "predict_similarity"
    hypotheses = "numbers"

    def read_gold(self, path: Path) -> list[float]:
        found = [_LINE.fullmatch(line) for line in read_lines(path)]
        if not found or None in found:
            raise UserError(f"{path} does not hold a number and two sentences in each line")
        return [float(match[1]) for match in found if match]

    def read_outputs(self, path: Path, gold: Sequence[float], gold_path: Path) -> list[float]:
        found = [float(line) for line in read_lines(path)]
        if len(found) != len(gold):
            raise UserError(f"{path} has {len(found)} numbers, but {gold_path} {len(gold)} lines")
        return found

    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        wanted = self.read_gold(gold)
        found = self.read_outputs(output, wanted, gold)
        figures = {}
        for metric in map(SimilarityMetric, self.metrics):
            (sums,) = metric.counts(wanted, [found])
            figures[metric.name] = float(metric.scores(sums.sum(axis=0)))
        output.replace(hypotheses)
        return Scores(figures, {})
