"""Semantic role labelling, as ``selfattn_tasks.registry`` lists it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..task import Scores, Task
from .formats import conll
from .formats.lines import regrouped
from .metrics import NAMES, TaggingMetric
from .propositions import Sentence
from .scorer import Result, check_same_sentences, score

# How many bytes of a file are searched for roles: enough for a whole sentence, or line.
_HEAD = 1 << 20


class SRL(Task):
    """Files of any format of :mod:`.formats.conll`, scored as by the official CoNLL-2005 script."""

    name = "srl"
    gold_holds = "propositions"
    metrics = NAMES
    metric = TaggingMetric
    valid_metrics: Mapping[str, str] = {"f1": "F1"}
    prepare = "selfattn prepare srl"
    train_flags = ("--task", "srl_tagging")
    predictor = "predict"
    predict_flags = ("--format", "props")
    # Found predicates have no lemmas, without which the official script has them as missed.
    input_flags = ("--input", "--sentence", "--predicates", "--find-predicates")
    hypotheses = "props"
    # train.txt and meta.json tell two runs apart; older folders lack this file.
    data_notes = ("train.conll",)

    def recognise(self, path: Path) -> list[Sentence] | None:
        """The sentences of a file that holds at least one proposition."""
        if not _may_hold_roles(path):
            return None
        gold = super().recognise(path) or []
        return gold if any(sentence.propositions for sentence in gold) else None

    def read_gold(self, path: Path) -> list[Sentence]:
        """Gold sentences as the official script accepts them, even where training would not."""
        return conll.read(path, lenient=True)

    def read_outputs(self, path: Path, gold: Sequence[Sentence], gold_path: Path) -> list[Sentence]:
        """Predicted propositions, grouped into the sentences of the gold file."""
        predicted = regrouped(conll.read(path, lenient=True), gold)
        check_same_sentences(gold, predicted, (gold_path, path))
        return predicted

    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Score predicted roles, then give their file its final name."""
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
        warnings = _absent(hypotheses.name, result)
        return Scores(figures, {}, warnings)

    def output_warnings(
        self,
        name: str,
        path: Path,
        output: Sequence[Sentence],
        gold: Sequence[Sentence],
        lowercase: bool,
    ) -> list[str]:
        """Predicates without an answer, and gold roles in the place of predicted ones."""
        warnings = [*_absent(name, score(gold, output))]
        if [s.propositions for s in output] == [s.propositions for s in gold]:
            warnings.append(f"{name}: the predicted roles are the gold roles themselves")
        return warnings


def _absent(name: str, result: Result) -> tuple[str, ...]:
    if not result.absent:
        return ()
    return (
        f"{name}: {result.absent:,} of {result.propositions:,} predicates are missing, or have "
        "another lemma than in the gold file: their arguments are missed",
    )


def _may_hold_roles(path: Path) -> bool:
    """False for a large text without a trace of roles, which would take much memory as columns."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return True  # a folder, or a file that the reader will refuse
    signs = (b"\n\n", b"\n\r\n", b"|||", b"#begin document", b"\x1f\x8b")
    return len(head) < _HEAD or any(sign in head for sign in signs)
