"""CSV files of rows, and what of them counts as a regression."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import table
from benchmarks.table import Row, regressions
from selfattn.errors import UserError

OLD = Path("old.csv")
ROW = Row(
    level="layer", mode="training", device="cpu", dtype="float32", threads=1, padding="none",
    backend="auto", embed_dim=304, heads=8, layers=1, length=64, batch=32, method="mtsa:srl",
    label="MTSA (srl), half of it", reference="multihead", status="ok", parameters=463600,
    seconds=0.02, reference_seconds=0.016, ratio=1.25, ratio_low=1.2, ratio_high=1.3, pairs=7,
    memory_mib=120.0, reference_memory_mib=100.0, memory_ratio=1.2, facts={"cpu": "a, b"},
)  # fmt: skip
GONE = Row(**{**vars(ROW), "length": 128, "status": "out of memory", "ratio": None, "pairs": None})


def test_rows_survive_a_file(tmp_path):
    path = tmp_path / "rows.csv"
    table.write(path, [ROW, GONE])
    first, second = table.read(path)
    assert {**vars(first), "facts": None} == {**vars(ROW), "facts": None}
    assert first.facts["cpu"] == "a, b"
    assert (second.status, second.ratio, second.pairs) == ("out of memory", None, None)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.csv"]


def test_a_file_gives_the_table_that_its_rows_gave(tmp_path):
    rows = [replace(ROW, ratio=1.68496, memory_ratio=21.0496)]
    table.write(tmp_path / "rows.csv", rows)
    facts = table.read(tmp_path / "rows.csv")[0].facts
    shown = table.markdown([replace(rows[0], facts=facts)])
    assert "| 1.68 |" in shown and table.markdown(table.read(tmp_path / "rows.csv")) == shown


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("memory_ratio", "memory"), "has no column 'memory_ratio'"),
        (
            lambda text: text.replace("1.25", "fast"),
            "line 2: ratio is 'fast', but must be a number",
        ),
        (lambda text: text.replace(",64,", ",6.4,"), "line 2: length is '6.4', but must be a num"),
        (lambda text: text[: text.index(",463600")] + "\n", "the line ends before column 'param"),
        (lambda text: "", "has no column 'level'"),
    ],
)
def test_a_file_that_is_no_such_csv_is_one_sentence(tmp_path, change, words):
    path = tmp_path / "rows.csv"
    table.write(path, [ROW])
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match="rows.csv") as caught:
        table.read(path)
    assert words in str(caught.value)


def test_a_missing_file_a_folder_and_bytes_are_one_sentence(tmp_path):
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for name, words in (("none", "no such file"), (".", "cannot be"), ("bytes.csv", "cannot be")):
        with pytest.raises(UserError, match=words):
            table.read(tmp_path / name)
    with pytest.raises(UserError, match="there is no folder"):
        table.write(tmp_path / "missing" / "rows.csv", [ROW])


def test_tables_show_what_has_no_number():
    text = table.markdown([ROW, GONE, replace(GONE, method="disa", label="D", status="skipped")])
    assert "| time / multihead | parameters | 64 | 128 |" in text
    assert "| MTSA (srl), half of it (`mtsa:srl`) | 463,600 | 1.25 | memory |" in text
    assert "| D (`disa`) | 463,600 |  | - |" in text
    unmeasured = replace(ROW, memory_ratio=None)
    assert "peak memory" not in table.markdown([unmeasured])


def test_what_is_a_regression():
    def worse(**changes):
        return regressions([replace(ROW, **changes)], [ROW], OLD)

    assert worse() == []
    slower = worse(ratio=1.6, ratio_low=1.5, ratio_high=1.7)
    assert slower == ["mtsa:srl, layer training, length 64: time 1.25 -> 1.60 of multihead"]
    larger = worse(memory_ratio=1.4, memory_mib=140.0)
    assert larger == ["mtsa:srl, layer training, length 64: memory 1.20 -> 1.40 of multihead"]
    assert worse(status="out of memory", ratio=None, memory_ratio=None) == [
        "mtsa:srl, layer training, length 64: now out of memory"
    ]
    # Noise: quartiles that overlap, a small change, a peak of a few allocations.
    assert worse(ratio=1.5, ratio_low=1.29, ratio_high=1.7) == []
    assert worse(ratio=1.35, ratio_low=1.34, ratio_high=1.36) == []
    assert worse(memory_ratio=2.0, memory_mib=120.5) == []
    assert worse(ratio=0.5, ratio_low=0.5, ratio_high=0.5, memory_ratio=0.3) == []


def test_only_equal_settings_are_compared():
    slow = replace(ROW, ratio=9.0, ratio_low=9.0, ratio_high=9.0)
    assert len(regressions([slow, replace(slow, length=128)], [ROW], OLD)) == 1
    for changes in ({"threads": 2}, {"dtype": "bfloat16"}, {"batch": 8}, {"mode": "inference"}):
        with pytest.raises(UserError, match="old.csv, but none of its rows"):
            regressions([replace(slow, **changes)], [ROW], OLD)
