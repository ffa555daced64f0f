"""Both log formats of fairseq-train, a resumed log, and pictures of them."""

import pytest

from selfattn.errors import UserError
from selfattn_experiments.report import Curves, parse_line, plot, read_curves
from selfattn_experiments.report.curves import _draw_loss
from selfattn_experiments.report.figures import new_figure
from selfattn_tasks.registry import TASKS

JSON_LOG = """\
2026-01-31 12:00:00 | INFO | fairseq_cli.train | {'_name': None}
2026-01-31 12:00:01 | INFO | train_inner | {"epoch": 1, "update": 0.3, "loss": "9.5", "nll_loss": "9.4", "num_updates": "10"}
2026-01-31 12:00:02 | INFO | train_inner | {"epoch": 1, "update": 0.6, "loss": "8.25", "nll_loss": "8.1", "num_updates": "20"}
2026-01-31 12:00:03 | INFO | valid | {"epoch": 1, "valid_loss": "8.5", "valid_nll_loss": "7.5", "valid_bleu": "1.5", "valid_num_updates": "20"}
2026-01-31 12:00:03 | INFO | train | {"epoch": 1, "train_loss": "9.1", "train_nll_loss": "8.1", "train_num_updates": "20"}
"""  # noqa: E501
SIMPLE_LOG = """\
2026-01-31 12:00:01 | INFO | train_inner | epoch 001:     10 / 30 loss=9.5, ppl=30.2, num_updates=10, lr=1e-05
2026-01-31 12:00:02 | INFO | train_inner | epoch 001:     20 / 30 loss=8.25, ppl=20.2, num_updates=20, lr=2e-05
2026-01-31 12:00:03 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.5 | bleu 1.5 | num_updates 20
2026-01-31 12:00:03 | INFO | train | epoch 001 | loss 9.1 | num_updates 20
"""  # noqa: E501

FIRST_AND_SECOND = [("dev-2016", "8.5"), ("valid", "6.0")]


def bare(log):
    """The same messages as fairseq's --log-file has them."""
    return "".join(line.split(" | ", 3)[3] for line in log.splitlines(keepends=True))


@pytest.mark.parametrize(
    "text",
    [JSON_LOG, SIMPLE_LOG, bare(JSON_LOG), bare(SIMPLE_LOG)],
    ids=["json", "simple", "json --log-file", "simple --log-file"],
)
def test_both_formats_say_the_same(tmp_path, text):
    log = tmp_path / "train.log"
    log.write_text(text)
    curves = read_curves(log)
    assert curves.train_loss == [(10, 9.5), (20, 8.25)]
    assert curves.valid["loss"] == [(20, 8.5)]
    assert curves.valid["bleu"] == [(20, 1.5)]


@pytest.mark.parametrize("form", [str, bare], ids=["output", "--log-file"])
@pytest.mark.parametrize("text", [JSON_LOG, SIMPLE_LOG], ids=["json", "simple"])
def test_a_validation_set_may_have_any_name_and_the_first_of_several_counts(tmp_path, text, form):
    *others, valid, train = text.splitlines(keepends=True)
    sets = (valid.replace("valid", name).replace("8.5", loss) for name, loss in FIRST_AND_SECOND)
    log = tmp_path / "train.log"
    log.write_text(form("".join([*others, *sets, train])))
    curves = read_curves(log)
    assert (curves.subset, curves.valid["loss"]) == ("dev-2016", [(20, 8.5)])
    assert curves.train_loss == [(10, 9.5), (20, 8.25)]


def test_a_resumed_log_does_not_run_backwards(tmp_path):
    log = tmp_path / "train.log"
    repeated = JSON_LOG.splitlines(keepends=True)[2:4]
    again = "".join(repeated).replace("8.25", "7.5")
    later = repeated[0].replace('"20"', '"30"').replace("8.25", "7.0")
    log.write_text(JSON_LOG + again + later)
    curves = read_curves(log)
    assert curves.train_loss == [(10, 9.5), (20, 7.5), (30, 7.0)]
    assert curves.valid["bleu"] == [(20, 1.5)]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Traceback (most recent call last):",
        '2026 | INFO | train_inner | {"epoch": 1, "upd',
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.5"}',
        "2026 | INFO | fairseq.trainer | begin training epoch 1",
    ],
)
def test_other_lines_are_no_records(line):
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "there is no log"),
        (lambda p: p.mkdir(), "cannot be read"),
        (lambda p: p.write_text("hello\n"), "is no training log"),
    ],
)
def test_a_log_without_a_training_is_refused(tmp_path, make, words):
    make(tmp_path / "train.log")
    with pytest.raises(UserError, match=words):
        read_curves(tmp_path / "train.log")


def test_a_log_below_a_file_is_refused(tmp_path):
    (tmp_path / "train.log").write_text(JSON_LOG)
    with pytest.raises(UserError, match="cannot be read: Not a directory"):
        read_curves(tmp_path / "train.log" / "train.log")


CURVES = Curves([(10, 9.5), (20, 8.25)], {"loss": [(20, 8.5)], "bleu": [(20, 1.5)]})


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures(tmp_path, ending, start):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"curves.{ending}"
    plot({"one": CURVES, "two": Curves(train_loss=[(5, 9.0)])}, picture, "a title")
    assert picture.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [picture.name]


def test_the_legend_names_the_runs(tmp_path):
    pytest.importorskip("matplotlib")
    several = {"first": CURVES, "second": CURVES, "third": Curves(train_loss=[(5, 9.0)])}
    plot(several, tmp_path / "c.svg", "a title")
    text = (tmp_path / "c.svg").read_text()
    for words in (*several, "loss (thin lines: training)", "updates", "BLEU", "a title"):
        assert words in text
    plot({"alone": CURVES}, tmp_path / "c.svg")
    text = (tmp_path / "c.svg").read_text()
    assert "training" in text and "validation" in text and "thin" not in text


def test_a_single_loss_is_seen():
    pytest.importorskip("matplotlib")
    panel = new_figure(4, 3).subplots()
    _draw_loss(panel, {"one": Curves([(5, 9.0)]), "two": Curves([(5, 9.0), (6, 8.0)])})
    assert [line.get_marker() for line in panel.lines] == ["o", ""]


def test_each_task_s_validation_scores_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    scores = {name: label for task in TASKS.values() for name, label in task.valid_metrics.items()}
    assert {"bleu": "BLEU", "f1": "F1"}.items() <= scores.items()
    for name, label in scores.items():
        curves = Curves(valid={"loss": [(20, 8.5)], name: [(20, 1.5)], "ppl": [(20, 9.0)]})
        plot({"one": curves}, tmp_path / f"{name}.svg")
        text = (tmp_path / f"{name}.svg").read_text()
        assert text.count("of the validation set") == 1
        assert f"{label} of the validation set" in text


def test_models_are_known_by_their_entries_in_a_checkpoint():
    from selfattn_experiments.commands.show import LOOKING
    from selfattn_tasks.sentences.model import state as sentences
    from selfattn_tasks.srl.tagger import state as srl

    assert list(LOOKING) == [srl.KEY, sentences.KEY]


def test_unusable_picture_names_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"must end in \.png, \.svg, \.pdf"):
        plot({"one": CURVES}, tmp_path / "curves.gif")
    with pytest.raises(UserError, match="there is no folder"):
        plot({"one": CURVES}, tmp_path / "missing" / "curves.png")
