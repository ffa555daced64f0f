"""scripts/srl_table.py: published rows, our scores beside them, Markdown and LaTeX."""

import json

import pytest

from selfattn.errors import UserError
from selfattn_experiments.commands.score.srl_table import PUBLISHED, published_rows
from selfattn_experiments.compare.steps import steps

# One proposition a file: We poured tea.
GOLD = "We - (A0*)\npoured pour (V*)\ntea - (A1*)\n"
RIGHT = "- (A0*)\npour (V*)\n- (A1*)\n"
HALF = "- (A0*)\npour (V*)\n- (A2*)\n"


@pytest.fixture
def table(run_cli, tmp_path):
    (tmp_path / "data").mkdir()
    for part in ("valid", "test", "test1"):
        (tmp_path / "data" / f"{part}.conll").write_text(GOLD)
    for name, parts in (("mtsa-1", (RIGHT, RIGHT, HALF)), ("mtsa-2", (HALF, RIGHT, RIGHT))):
        (tmp_path / name).mkdir()
        for part, props in zip(("valid", "test", "test1"), parts, strict=True):
            (tmp_path / name / f"{part}.props").write_text(props)

    words = ["scripts/srl_table.py", "--gold", "data"]
    return lambda *args: run_cli([*words, *args], cwd=tmp_path)


def cells(text, name):
    line = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_scores_beside_the_published_rows(table):
    done = table("ours=mtsa-1", "both seeds=mtsa-*").ok()
    assert cells(done.stdout, "MTSA")[:5] == ["published", "82.8", "84.4", "83.6", "65.4"]
    assert cells(done.stdout, "MTSA")[13:] == ["–"] * 4
    perfect, half = ["100.00"] * 4, ["50.00", "50.00", "50.00", "0.00"]
    together = ["75.00", "75.00", "75.00", "50.00"]
    assert cells(done.stdout, "ours") == ["1", *perfect, *perfect, *half, *together]
    seeds = cells(done.stdout, "both seeds")
    assert (seeds[0], seeds[3], seeds[7]) == ("2", "75.00 ± 35.36", "100.00 ± 0.00")
    assert seeds[15] == "87.50 ± 17.68"


def test_predicates_with_another_lemma_are_said_to_be_missed(table, tmp_path):
    (tmp_path / "mtsa-1/test.props").write_text(RIGHT.replace("pour", "poured"))
    done = table("ours=mtsa-1")
    assert "mtsa-1/test.props: 1 of 1 predicates are missing, or have another" in done.stderr
    assert "mtsa-1/valid.props: the predicted roles are the gold roles" in done.stderr
    assert done.stderr.count("warning") == 2 and cells(done.stdout, "ours")[7] == "0.00"


def test_a_part_that_is_missing_stays_empty(table, tmp_path):
    (tmp_path / "mtsa-1" / "test1.props").unlink()
    found = cells(table("ours=mtsa-1").stdout, "ours")
    assert found[9:] == ["–"] * 8 and found[1:3] == ["100.00"] * 2
    done = table("ours=mtsa-*")
    assert done.returncode == 2 and "runs of one system must have the same" in done.stderr


def test_files(table, tmp_path):
    done = table("A_B=mtsa-*", "--markdown", "t.md", "--latex", "t.tex")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert cells((tmp_path / "t.md").read_text(), "A_B")[0] == "2"
    rows = (tmp_path / "t.tex").read_text().splitlines()
    assert any(row.startswith(r"A\_B & 2 & 75.00 $\pm$ 35.36 &") for row in rows)
    assert rows[-1] == r"\end{tabular}"
    widths = {row.count("&") for row in rows if row.endswith(r"\\") and "multicolumn" not in row}
    assert widths == {17}
    assert rows.count(r"\midrule") == 2


def test_mistakes(table, tmp_path):
    for args, expected in (
        (["x=none-*"], "x: no folder matches 'none-*'"),
        (["x=data"], "data has none of the files valid.props, test.props, test1.props"),
        (["x=mtsa-1", "--gold", "mtsa-2"], "valid.conll"),
    ):
        done = table(*args)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert expected in done.stderr
    (tmp_path / "mtsa-1" / "test.props").write_text("- *\ngo (V*)\n")
    assert "both must hold the same" in table("x=mtsa-1").stderr


def test_the_published_rows():
    """Each F1 follows from its P and R, to the rounding of all three."""
    assert len(published_rows()) == len(PUBLISHED) == 9
    for row in published_rows():
        for i in range(0, 12, 4):
            p, r, f = row.cells[i : i + 3]
            if "–" not in (p, r):
                p, r = float(p), float(r)
                assert abs(2 * p * r / (p + r) - float(f)) < 0.11, row


def test_steps_of_a_grid(run_cli, tmp_path):
    f1 = {"words": (60.0, 61.0, 62.0), "words+late": (63.0, 64.0, 65.0)}
    for name, values in f1.items():
        for seed, value in enumerate(values):
            scores = {"dev": {"F1": value, "Comp.": 40.0}}
            record = {"system": name, "scores": scores, "seconds": {"train": 5400, "test": 9}}
            (tmp_path / f"{name}-{seed}").mkdir()
            (tmp_path / f"{name}-{seed}" / "run.json").write_text(json.dumps(record))
    done = run_cli(["scripts/srl_table.py", "--steps", tmp_path]).ok()
    assert cells(done.stdout, "words") == ["3", "61.00", "40.00", "-", "-", "1.5"]
    # Both sides have variance 1: 3 points, and 2.776 (Student, 4 degrees) times sqrt(2 / 3).
    gain = ["+3.00", "+0.73 to +5.27"]
    assert cells(done.stdout, "words+late") == ["3", "64.00", "40.00", *gain, "1.5"]
    (tmp_path / "edited").mkdir()
    (tmp_path / "edited" / "run.json").write_text(json.dumps(record | {"seconds": 10}))
    assert run_cli(["scripts/srl_table.py", "--steps", tmp_path]).ok().stdout == done.stdout
    record["scores"] = {"dev": {"F1": 63.0}}
    (tmp_path / "words-2" / "run.json").write_text(json.dumps(record))
    with pytest.raises(
        UserError, match=r"a run of words\+late with dev F1 and one of words\+late "
    ):
        steps(tmp_path, "F1")
    record["scores"] = {"test": {"BLEU": 30.0}}
    (tmp_path / "words+late-0" / "run.json").write_text(json.dumps(record))
    done = run_cli(["scripts/srl_table.py", "--steps", tmp_path])
    assert done.returncode == 2 and "has no F1, but test BLEU\n" in done.stderr
    done = run_cli(["scripts/srl_table.py", "--steps", tmp_path / "words-0"])
    assert done.returncode == 2 and "holds no finished run" in done.stderr


def test_the_committed_records_give_the_published_steps(repo_root):
    folder = repo_root / "examples" / "srl_ewt"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    published = readme.partition("\n## Steps\n")[2].partition("\n```\n")[0]
    _, *rows = steps(folder / "evidence" / "steps", "F1")
    assert len(rows) == 8
    for _, count, f1, _, _, perfect, gain, interval, hours in rows:
        (line,) = [line for line in published.splitlines() if f" | {count} | {f1} " in line]
        assert f" | {float(perfect):.1f} " in line and line.endswith(f" | {hours} |")
        assert gain == "-" or f" | {gain} " in line
        assert interval == "-" or f" ({interval}) | " in line
