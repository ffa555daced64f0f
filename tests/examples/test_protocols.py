"""The grids of both protocols, and the shell script that keeps their runs."""

import gzip
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("yaml")

from selfattn.errors import UserError
from selfattn_experiments.runs.flags import parse
from selfattn_experiments.runs.keys import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# What tuning may choose for a system; everything else is its attention, or the same for all.
TUNED = {
    "multi30k_en_de": {"--lr"},
    "srl_ewt": {
        "--lr", "--timing-signal", "--no-timing-signal", "--no-scale-embedding", "--initialiser",
        "--embedding-dropout",
    },
}  # fmt: skip
ATTENTION = {"--arch", "--encoder-attention", "--multihead-masks"}
ATTENTION |= {"--mtsa-preset", "--mtsa-masks", "--mtsa-distance"}


def flags_of(entry):
    return parse((entry["flags"] if isinstance(entry, dict) else entry).split(), "a test")


@pytest.mark.parametrize("name", TUNED)
def test_every_system_is_tuned_with_as_many_settings_and_differs_in_nothing_else(name):
    tuning, evidence = (load(EXAMPLES / name / f"{f}.yaml") for f in ("tuning", "evidence"))
    assert tuning["seeds"] == [1000]
    tried = dict.fromkeys(evidence["systems"], 0)
    for setting, entry in tuning["systems"].items():
        system = setting.rpartition("-")[0]
        if system != "dropout":
            tried[system] += 1
            own = {k: v for k, v in flags_of(entry).items() if k in ATTENTION}
            final = flags_of(evidence["systems"][system])
            assert own == {k: v for k, v in final.items() if k in ATTENTION}
    assert set(tried.values()) == {4}
    for entry in evidence["systems"].values():
        assert flags_of(entry).keys() <= ATTENTION | TUNED[name]
        assert entry["seeds"] == list(range(1, len(entry["seeds"]) + 1))


def test_the_later_runs_differ_from_the_comparison_in_their_attention_alone():
    later, first = (load(EXAMPLES / f"multi30k_en_de/{f}.yaml") for f in ("ablation", "evidence"))
    own = {"systems", "seeds", "output"}
    assert {k: v for k, v in later.items() if k not in own} == {
        k: v for k, v in first.items() if k not in own
    }
    rates = [flags_of(entry)["--lr"] for entry in first["systems"].values()]
    for entry in later["systems"].values():
        flags = flags_of(entry)
        assert [flags.pop("--lr")] * len(rates) == rates
        assert flags.keys() <= ATTENTION | {"--multihead-positions", "--mtsa-scores"}


def test_later_taggers_differ_from_multihead_with_masks_in_their_attention_alone():
    def apart_from_attention(grid, system):
        entry = grid["systems"][system]
        flags = flags_of(f"{grid['common']} {entry['flags'] if isinstance(entry, dict) else entry}")
        own = ATTENTION | {"--multihead-distance", "--multihead-positions", "--mtsa-scores"}
        return {name: value for name, value in flags.items() if name not in own}

    names = ("evidence", "distance", "positions", "source2token")
    grids = [load(EXAMPLES / f"srl_ewt/{name}.yaml") for name in names]
    wanted = apart_from_attention(grids[0], "multihead-masks")
    for grid in grids[1:]:
        assert grid["data"] == grids[0]["data"] and grid["predict"] == grids[0]["predict"]
        for system in grid["systems"]:
            assert apart_from_attention(grid, system) == wanted


@pytest.mark.parametrize("name", TUNED)
def test_no_setting_is_chosen_on_a_test_set(name):
    tuning = load(EXAMPLES / name / "tuning.yaml")
    assert not any("test" in part for part in tuning.get("references", tuning.get("gold")))


def test_finished_runs_are_kept_without_paths_and_put_back(tmp_path):
    script, tmp_path = EXAMPLES / "evidence.sh", tmp_path / "c#+[b"  # not for a pattern of sed
    done, half = tmp_path / "runs" / "a-1", tmp_path / "runs" / "a-2"
    for run in (done, half):
        (run / "checkpoints").mkdir(parents=True)
        for file in ("config.json", "trained.json", "attempts.json", "train.log"):
            (run / file).write_text(f"{EXAMPLES.parent}/plugin {tmp_path}/runs")
        (run / "test.hyp").write_text(f"{EXAMPLES.parent}/plugin")
    (done / "run.json").write_text("{}")

    def call(*words):
        subprocess.run([script, *words], cwd=tmp_path, check=True, capture_output=True)

    call("save", "runs", "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["a-1"]
    kept = tmp_path / "kept" / "a-1"
    assert (kept / "train.log").read_text() == "plugin runs"
    assert gzip.decompress((kept / "test.hyp.gz").read_bytes()) == (done / "test.hyp").read_bytes()
    assert not (kept / "checkpoints").exists()
    # What has changed is kept anew, and a run without a log of its own, as one with folds, too.
    (done / "run.json").write_text("{} ")
    (done / "test.tsv").write_text("1\n")
    (done / "train.log").unlink()
    call("save", "runs", "kept")
    assert (kept / "run.json").read_text() == "{} " and (kept / "test.tsv.gz").is_file()
    # Predictions that a finished run got later, as published.sh makes them, are kept, too.
    (done / "test.published.props").write_text("-\n")
    call("save", "runs", "kept")
    assert (kept / "test.published.props.gz").is_file()
    (tmp_path / "kept" / "summary.csv").write_text("kept")
    call("restore", "again", "kept")
    (tmp_path / "again" / "a-1" / "run.json").write_text("newer")
    (tmp_path / "again" / "summary.csv").write_text("newer")
    call("restore", "again", "kept")
    assert (tmp_path / "again" / "summary.csv").read_text() == "newer"
    (tmp_path / "kept" / "summary.csv").unlink()
    assert (tmp_path / "again" / "a-1" / "run.json").read_text() == "newer"
    (tmp_path / "begun" / "a-1").mkdir(parents=True)
    (tmp_path / "begun" / "a-1" / "config.json").write_text("of another run")
    call("restore", "begun", "kept")
    assert [path.name for path in (tmp_path / "begun").rglob("*.*")] == ["config.json"]
    with pytest.raises(subprocess.CalledProcessError):
        call("save", "typo", "kept")
    assert {path.name for path in (tmp_path / "again" / "a-1").iterdir()} == {
        path.name.removesuffix(".gz") for path in kept.iterdir()
    }
    for name in ("test.hyp", "test.published.props"):
        assert (tmp_path / "again" / "a-1" / name).read_bytes() == (done / name).read_bytes()


def test_simulated_verdicts_are_those_of_the_comparison(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.syspath_prepend(EXAMPLES / "significance")
    from verdicts import main, verdicts

    from selfattn_experiments.compare import run_level

    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 5)), rng.normal(size=(40, 4)) * 0.3 + rng.normal(size=(40, 1))
    different, same = verdicts(x, y, margin=2.0, level=0.05)
    assert 0 < different.sum() < 40 and same.any()
    for row in range(40):
        p, q = run_level.welch(x[row], y[row]).p, run_level.equivalence(x[row], y[row], 2.0)
        assert different[row] == (p < 0.05) and same[row] == (p >= 0.05 and q < 0.05)
    for flag, value in (("--comparisons", "0"), ("--margin", "nan")):
        monkeypatch.setattr("sys.argv", f"v --runs 4:4 --spreads 1:1 {flag} {value}".split())
        with pytest.raises(UserError, match=f"{flag} is {value}"):
            main()


def test_effects_of_a_factorial_design(monkeypatch, run_cli, tmp_path):
    """Of two cells the contrast is Welch's; the report's own numbers; no runs, no effect."""
    pytest.importorskip("scipy")
    monkeypatch.syspath_prepend(EXAMPLES / "significance")
    from factorial import contrast

    from selfattn_experiments.compare import run_level

    cells = [[1.0, 2.0, 4.0], [5.0, 5.5, 9.0, 9.5], [7.0, 8.0], [1.0, 3.0]]
    effect, low, high = contrast(cells, (-1, 1, 0, 0))
    assert effect == pytest.approx(7.25 - 7 / 3)
    assert (low, high) == pytest.approx(run_level.welch(cells[0], cells[1]).interval)
    assert contrast(cells, (1, -1, -1, 1))[0] == pytest.approx(7 / 3 - 7.25 - 7.5 + 2)
    with pytest.raises(UserError, match="score alike"):
        contrast([[0.1] * 3, [0.3] * 3], (1, -1))
    reports = [EXAMPLES / f"multi30k_en_de/report/short/{n}.csv" for n in ("primary", "secondary")]
    cells = ["multihead", "multihead-masks", "mtsa-nomasks", "mtsa"]
    command = [EXAMPLES / "significance/factorial.py", *reports, "--cells", *cells, "--factors",
               "masks", "scores"]  # fmt: skip
    done = run_cli(command).ok()
    readme = (EXAMPLES / "multi30k_en_de/README.md").read_text()
    assert done.stdout.strip() and all(line in readme for line in done.stdout.splitlines()[2:])
    again = tmp_path / "again.csv"
    again.write_text(reports[0].read_text().replace(",score,", ",score,1", 1))
    command[2:3] = [reports[1], again]
    assert "has another BLEU of" in run_cli(command).stderr
    first = reports[0].read_text().partition(",score,")
    again.write_text("".join((*first[:2], "nan\n", first[2].partition("\n")[2])))
    assert "again.csv has the BLEU 'nan'" in run_cli(command).stderr
    again.write_text(reports[0].read_text().replace(",mtsa,,11,", ",mtsa,,,", 1))
    assert "again.csv does not tell the seed of" in run_cli(command).stderr
    command[2:4] = reports[1:]
    command[-4] = "mtsa-nomasks"
    assert "but must name four different systems" in run_cli(command).stderr
    command[-4] = "none"
    assert "none has 0 runs with BLEU in " in run_cli(command).stderr
    for bad, words in (("README.md", "is no report: give what"), ("rates.png", "only UTF-8 text")):
        command[1] = EXAMPLES / "significance" / bad
        assert f"factorial.py: error: {command[1]}" in (said := run_cli(command).stderr)
        assert words in said


def test_effects_are_those_that_the_page_shows(run_cli, tmp_path):
    """The committed reports give the page's table; a mistake in the file is named."""
    script, file = (EXAMPLES / f"significance/effects.{ending}" for ending in ("py", "yaml"))
    done = run_cli([script, file, "--plot", tmp_path / "effects.png"]).ok()
    page = (EXAMPLES.parent / "docs/evidence.md").read_text()
    assert done.stdout.strip() in page
    assert (tmp_path / "effects.png").read_bytes().startswith(b"\x89PNG")
    for old, new, words in (
        ("of: [mtsa, multihead-masks]", "of: [mtsa, mtsa]", "be of two systems"),
        ("of: [mtsa, multihead-masks]", "of: [mtsa, none]", "none has 0 runs with BLEU in "),
        ("masks, in MTSA: {of", "masks in MTSA: {of", "'masks in MTSA' is not among the rows"),
        ("metric: BLEU", "metrics: BLEU", "lacks a key, or one is of the wrong kind: 'metric'"),
    ):
        wrong = file.read_text().replace("../", f"{EXAMPLES}/").replace(old, new, 1)
        (tmp_path / "wrong.yaml").write_text(wrong)
        assert words in run_cli([script, tmp_path / "wrong.yaml"]).stderr
    assert "must end in .png, .svg, .pdf" in run_cli([script, file, "--plot", "x.bad"]).stderr


def test_convergence_of_the_committed_runs(run_cli, tmp_path):
    """Each run and each mean; nothing of the short regime has converged; wrong folders."""
    runs, raw = tmp_path / "runs", tmp_path / "raw.de"
    kept = EXAMPLES / "multi30k_en_de/evidence/short"
    restored = subprocess.run([EXAMPLES / "evidence.sh", "restore", runs, kept], check=True)
    assert restored.returncode == 0
    shutil.copy(runs / "mtsa-11/test.hyp", raw)  # no corpus is at hand: a run against itself
    script = EXAMPLES / "multi30k_en_de/convergence.py"
    done = run_cli([script, runs, "--reference", raw]).ok()
    assert "| mtsa-11 | 12.55 | 19.09 | 29.37 | 31.52 | 33.91 | 35.01 |  |" in done.stdout
    assert "| 31.18 | 33.78 | 34.71 | +11.47 (+9.13 to +13.81): not conv" in done.stdout
    assert done.stdout.count(": not converged |") == 4
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| mtsa |")]
    assert row.split(" | ")[2] == "100.00"  # run 1, against itself
    raw.write_text("a b\n" * 999)
    done = run_cli([script, runs, "--reference", raw])
    assert "has 1000 translations; it must have 999" in done.stderr
    assert "has no finished runs" in run_cli([script, tmp_path]).stderr
