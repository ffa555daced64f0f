"""scripts/plot_curves.py as a user runs it."""

import pytest

from selfattn_experiments import report
from selfattn_experiments.report import figures

pytest.importorskip("matplotlib")

LINE = '2026 | INFO | train_inner | {"loss": "9.5", "num_updates": "10"}\n'
CORRELATION = '2026 | INFO | valid | {"valid_pearson": "-0.1234", "valid_num_updates": "10"}\n'


@pytest.fixture
def plot(run_cli, tmp_path):
    for name in ("mtsa", "multihead"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_text(LINE)
    (tmp_path / "cut" / "fold0").mkdir(parents=True)
    (tmp_path / "cut" / "fold0" / "train.log").write_text(LINE + CORRELATION)
    (tmp_path / "other.log").write_text("nothing here\n")
    return lambda *args: run_cli(["scripts/plot_curves.py", *args], cwd=tmp_path)


def test_two_runs_in_one_picture(plot, tmp_path):
    done = plot("mtsa/train.log", "multihead/train.log", "--output", "curves.svg")
    assert (done.returncode, done.stdout) == (0, "wrote curves.svg\n"), done.stderr
    assert (tmp_path / "curves.svg").stat().st_size > 1000


def test_no_two_lines_look_alike():
    styles = figures.lines(21)
    assert len({tuple(style.values()) for style in styles}) == 21
    assert styles[0]["linestyle"] == "-" and styles[7]["color"] == styles[0]["color"]


def test_a_correlation_of_a_fold(plot, tmp_path):
    plot("cut/fold0", "--output", "curves.svg").ok()
    assert "fold0: -0.123 at the end" in (tmp_path / "curves.svg").read_text()


def test_folders_of_one_name_are_told_apart_by_what_is_above_them(plot, tmp_path):
    (tmp_path / "whole" / "fold0").mkdir(parents=True)
    (tmp_path / "whole" / "fold0" / "train.log").write_text(LINE)
    logs = ["cut/fold0/train.log", "whole/fold0/train.log"]
    plot(*logs, "--output", "curves.svg").ok()
    picture = (tmp_path / "curves.svg").read_text()
    assert all(f">{log}<" in picture for log in logs)


def test_names_are_written_as_they_are(plot, tmp_path):
    words = ["mtsa", "multihead", "--names", "_a", "b$1$", "--title", "$_x$", "--output", "c.svg"]
    plot(*words).ok()
    picture = (tmp_path / "c.svg").read_text()
    assert all(f">{name}<" in picture for name in ("_a", "b$1$", "$_x$"))


@pytest.mark.parametrize("name", ["curves.svg", "curves.SVG", "curves.pdf", "curves.png"])
def test_the_same_numbers_give_the_same_file(tmp_path, monkeypatch, name):
    log = tmp_path / "train.log"
    log.write_text(LINE)
    written = []
    for day in ("86400", "172800"):
        # matplotlib's clock.
        monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
        report.plot({"one": report.read_curves(log)}, tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["mtsa/train.log", "missing.log", "--output", "c.png"], "there is no log missing.log"),
        (["cut/train.log", "--output", "c.png"], "one each, such as cut/fold0/train.log"),
        (["other.log", "--output", "c.png"], "other.log is no training log"),
        (["mtsa/train.log", "--output", "c.bmp"], "--output is c.bmp, but must end in .png"),
        (["mtsa/train.log", "--names", "a", "b", "--output", "c.png"], "--names has 2 names"),
        (["mtsa/train.log", "mtsa/train.log", "--output", "c.png"], "a log is given twice"),
        (
            ["mtsa/train.log", "multihead/train.log", "--names", "a", "a", "--output", "c.png"],
            "a name is given twice",
        ),
    ],
)
def test_mistakes_are_one_sentence(plot, tmp_path, args, words):
    done = plot(*args)
    assert done.returncode == 2
    assert done.stderr.startswith("plot_curves.py: error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("*c.*"))
