"""scripts/compare_bleu.py as a user runs it, on sentences made up here."""

import csv
import json
import re
from argparse import Namespace
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_experiments.commands.flags import check_outputs
from tests.selfattn_experiments.compare.conftest import folder as made  # noqa: F401
from tests.selfattn_experiments.compare.made_up import LINES, generated, translations

pytest.importorskip("sacrebleu")
pytest.importorskip("scipy")

VALID = '| INFO | valid | {"valid_loss": "5.%d", "valid_bleu": "%d2.5", "valid_num_updates": "%d"}'


def log_of(seed):
    lines = [
        f"2026 | INFO | fairseq_cli.train | {{'common': {{'seed': {seed}}}}}",
        *(VALID % (seed, seed, update) for update in (10, 20)),
        "2026 | INFO | fairseq_cli.train | done training in 1.0 seconds",
    ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(made):  # noqa: F811
    """A second test set, half as large, and logs of the bad system."""
    half = LINES[: len(LINES) // 2]
    (made / "two.de").write_text("".join(f"{line}\n" for line in half), "utf-8")
    for run in (made / "runs").iterdir():
        name, seed = run.name.split("-")
        out = translations(run.name, {"base": 0.4, "good": 0.05}[name])[: len(half)]
        text = "".join(f"{line}\n" for line in out)
        if name == "base":
            text = generated(out, seed)
            (run / "train.log").write_text(log_of(int(seed)))
        (run / "two.out").write_text(text, "utf-8")
    return made


@pytest.fixture
def compare(run_cli, folder):
    def run(*args, base="runs/base-*/one.out", system="runs/good-*/one.out", ref="one.de", **env):
        start = ["scripts/compare_bleu.py", "--baseline", base, "--system", system, "--ref", ref]
        return run_cli([*start, "--samples", "200", *args], cwd=folder, **{"COLUMNS": "80", **env})

    return run


def test_two_test_sets_and_all_files(compare, folder):
    pytest.importorskip("matplotlib")
    files = "--json r.json --csv r.csv --markdown r.md --latex r.tex --plots pictures".split()
    done = compare(
        "--ref", "two=two.de", "--metrics", "bleu", "ter", *files,
        "--logs", "a_b=runs/base-[23]/train.log",
        base="old=runs/base-*/{test}.out", system="a_b=runs/good-*/{test}.out", ref="one=one.de",
    ).ok()  # fmt: skip
    # Counts are kept for the next time, and no pattern finds them.
    assert len(list(folder.glob("runs/*/.*.counts"))) == 2 * len(list(folder.glob("runs/*/*.out")))
    first = done.stdout.splitlines()
    assert first[0] == "a_b against old on one: 3 and 3 runs, 36 sentences"
    assert first[1].startswith("  BLEU  BETTER        +")
    assert any(line.startswith("  TER   secondary     -") for line in first)
    assert all(len(line) <= 80 for line in first if not line.startswith("wrote"))
    report = json.loads((folder / "r.json").read_text())
    assert len(report["comparisons"]) == 4 and len(report["runs"]) == 12
    assert {r["seed"] for r in report["runs"]} == {"1", "2", "3"}
    found = report["comparisons"][0]
    assert (found["verdict"], found["pairs"], found["permutation"]["p"]) == ("better", 3, 0.1)
    assert found["p_holm"] > found["welch"]["p"]
    check_csv(folder / "r.csv", report)
    check_latex((folder / "r.tex").read_text())
    check_markdown((folder / "r.md").read_text(), report)
    names = sorted(path.name for path in (folder / "pictures").iterdir())
    assert names == [
        f"{name}.{kind}"
        for name in ("curves", "differences", "leads", "runs")
        for kind in ("png", "svg")
    ]
    svg = (folder / "pictures" / "curves.svg").read_text()
    assert "validation BLEU" in svg and "old: 22.50 at the end" in svg
    svg = (folder / "pictures" / "leads.svg").read_text()
    assert "difference from old" in svg and "a_b: +5.00 at the end" in svg


def check_csv(path, report):
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = {(r["file"], r["metric"]): float(r["value"]) for r in rows if r["quantity"] == "score"}
    for run in report["runs"]:
        for metric, score in run["scores"].items():
            assert scores[run["path"], metric] == score
    welch = [float(r["value"]) for r in rows if r["quantity"] == "welch_p"]
    assert welch == [c["welch"]["p"] for c in report["comparisons"]]


def check_latex(text):
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)[1]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 2 * 2
    assert all(row.count("&") == len(columns) - 1 for row in rows)
    table = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert table.count("{") == table.count("}") and r"a\_b" in table
    assert not re.search(r"(?<!\\)[_%#]", table)
    order = ["toprule", "midrule", "midrule", "bottomrule"]
    assert re.findall(r"\\(\w+rule)", table) == order


def check_markdown(text, report):
    for run in [*report["runs"], *report["test_sets"]]:
        assert f"| `{run['path']}` | `{run['sha256']}` |" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_semantic_roles(run_cli, tmp_path):
    gold = "We - (A0*)\npoured pour (V*)\ntea - (A1*)\n\n"
    wrong = gold.replace("(A1*)", "(A2*)")
    (tmp_path / "gold.conll").write_text(gold * 9)
    for seed in (1, 2, 3):
        (tmp_path / f"a{seed}.props").write_text(gold * (3 + seed) + wrong * (6 - seed))
        (tmp_path / f"b{seed}.props").write_text(gold * (seed + 5) + wrong * (4 - seed))
    flags = "--baseline a*.props --system b*.props --ref gold.conll --samples 200 --json r.json"
    flags += " --no-cache"
    run_cli(["scripts/compare_bleu.py", *flags.split()], cwd=tmp_path).ok()
    assert not list(tmp_path.glob(".*"))
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["settings"]["task"] == "srl"
    means = {(s["system"], s["metric"]): s["mean"] for s in report["summaries"]}
    # Of 9 sentences 4, 5 and 6 are whole in a, each other one has one of two arguments right.
    assert means["a", "Comp."] == pytest.approx(100 * 5 / 9)
    assert means["a", "F1"] == pytest.approx(100 * 14 / 18)
    assert means["b", "Comp."] == pytest.approx(100 * 7 / 9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--system", "runs/none-*/one.out"], "no file matches 'runs/none-*/one.out'"),
        (["--baseline", "x"], "--baseline is given 2 times, but must be given once; --system"),
        (["--looked-after", "9", "--looked-after", "2"], "--looked-after is 9, but no system"),
        (["--system", ""], "--system is '', but must be a pattern of files, or NAME=PATTERN"),
        (["--system", "."], "'.', the pattern of ., matches only folders, such as .;"),
        *[
            (["--relevant", bad], f"--relevant is {float(bad)}, but must be a number above 0")
            for bad in ("inf", "nan", "0")
        ],
        (["--looked-after", "0"], "--looked-after is 0, but must be 1 or more"),
        (["--alpha", "1"], "--alpha is 1.0, but must be between 0 and 1"),
        (["--csv", "none/r.csv"], "--csv is none/r.csv, but there is no folder none"),
        (["--csv", "./r.json"], "--csv r.json is the file of --json, too; give another one"),
        (["--latex", "one.de"], "--latex one.de is one of the inputs, which would be lost"),
        (["--csv", "runs/good-1/one.out"], "runs/good-1/one.out is one of the inputs, which"),
        (["--logs", "a=runs/*/train.log"], "--logs is for the learning curves of --plots FOLDER"),
    ],
)
def test_mistakes_are_one_sentence(compare, folder, arguments, words):
    done = compare("--json", "r.json", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and words in done.stderr
    assert not (folder / "r.json").exists()


def test_a_name_that_the_locale_lacks_is_whole_in_files_and_escaped_on_the_screen(compare, folder):
    done = compare("--csv", "r.csv", system="räder=runs/good-*/one.out", PYTHONIOENCODING="ascii")
    assert r"r\xe4der against" in done.ok().stdout and "räder" in (folder / "r.csv").read_text()


def test_a_device_may_be_input_and_output(folder):
    device, reference = Path("/dev/null"), folder / "one.de"
    args = Namespace(csv=device, json=device, latex=reference)
    check_outputs(args, "csv", "json", inputs=[device, reference])
    with pytest.raises(UserError, match="--latex .*one.de is one of the inputs"):
        check_outputs(args, "csv", "latex", inputs=[reference])
