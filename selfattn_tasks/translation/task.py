"""Translation, as ``selfattn_tasks.registry`` lists it."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..files import write_lines
from ..metric import Scale
from ..task import Scores, Task
from . import output_warnings
from .metrics import NAMES, translation_metrics
from .outputs import read_hypotheses, read_references


class Translation(Task):
    """Plain text, one sentence per line, scored by sacreBLEU."""

    name = "translation"
    gold_holds = "translations"
    metrics = NAMES
    packages = ("sacrebleu",)
    valid_metrics: Mapping[str, str] = {"bleu": "BLEU"}
    prepare = "selfattn prepare translation"
    gold_key, flags_key = "references", "generate"
    ignores_case = True
    output, hypotheses = "out", "hyp"

    # Any text may be references; subword marks in them are the user's choice.
    recognise = read_gold = staticmethod(read_references)
    read_outputs = staticmethod(read_hypotheses)
    make_metrics = staticmethod(translation_metrics)
    folder_warnings = staticmethod(output_warnings.signature_warnings)

    def scale(self, metric: str) -> Scale:
        """Percent; there may be more edits than words."""
        return Scale(limits=(0.0, math.inf)) if metric == "TER" else Scale()

    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Write translations in corpus order and score them."""
        wanted = self.read_gold(gold)
        found = self.read_outputs(output, wanted, gold)
        metrics = translation_metrics(("BLEU", "chrF"), lowercase=lowercase)
        scores = {m.name: m.corpus(wanted, found) for m in metrics}
        write_lines(hypotheses, found)
        warnings = output_warnings.text_warnings(hypotheses.name, found, wanted, lowercase)
        return Scores(scores, {m.name: m.signature for m in metrics}, tuple(warnings))

    def usual_gold(self, data: Path, common: Mapping[str, Sequence[str]]) -> Path | None:
        """What `selfattn prepare translation` writes beside data-bin."""
        target = (common.get("--target-lang") or [""])[0] or _target_language(data)
        path = data.parent / "raw" / f"test.{target}"
        return path if path.is_file() else None

    def gold_warnings(self, name: str, path: Path, gold: Sequence[str]) -> list[str]:
        """Warn about byte order marks and references that are not plain text."""
        return [
            *output_warnings.mark_warnings(name, path),
            *output_warnings.reference_warnings(name, gold),
        ]

    def output_warnings(
        self, name: str, path: Path, output: Sequence[str], gold: Sequence[str], lowercase: bool
    ) -> list[str]:
        """Warn about byte order marks and text that looks different from the references."""
        return [
            *output_warnings.mark_warnings(name, path),
            *output_warnings.text_warnings(name, output, gold, lowercase),
        ]


def _target_language(data: Path) -> str:
    """The target language of binarised data, if its files name exactly one pair."""
    pairs = {path.name.split(".")[1] for path in data.glob("train.*-*.*.idx")}
    return pairs.pop().partition("-")[2] if len(pairs) == 1 else ""
