"""Are a tagger's confidences what they say? A table and a diagram, before and after a temperature.

  python examples/srl_ewt/reliability.py MODEL GOLD.conll FOLDER

The temperature is fitted on every second sentence of GOLD that has a predicate, and the diagram is
of the others. FOLDER gets reliability.json and reliability.png.
"""

import argparse
from pathlib import Path
from typing import Any

from selfattn_experiments.report.figures import COLOURS, new_figure, save, tidy
from selfattn_tasks.cli import run
from selfattn_tasks.files import check_output_folder, write_json
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.tagger.predictor import Predictor
from selfattn_tasks.srl.tagger.reliability import Reliability, fit_temperature, judged, reliability


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    check_output_folder("FOLDER", args.folder)
    args.folder.mkdir(parents=True, exist_ok=True)
    gold = [sentence for sentence in conll.read(args.gold) if sentence.propositions]
    predictor = Predictor.load(args.model)
    fitted = fit_temperature(predictor, gold[::2])
    found: dict[str, Reliability] = {}
    for temperature in (1.0, fitted):
        predictor.temperature = temperature
        spans, whole = judged(
            gold[1::2], predictor.predict(gold[1::2], "structured", confidence=True)
        )
        found[f"spans, temperature {temperature}"] = reliability(spans)
        found["propositions"] = reliability(whole)
    tables = {name: as_json(table) for name, table in found.items()}
    facts = {"model": str(args.model), "set": "every second sentence with a predicate"}
    write_json(args.folder / "reliability.json", facts | tables)
    draw(found, args.folder / "reliability.png")


def as_json(table: Reliability) -> dict[str, Any]:
    """The expected calibration error; number, mean confidence and accuracy of each bin."""
    bins = [
        [each.number, round(each.confidence, 4), round(each.accuracy, 4)] if each else None
        for each in table.bins
    ]
    return {"expected calibration error": round(table.error, 4), "bins": bins}


def draw(found: dict[str, Reliability], path: Path) -> None:
    """One line for each table: accuracy against mean confidence, bins of at least 20 answers."""
    figure = new_figure(4.6, 4.2)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for (name, table), colour, marker in zip(found.items(), COLOURS, "osD", strict=False):
        bins = [each for each in table.bins if each and each.number >= 20]
        axes.plot(
            [each.confidence for each in bins], [each.accuracy for each in bins],
            color=colour, marker=marker, markersize=4, label=f"{name}: error {table.error:.3f}",
        )  # fmt: skip
    axes.set(xlabel="confidence", ylabel="share correct", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    save(figure, path)


if __name__ == "__main__":
    run(main)
