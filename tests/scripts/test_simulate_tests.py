"""scripts/simulate_tests.py as a user runs it."""

import pytest

pytest.importorskip("scipy")
pytest.importorskip("matplotlib")

from selfattn_experiments.compare.simulation import SCENARIOS


@pytest.fixture
def simulate(run_cli, tmp_path):
    return lambda *args: run_cli(["scripts/simulate_tests.py", *args], cwd=tmp_path)


def test_the_table_is_printed_and_written_and_drawn(simulate, tmp_path):
    few = "--repetitions 2 --sentences 20 --samples 19".split()
    done = simulate(*few, "--output", "table.md", "--plot", "rates.svg").ok()
    table = (tmp_path / "table.md").read_text("utf-8")
    assert done.stdout == f"{table}wrote rates.svg\n"
    rows = table.splitlines()[2:]
    tests = [test for scenario in SCENARIOS for test in scenario.tests]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == tests
    picture = (tmp_path / "rates.svg").read_text("utf-8")
    for scenario in SCENARIOS:
        assert f"{scenario.what}, {scenario.runs[0]} against {scenario.runs[1]}" in picture
    assert all(picture.count(f">{test}<") == tests.count(test) for test in set(tests))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--repetitions", "0"], "--repetitions is 0, but must be 1 or more"),
        (["--output", "none/t.md"], "--output is none/t.md, but there is no folder none"),
        (["--plot", "rates.doc"], "--plot is rates.doc, but must end in .png, .svg, .pdf"),
    ],
)
def test_mistakes_are_one_sentence(simulate, args, words):
    done = simulate(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and words in done.stderr
