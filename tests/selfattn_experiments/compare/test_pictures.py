"""What the pictures of a comparison show, and say."""

from pathlib import Path

import numpy as np
import pytest

from selfattn_experiments.compare.rendering.learning import draw_leads, draw_learning
from selfattn_experiments.compare.rendering.plots import _differences, _runs, draw
from selfattn_experiments.report import Curves
from tests.conftest import run_verb
from tests.selfattn_experiments.compare.made_up import LINES, found

pytest.importorskip("sacrebleu")
pytest.importorskip("scipy")
pytest.importorskip("matplotlib")
pytestmark = pytest.mark.usefixtures("folder")


def test_an_interval_beyond_the_metric_is_warned_of_and_cut(folder):
    # One of two runs translates nothing well: Student's interval of two reaches far below 0.
    Path("runs/good-1/one.out").write_text("x y z .\n" * len(LINES), "utf-8")
    report = found(system="runs/good-[12]/one.out")
    system = report.systems[1]
    low, high = report.summary("one", system, "BLEU").interval
    assert low < 0 and high > 100
    (warning,) = (w for w in report.warnings if "do not exist" in w)
    assert warning.startswith(f"{system} on one: the 95 % interval of BLEU, {low:.2f} to ")
    for figure, axis in ((_runs(report), "y"), (_differences(report), "x")):
        assert "cut where it holds scores that do not exist" in figure.get_suptitle()
        figure.draw_without_rendering()
        assert figure._suptitle.get_window_extent().width <= figure.bbox.width
        (axes,) = figure.axes
        drawn = np.concatenate([getattr(line, f"get_{axis}data")() for line in axes.lines])
        shift = report.summary("one", report.baseline, "BLEU").mean if axis == "x" else 0.0
        assert drawn.min() + shift >= -1e-9 and drawn.max() + shift <= 100 + 1e-9


def test_curves_say_how_far_all_runs_went_in_the_digits_of_their_score(folder, caplog):
    for system, runs in (("base", (3, 3)), ("good", (3, 2))):
        for seed, last in enumerate(runs, 1):
            lines = [
                f'2026-01-01 | INFO | valid | {{"epoch": {n}, "valid_bleu": "{20 + n}", '
                f'"valid_num_updates": "{1000 * n}"}}\n'
                for n in range(1, last + 1)
            ]
            (folder / f"runs/{system}-{seed}/train.log").write_text("".join(lines))
    (folder / "runs/base-3/train.log").write_text("another trainer's\n")
    for _ in range(2):
        draw(found(), folder / "pictures", {})
        svg = (folder / "pictures/curves.svg").read_text()
        assert "base: 23.00 at the end" in svg and "good: 22.00 at update 2,000 of 3,000" in svg
        # Then one that would be both systems', since it lies above the folders of both.
        (folder / "runs/base-3/train.log").unlink(missing_ok=True)
        (folder / "runs/train.log").write_text(lines[0].replace("21", "99"))
    assert caplog.text.count("for want of logs: runs/good-3/one.out\n") == 1
    assert caplog.text.count("runs/base-3/train.log is no training log") == 1
    scores = {"bleu": ("Pearson", 3)}
    curves = {s: [Curves(valid={"bleu": [(1, v), (2, v)]}) for v in (a, a + 1)] for s, a in
              (("base", 0.0), ("good", 0.0049))}  # fmt: skip
    for figure, words in (
        (draw_learning(curves, scores), "good: 0.505 at the end"),
        (draw_leads(curves, "base", scores), "good: +0.005 at the end"),
    ):
        assert words in [t.get_text() for t in figure.axes[0].get_legend().get_texts()]


def test_names_are_drawn_as_they_are_and_a_single_point_is_seen():
    """matplotlib takes $...$ for mathematics, and leaves _a out of a legend."""
    base, system = r"_b$\q$", r"$\frac$"
    report = found(base=f"{base}=runs/base-*/one.out", system=f"{system}=runs/good-*/one.out")
    points = {base: (20.0, 21.0), system: (22.0, 22.5)}
    curves = {s: [Curves(valid={"bleu": [(9, v)]}) for v in found] for s, found in points.items()}
    scores = {"bleu": ("BLEU", 2)}
    learning, leads = draw_learning(curves, scores), draw_leads(curves, base, scores)
    for figure in (_runs(report), _differences(report), learning, leads):
        figure.draw_without_rendering()  # which parses what is mathematics
    for figure, words in (
        (learning, [f"{base}: 20.50 at the end", f"{system}: 22.25 at the end"]),
        (leads, [f"{system}: +1.75 at the end"]),
    ):
        legend = figure.axes[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == words
        assert {line.get_marker() for line in legend.get_lines()} == {"o"}
        assert figure._suptitle.get_window_extent().width <= figure.bbox.width


def test_a_reader_who_leaves_gets_the_pictures(monkeypatch):
    def leave(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", leave)
    with pytest.raises((BrokenPipeError, SystemExit)):
        run_verb("compare", "--ref=one.de", "--baseline=runs/base-*/one.out", "--samples=100",
                 "--system=runs/good-*/one.out", "--metrics=bleu", "--plots=drawn")  # fmt: skip
    assert Path("drawn/runs.png").is_file()
