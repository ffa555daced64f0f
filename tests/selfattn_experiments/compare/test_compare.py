"""Whole comparisons on sentences made up here: what is refused, warned about and found."""

import itertools
import json
import re
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_experiments.compare.compare import Request, compare
from selfattn_experiments.compare.rendering.files import render, to_markdown
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import name_systems, name_test_sets
from selfattn_tasks.folder import digest_of, sha256_of
from tests.selfattn_experiments.compare.made_up import LINES, found, translations

sacrebleu = pytest.importorskip("sacrebleu")
pytest.importorskip("scipy")
pytestmark = pytest.mark.usefixtures("folder")


def test_runs_are_matched_by_seed_and_scored_in_corpus_order():
    report = found()
    assert [run.seed for run in report.runs] == ["1", "2", "3"] * 2
    expected = sacrebleu.corpus_bleu(translations("base2", 0.4), [LINES]).score
    assert report.runs[1].scores["BLEU"] == pytest.approx(expected, rel=1e-12)
    (comparison,) = report.comparisons
    assert (comparison.verdict, comparison.pairs) == ("better", 3)
    assert comparison.permutation.p == comparison.permutation.smallest == 0.1
    assert report.warnings == []
    back = found(base="runs/good-*/one.out", system="runs/base-*/one.out").comparisons[0]
    assert back.verdict == "worse" and back.welch.p == pytest.approx(comparison.welch.p)
    # The numbers do not depend on what else is compared.
    assert found().comparisons == report.comparisons


def test_no_number_depends_on_the_other_systems():
    """Partners of a side with fewer runs are drawn, for each system alike."""
    for seed in (1, 2):
        path = Path(f"runs/poor-{seed}/one.out")
        path.parent.mkdir()
        path.write_text("".join(f"{s}\n" for s in translations(f"poor{seed}", 0.4)), "utf-8")
    base, good, poor = "runs/base-*/one.out", "runs/good-[12]/one.out", "runs/poor-*/one.out"

    def of_poor(*systems):
        request = Request(
            name_systems(systems), name_test_sets(["one.de"]), "auto", ["bleu"],
            Settings("", (), samples=200),
        )  # fmt: skip
        return compare(request).comparisons[-1]

    alone, second = of_poor(base, poor), of_poor(base, good, poor)
    assert second.runs == (3, 2) and second.system == "poor"
    assert second.sentence == alone.sentence and second.both_levels == alone.both_levels


def test_a_system_against_itself():
    report = found(system="runs/base-*/one.out")
    (comparison,) = report.comparisons
    assert (comparison.baseline, comparison.system) == ("base", "base (2)")
    assert comparison.welch.p == comparison.paired.p == comparison.permutation.p == 1
    assert comparison.sentence.bootstrap_p == comparison.sentence.randomisation_p == 1
    assert comparison.both_levels.p == 1 and comparison.order.violation == 0.5
    assert comparison.equivalence is None
    assert (comparison.verdict, comparison.p_holm, comparison.effect.g) == ("no evidence", 1, 0)


def test_one_run_is_never_called_better():
    report = found(base="runs/base-1/one.out", system="runs/good-1/one.out")
    (comparison,) = report.comparisons
    assert comparison.verdict == "undecided" and comparison.welch is None
    assert comparison.both_levels is comparison.order is None
    assert comparison.sentence.bootstrap_p < 0.05
    assert "one run on a side cannot tell the system from its seed" in comparison.words
    text = render(report, 80)
    assert "UNDECIDED" in text and "Tests over sentences" in text
    assert "Welch's test over runs" not in text and "permutation" not in text


def test_the_primary_metric_alone_has_a_verdict():
    several = ("ter", "chrf", "bleu")
    report = found(metrics=several)
    assert [c.metric for c in report.comparisons] == ["BLEU", "chrF", "TER"]
    assert [c.verdict for c in report.comparisons] == ["better", "secondary", "secondary"]
    bleu, chrf, ter = report.comparisons
    # Alone in its family, BLEU is not corrected; the others are for two tests.
    assert bleu.p_holm == bleu.welch.p and bleu.simultaneous == bleu.welch.interval
    assert min(chrf.p_holm / chrf.welch.p, ter.p_holm / ter.welch.p) >= 1
    assert max(chrf.p_holm / chrf.welch.p, ter.p_holm / ter.welch.p) == pytest.approx(2)
    assert chrf.simultaneous[0] < chrf.welch.interval[0] < chrf.welch.interval[1]
    assert found().comparisons == [bleu]
    text = render(report, 100)
    assert "  BLEU  BETTER        +" in text and "  chrF  secondary     +" in text
    other = found(metrics=several, primary="TER")
    assert [(c.metric, c.primary) for c in other.comparisons] == [
        ("TER", True), ("BLEU", False), ("chrF", False),
    ]  # fmt: skip
    assert found(metrics=["ter", "chrf"]).settings.primary == "chrF"
    for primary, words in (("ter", "is ter, which --metrics leaves out"), ("f1", "one of bleu")):
        with pytest.raises(UserError, match=f"--primary .*{words}"):
            found(metrics=["bleu", "chrf"], primary=primary)


def test_equivalent_only_below_a_relevant_difference(folder):
    for seed in (1, 2, 3):
        run = folder / f"runs/alike-{seed}"
        run.mkdir()
        lines = "".join(f"{line}\n" for line in translations(f"alike{seed}", 0.4))
        (run / "one.out").write_text(lines, "utf-8")
    alike = {"system": "runs/alike-*/one.out"}
    (near,) = found(**alike, relevant=60).comparisons
    assert near.verdict == "equivalent" and near.equivalence_holm < 0.05
    (far,) = found(**alike, relevant=0.5).comparisons
    assert far.verdict == "undecided" and far.welch.p == near.welch.p
    # Different, and by less than 500 points.
    (both,) = found(relevant=500).comparisons
    assert both.verdict == "better" and "yet less than 500" in both.words


def test_runs_added_after_a_look_mark_the_report():
    report = found(looked_after=(2,))
    assert "the results had been seen at 2 runs per system" in report.warnings[0]
    assert "nominal" in report.comparisons[0].words
    assert report.comparisons[0].welch == found().comparisons[0].welch
    with pytest.raises(UserError, match="--looked-after is 3, but no system has more than 3 runs"):
        found(looked_after=(3,))


def edit(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def shift_targets(path):
    text = path.read_text("utf-8")
    path.write_text(re.sub(r"^T-(\d+)\t.*", r"T-\1\tganz anderer Text", text, flags=re.M), "utf-8")


REFUSED = {
    "subwords": (lambda f: edit(f / "runs/good-2/one.out", " ", " ▁"), {}, "the subword mark '▁'"),
    "bpe": (lambda f: edit(f / "runs/good-2/one.out", " ", "@@ "), {}, "--remove-bpe subword_nmt"),
    "unfinished": (
        lambda f: edit(f / "runs/base-2/one.out", "D-7\t", "X-7\t"),
        {},
        "runs/base-2/one.out: the output of fairseq-generate has 35 translations of 36",
    ),
    "lengths": (
        lambda f: None,
        {"ref": "short.de"},
        "base-1/one.out: the output of fairseq-generate has 36 translations, but the corpus has 9",
    ),
    "references": (
        lambda f: shift_targets(f / "runs/base-3/one.out"),
        {},
        "runs/base-3/one.out was generated for other references: of the 36 that it holds, 0",
    ),
    "translations as references": (
        lambda f: None,
        {"ref": "runs/base-1/one.out"},
        "base-1/one.out is the output of fairseq-generate, but references are plain text with one",
    ),
    "identical": (
        lambda f: (f / "runs/good-3/one.out").write_bytes((f / "runs/good-1/one.out").read_bytes()),
        {},
        "runs/good-1/one.out and runs/good-3/one.out hold the same output, so they are one run",
    ),
    "nothing": (lambda f: None, {"system": "runs/none-*/one.out"}, "no file matches 'runs/none-*"),
    "systems": (
        lambda f: [
            (f / f"runs/{n}-1/run.json").write_text(json.dumps({"system": n, "seed": 1}))
            for n in ("base", "good")
        ],
        {"system": "runs/*-[1-3]/one.out"},
        "matches runs of several systems: base, good",
    ),
    "case of roles": (
        lambda f: (f / "gold.conll").write_text("We - (A0*)\npoured pour (V*)\n\n"),
        {"ref": "gold.conll", "metrics": (), "lowercase": True},
        "--lowercase is for translations, but --ref holds propositions",
    ),
}


def test_two_seeds_may_give_one_output(folder):
    """If records state them; numbers in a path are no proof, and a link is one file."""
    one, three = (folder / f"runs/good-{seed}" for seed in (1, 3))
    (three / "one.out").write_bytes((one / "one.out").read_bytes())
    for seed in (1, 2, 3):
        note = json.dumps({"system": "good", "seed": seed})
        (folder / f"runs/good-{seed}/run.json").write_text(note)
    report = found()
    (doubt,) = (text for text in report.warnings if "hold the same output" in text)
    assert doubt.endswith(
        "good-3/one.out hold the same output, though they state the seeds 1 and 3"
    )
    assert report.comparisons[0].verdict == "better"
    itself = found(base="runs/good-*/one.out").warnings
    assert sum("hold the same output" in text for text in itself) == 2  # one a system
    (three / "one.out").unlink()
    (three / "one.out").symlink_to(one / "one.out")
    with pytest.raises(UserError, match="so they are one run"):
        found()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(folder, name):
    spoil, arguments, words = REFUSED[name]
    spoil(folder)
    with pytest.raises(UserError) as caught:
        found(**arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_warnings_come_with_their_reason(folder):
    runs = folder / "runs"
    (runs / "base-4").mkdir()
    (runs / "base-1/train.log").write_text("2026 | INFO | train | still training\n")
    (runs / "base-1/config.json").write_text('{"model_type": "selfattn"}')
    begun = {"task": "translation", "seed": 2, "flags": {}}
    (runs / "base-2/config.json").write_text(json.dumps(begun))
    (runs / "base-3/run.json").write_text(
        '{"bleu": "nrefs:1|case:lc|eff:no|tok:intl|smooth:exp|version:2.6.0", '
        '"chrf": "nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no|version:2.6.0"}'
    )
    tokenised = (runs / "good-1/one.out").read_text("utf-8").replace(".", " .").lower()
    (runs / "good-1/one.out").write_text("\n" + tokenised.partition("\n")[2], "utf-8")
    text = "\n".join(found(system="runs/good-[12]/one.out").warnings)
    for words in (
        "base: 1 of 4 runs have no one.out, failed or unfinished, and are left out: runs/base-4",
        "base: runs/base-1/train.log does not say that training finished",
        "base: runs/base-2 has a config.json, but no run.json",
        "runs/base-3 records scores with the signature nrefs:1|case:lc|eff:no|tok:intl|",
        "good: 2 runs; fewer than 3 say next to nothing",
        "good: runs/good-1/one.out: 1 of 36 translations are empty",
        "of the translations end in ' .'",
        "no translation has a capital letter",
    ):
        assert words in text
    assert "nc:6" not in text  # chrF is not compared here
    assert "runs/base-1 has a config.json" not in text


def test_a_bar_in_a_path_does_not_end_a_cell(folder):
    (folder / "runs").rename(folder / "a|b")
    text = to_markdown(found(base="a|b/base-*/one.out", system="a|b/good-*/one.out"))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == 7 and rows[1].startswith(r"| `a\|b/base-1/one.out` | `")
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)


def test_a_run_that_lacks_a_test_set_is_missed(folder):
    for name, seed, test in itertools.product(("base", "good"), (1, 2, 3), ("one", "two")):
        if (seed, test) != (3, "two"):
            output = (folder / f"runs/{name}-{seed}/one.out").read_bytes()
            (folder / f"{name}.{seed}.{test}.txt").write_bytes(output)
    request = Request(
        name_systems(["base.*.{test}.txt", "good.*.{test}.txt"]),
        name_test_sets(["one=one.de", "two=one.de"]), "auto", ["bleu"],
        Settings("", (), samples=100, looked_after=(2,)),
    )  # fmt: skip
    assert "good: 2 runs on two, but 3 on one; those that are missing there are left out" in (
        compare(request).warnings
    )


def test_folders_inside_of_runs_are_no_failed_runs(folder):
    for seed in (1, 4):
        (folder / f"runs/base-{seed}/checkpoints").mkdir(parents=True)
    assert found(base="runs/good-*/**/one.out", system="runs/base-[1-3]/**/one.out").warnings == []
    (warning,) = found(base="runs/good-*/one.out", system="base=**/base-*/**/one.out").warnings
    assert "base: 1 of 4 runs have no one.out" in warning and warning.endswith(": runs/base-4")


def test_a_run_that_failed_before_it_had_any_output_is_missed(folder):
    for seed in (1, 2, 3):
        out = folder / f"runs/base-{seed}/out"
        out.mkdir()
        (out.parent / "one.out").rename(out / "one.out")
    (folder / "runs/base-4").mkdir()
    (warning,) = found(base="runs/base-*/out/one.out").warnings
    assert "base: 1 of 4 runs have no one.out" in warning and warning.endswith(": runs/base-4")


@pytest.mark.parametrize("content", [{"attempts": 3}, {"seed": None}, {"protocol": 1, "seed": 2}])
def test_a_run_json_of_another_program_is_no_record(folder, content):
    for seed in (1, 2, 3):
        (folder / f"runs/base-{seed}/run.json").write_text(json.dumps(content))
    report = found()
    assert [run.seed for run in report.runs[:3]] == ["1", "2", "3"] and report.warnings == []


@pytest.mark.parametrize(
    "attempts", [3, [3], [{"step": "train", "versions": {}}], [{"step": "train", "versions": None}]]
)
def test_a_record_that_was_edited_tells_no_origin(folder, attempts):
    for seed in (1, 2, 3):
        record = {"system": "base", "seed": seed, "attempts": attempts, "commits": seed}
        (folder / f"runs/base-{seed}/run.json").write_text(json.dumps(record))
    assert found().warnings == []


def test_a_record_without_a_seed_leaves_it_to_the_path(folder):
    for seed in (1, 2, 3):
        record = {"system": "base", "seed": None, "protocol": None}
        (folder / f"runs/base-{seed}/run.json").write_text(json.dumps(record))
    report = found()
    assert [run.seed for run in report.runs[:3]] == ["1", "2", "3"] and report.warnings == []


def test_references_that_are_not_those_of_the_runs_are_warned_about(folder):
    for seed, tested in ((1, sha256_of(folder / "one.de")), (2, "another"), (3, "another")):
        record = {"system": "base", "seed": seed, "test": {"tests": {"one": tested}}}
        (folder / f"runs/base-{seed}/run.json").write_text(json.dumps(record))
    (warning,) = found().warnings
    assert "is not what 2 runs were tested with, as their records say" in warning
    assert "runs/base-2" in warning
    for seed in (2, 3):  # the same references in a file of another format
        path = folder / f"runs/base-{seed}/run.json"
        gold = {"one": digest_of((folder / "one.de").read_text().splitlines())}
        path.write_text(json.dumps(json.loads(path.read_text()) | {"gold": gold}))
    assert found().warnings == []


def test_a_seed_above_all_runs_is_none_of_theirs(folder):
    (folder / "runs").rename(folder / "seed42-study")
    report = found(base="seed42-study/base-*/one.out", system="seed42-study/good-*/one.out")
    assert [run.seed for run in report.runs[:3]] == ["1", "2", "3"]
    assert not any("share seeds" in warning for warning in report.warnings)


def test_a_seed_is_a_number(folder):
    for seed in (1, 2, 3):
        (folder / f"runs/good-{seed}").rename(folder / f"runs/good-seed0{seed}")
    assert found().comparisons[0].pairs == 3


def test_a_second_run_with_one_seed_is_warned_about(folder):
    for number, seed in ((1, 5), (2, 5), (3, 6)):
        log = f"{{'seed': {seed}}}\ndone training in 1 seconds\n"
        (folder / f"runs/base-{number}/train.log").write_text(log)
    report = found()
    assert [run.seed for run in report.runs[:3]] == ["5", "5", "6"]
    assert any("3 runs share seeds (5 more than once)" in w for w in report.warnings)
    assert report.comparisons[0].paired is None
