"""Table 6 from folders of runs."""

import pytest

from selfattn.errors import UserError
from selfattn_tasks.translation.metrics import Score
from wmt14.bleu import FLAVOURS
from wmt14.runs import Run, load, save
from wmt14.table6 import NOT_RUN, collect, signatures, table


@pytest.fixture
def run(tmp_path):
    def make(name, attention, seed, bleu, setup=1, departures=(), checkpoint="last"):
        scores = {flavour: Score(bleu + i, f"s{i}") for i, flavour in enumerate(FLAVOURS)}
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        made = Run(checkpoint, setup, attention, seed, 250_000, 61_000_000 + len(attention),
                   departures, scores)  # fmt: skip
        save(folder, made)
        return folder, made

    return make


def cells(text, *beginning):
    """The cells of the row that begins so."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    (row,) = [row for row in rows if tuple(row[: len(beginning)]) == beginning]
    return row[len(beginning) :]


def test_means_over_seeds_beside_the_published_numbers(run):
    folders = [run(f"m{seed}", "mtsa", seed, 24.0 + seed / 10)[0] for seed in (1, 2, 3)]
    folders.append(run("h1", "multihead", 1, 26.5, setup=2)[0])
    run("h1", "multihead", 1, 26.9, setup=2, checkpoint="average16")
    taken, notes = collect(folders)
    assert not notes and len(taken) == 5
    text = table(taken)
    assert cells(text, "`multihead`, *published*") == ["?", "?", "61.38M", "23.64", "26.98"]
    assert cells(text, "`mtsa`, *published*") == ["?", "?", "61.58M", "24.09", "27.21"]
    ours = cells(text, "`mtsa`, ours", "last", "get_ende_bleu.sh")
    assert ours == ["61,000,004", "24.20 ± 0.10 (3 runs)", NOT_RUN]
    assert cells(text, "`multihead`, ours", "last", "sacrebleu")[1:] == [NOT_RUN, "29.50 (1 run)"]
    assert cells(text, "`multihead`, ours", "average16", "get_ende_bleu.sh")[2] == "26.90 (1 run)"
    assert signatures(taken)[0] == "get_ende_bleu.sh: s0"


def test_without_runs_everything_of_ours_says_so():
    text = table([])
    for attention in ("multihead", "mtsa"):
        for flavour in FLAVOURS:
            assert cells(text, f"`{attention}`, ours", "last", flavour) == [NOT_RUN] * 3


def test_other_settings_are_left_out_and_named(run):
    folder, _ = run("tiny", "mtsa", 1, 20.0, departures=("dropout is 0.3, published 0.1",))
    other, _ = run("other", "mtsa", 1, 20.0, setup=None)
    taken, notes = collect([folder, other])
    assert not taken
    assert "left out" in notes[0] and "dropout is 0.3, published 0.1" in notes[0]
    assert "its warm-up is neither setup's" in notes[1]
    taken, notes = collect([folder], any_settings=True)
    assert len(taken) == 1 and "not as published" in notes[0]


def test_twins_and_bad_files_are_refused(run, tmp_path):
    folders = [run(name, "mtsa", 1, 24.0)[0] for name in ("one", "two")]
    with pytest.raises(UserError, match="one and .*two are both mtsa in Setup 1 with seed 1"):
        collect(folders)
    with pytest.raises(UserError, match=r"holds no scores\.json: run evaluate\.sh"):
        collect([tmp_path])
    (folders[0] / "scores.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        load(folders[0])


def test_what_is_saved_is_what_is_loaded(run):
    folder, made = run("one", "mtsa", 1, 24.0, departures=("a", "b"))
    assert load(folder) == [made]


def test_scores_noted_under_the_old_name(run):
    folder, made = run("one", "mtsa", 1, 24.0)
    noted = (folder / "scores.json").read_text()
    (folder / "scores.json").write_text(noted.replace("compound_split_bleu.sh", "compound-split"))
    assert load(folder) == [made]
