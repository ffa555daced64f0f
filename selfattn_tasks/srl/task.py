"""Semantic role labelling, as ``selfattn_tasks.registry`` lists it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from selfattn.errors import UserError

from ..task import Scores, Task
from .formats import conll
from .formats.lines import regrouped
from .metrics import NAMES, TaggingMetric
from .propositions import Sentence
from .scorer import check_same_sentences, score

# How much of a file is looked at for roles: some sentence, or a line of them, ends before.
_HEAD = 1 << 20


class SRL(Task):
    """Files of every format of :mod:`.conll`, scored as the official CoNLL-2005 script does."""

    name = "srl"
    gold_holds = "propositions"
    metrics = NAMES
    valid_metrics: Mapping[str, str] = {"f1": "F1"}
    prepare = "selfattn prepare srl"
    train_flags = ("--task", "srl_tagging")
    predictor = "predict"
    predict_flags = ("--format", "props")
    input_flags = ("--input", "--sentence", "--predicates")
    hypotheses = "props"

    def recognise(self, path: Path) -> list[Sentence] | None:
        """The sentences of a file with a proposition at least."""
        if not _may_hold_roles(path):
            return None
        try:
            gold = self.read_gold(path)
        except UserError:
            return None
        return gold if any(sentence.propositions for sentence in gold) else None

    def read_gold(self, path: Path) -> list[Sentence]:
        """What the official script accepts, even where training would refuse it."""
        return conll.read(path, lenient=True)

    def read_outputs(self, path: Path, gold: Sequence[Sentence], gold_path: Path) -> list[Sentence]:
        """Predicted propositions, in the sentences of the gold file."""
        predicted = regrouped(conll.read(path, lenient=True), gold)
        check_same_sentences(gold, predicted, (gold_path, path))
        return predicted

    def make_metrics(
        self, names: Sequence[str], *, lowercase: bool, tokenize: str
    ) -> list[TaggingMetric]:
        """Scores of arguments; case and tokenizer do not matter to them."""
        return [TaggingMetric(name) for name in names]

    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Score predicted roles; their file then gets its final name."""
        wanted = self.read_gold(gold)
        found = self.read_outputs(output, wanted, gold)
        result = score(wanted, found)
        overall = result.overall
        output.replace(hypotheses)
        figures = {
            "F1": overall.f1,
            "precision": overall.precision,
            "recall": overall.recall,
            "Comp.": result.perfect_percent,
        }
        return Scores({name: round(value, 2) for name, value in figures.items()}, {})


def _may_hold_roles(path: Path) -> bool:
    """False for a large text without any sign of them: to read it as columns takes memory."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return True  # a folder, or what cannot be read and is refused there
    signs = (b"\n\n", b"\n\r\n", b"|||", b"#begin document", b"\x1f\x8b")
    return len(head) < _HEAD or any(sign in head for sign in signs)
