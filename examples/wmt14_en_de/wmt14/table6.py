"""Table 6 of the MTSA paper, with what was trained here beside it."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError
from selfattn_experiments.compare.rendering.cells import markdown

from .bleu import FLAVOURS
from .runs import Run, load

NOT_RUN = "not run"
# Shen et al. 2019, table 6: parameters, BLEU of Setup 1 and 2, and their p-values.
PUBLISHED = {"multihead": ("61.38M", 23.64, 26.98), "mtsa": ("61.58M", 24.09, 27.21)}
P_VALUES = ("0.001 (6 runs)", "0.080 (3 runs)")


def collect(folders: Sequence[Path], any_settings: bool = False) -> tuple[list[Run], list[str]]:
    """The runs that belong in the table, and why others do not.

    Returns:
        The runs, and a line for each that is left out or departs from the published settings.

    Raises:
        UserError: if a folder was not evaluated, or two are the same system with the same seed.
    """
    taken: list[Run] = []
    places: dict[tuple[int, str, str, int], Path] = {}
    notes: list[str] = []
    for folder in folders:
        for run in load(folder):
            name = f"{folder} ({run.checkpoint})"
            if run.setup is None:
                notes.append(f"left out: {name}: its warm-up is neither setup's")
                continue
            if run.departures:
                shown = "not as published" if any_settings else "left out"
                notes.append(f"{shown}: {name}: {'; '.join(run.departures)}")
                if not any_settings:
                    continue
            system = run.setup, run.attention, run.checkpoint, run.seed
            if system in places:
                raise UserError(
                    f"{places[system]} and {folder} are both {run.attention} in Setup {run.setup} "
                    f"with seed {run.seed}: a mean needs runs of different seeds"
                )
            places[system] = folder
            taken.append(run)
    return taken, notes


def table(runs: Sequence[Run]) -> str:
    """The table as Markdown: published rows first, then ours in each flavour of BLEU."""
    heads, rows = ["encoder", "checkpoint", "BLEU", "parameters", "Setup 1", "Setup 2"], []
    for attention, (parameters, *scores) in PUBLISHED.items():
        rows.append(
            [f"`{attention}`, *published*", "?", "?", parameters, *(f"{s:.2f}" for s in scores)]
        )
    rows.append(["p, *published*", "", "", "", *P_VALUES])
    for attention in dict.fromkeys([*PUBLISHED, *(run.attention for run in runs)]):
        of_it = [run for run in runs if run.attention == attention]
        for checkpoint in dict.fromkeys(["last", *(run.checkpoint for run in of_it)]):
            ours = [run for run in of_it if run.checkpoint == checkpoint]
            sizes = sorted({run.parameters for run in ours})
            size = " and ".join(f"{number:,}" for number in sizes) or NOT_RUN
            rows += [
                [
                    f"`{attention}`, ours", checkpoint, flavour, size,
                    *(_cell([run for run in ours if run.setup == n], flavour) for n in (1, 2)),
                ]
                for flavour in FLAVOURS
            ]  # fmt: skip
    return "\n".join([*markdown(heads, rows, left=6), ""])


def signatures(runs: Sequence[Run]) -> list[str]:
    """A line a flavour and signature; more than one for a flavour is a warning in itself."""
    found = dict.fromkeys(
        f"{flavour}: {run.scores[flavour].signature}"
        for flavour in FLAVOURS
        for run in runs
        if flavour in run.scores
    )
    return list(found)


def _cell(runs: Sequence[Run], flavour: str) -> str:
    """Mean and sample standard deviation over seeds."""
    scores = [run.scores[flavour].bleu for run in runs if flavour in run.scores]
    if not scores:
        return NOT_RUN
    if len(scores) == 1:
        return f"{scores[0]:.2f} (1 run)"
    mean, deviation = statistics.mean(scores), statistics.stdev(scores)
    return f"{mean:.2f} ± {deviation:.2f} ({len(scores)} runs)"
