"""Scores of a test set, by what the project's own scoring scripts use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from selfattn.files import write_lines
from selfattn_tasks.srl import conll
from selfattn_tasks.srl.lines import regrouped
from selfattn_tasks.srl.scorer import check_same_sentences, score
from selfattn_tasks.translation.outputs import bleu, read_translations

from ..compare.reading import read_hypotheses


@dataclass(frozen=True)
class Scores:
    """Figures by name, and what makes them comparable."""

    figures: dict[str, float]
    signatures: dict[str, str]


def translation(output: Path, references: Path, hypotheses: Path, lowercase: bool) -> Scores:
    """Write the translations in corpus order and score them.

    Args:
        output: what fairseq-generate printed.
        references: one a line.
        hypotheses: the file to write, one a line; it appears complete or not at all.
        lowercase: whether case is ignored.

    Raises:
        UserError: if translations are missing, hold subword marks or are of other references, or
            sacrebleu is not installed.
    """
    wanted = read_translations(references, subwords=True)
    found = read_hypotheses(output, "translation", wanted, references)
    first = bleu(found, wanted, lowercase)
    from sacrebleu.metrics import CHRF

    metric = CHRF(lowercase=lowercase)
    second = round(float(metric.corpus_score(found, [wanted]).score), 2)
    write_lines(hypotheses, found)
    return Scores(
        {"BLEU": first.bleu, "chrF": second},
        {"BLEU": first.signature, "chrF": str(metric.get_signature())},
    )


def roles(predicted: Path, gold: Path, props: Path) -> Scores:
    """Score predicted roles as the official script does; the file then gets its final name.

    Raises:
        UserError: if a file cannot be read, or the two hold other sentences.
    """
    wanted = conll.read(gold, lenient=True)
    found = regrouped(conll.read(predicted, lenient=True), wanted)
    check_same_sentences(wanted, found, (gold, predicted))
    result = score(wanted, found)
    overall = result.overall
    predicted.replace(props)
    figures = {
        "F1": overall.f1,
        "precision": overall.precision,
        "recall": overall.recall,
        "Comp.": result.perfect_percent,
    }
    return Scores({name: round(value, 2) for name, value in figures.items()}, {})
