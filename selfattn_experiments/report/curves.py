"""Learning curves of one or several runs as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from selfattn.errors import UserError
from selfattn.files import check_output

from .fairseq_log import Curves
from .figures import colours, new_figure, save, tidy

FORMATS = (".png", ".svg", ".pdf")


def plot(runs: Mapping[str, Curves], output: Path, title: str = "") -> None:
    """Draw training and validation loss, and validation BLEU where there is any, over updates.

    Args:
        runs (Mapping[str, Curves]): name in the legend to curves.
        output (Path): the picture; its ending chooses the format, one of FORMATS.
        title (str): a line above the picture.

    Raises:
        UserError: if the ending is another, or matplotlib is not installed.
    """
    check_picture(output)
    with_bleu = any(curves.valid_bleu for curves in runs.values())
    figure = new_figure(10.5 if with_bleu else 6.2, 4.2)
    axes = figure.subplots(1, 2 if with_bleu else 1, squeeze=False)[0]
    _draw_loss(axes[0], runs)
    if with_bleu:
        _draw_bleu(axes[1], runs)
    for panel in axes:
        panel.set_xlabel("updates")
        panel.set_xlim(left=0)
        tidy(panel)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if title:
        figure.suptitle(title)
    save(figure, output)


def check_picture(output: Path) -> None:
    """Refuse a picture's path with an unknown ending, or one that cannot be written."""
    if output.suffix.lower() not in FORMATS:
        raise UserError(f"--output is {output}, but must end in {', '.join(FORMATS)}")
    check_output("--output", output)


def _draw_loss(panel, runs: Mapping[str, Curves]) -> None:  # type: ignore[no-untyped-def]
    for colour, (name, curves) in zip(colours(len(runs)), runs.items(), strict=True):
        lead = f"{name}: " if len(runs) > 1 else ""
        if curves.train_loss:
            panel.plot(
                *zip(*curves.train_loss, strict=True),
                color=colour, linewidth=1, alpha=0.5, label=f"{lead}training",
            )  # fmt: skip
        if curves.valid_loss:
            panel.plot(
                *zip(*curves.valid_loss, strict=True),
                color=colour, linewidth=1.8, marker="o", markersize=3.5, label=f"{lead}validation",
            )  # fmt: skip
    panel.set_ylabel("loss (bits per token)")
    panel.set_title("loss", fontsize=11)
    panel.legend(frameon=False)


def _draw_bleu(panel, runs: Mapping[str, Curves]) -> None:  # type: ignore[no-untyped-def]
    for colour, (name, curves) in zip(colours(len(runs)), runs.items(), strict=True):
        if curves.valid_bleu:
            updates, scores = zip(*curves.valid_bleu, strict=True)
            panel.plot(
                updates, scores,
                color=colour, linewidth=1.8, marker="o", markersize=3.5,
                # Beside the points, the numbers of runs that end alike would lie on each other.
                label=f"{name}: {scores[-1]:.1f} at the end",
            )  # fmt: skip
    panel.set_ylabel("BLEU")
    panel.set_ylim(bottom=0)
    panel.set_title("BLEU of the validation set", fontsize=11)
    panel.legend(frameon=False, loc="lower right")
