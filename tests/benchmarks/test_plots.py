"""Pictures of rows: lines over many lengths, dots for a few."""

import xml.etree.ElementTree
from dataclasses import replace

import pytest

from benchmarks.table import Row
from selfattn.errors import UserError

pytest.importorskip("matplotlib")

from benchmarks.plots import draw

ROW = Row(
    level="layer", mode="training", device="cpu", dtype="float32", threads=1, padding="none",
    backend="auto", embed_dim=304, heads=8, layers=1, length=64, batch=32, method="multihead",
    label="multi-head", reference="multihead", status="ok", ratio=1.0, ratio_low=0.9,
    ratio_high=1.1,
)  # fmt: skip


def rows(lengths):
    """The reference, a method that runs out of memory at the last length, one of unknown name."""
    found = [replace(ROW, length=length) for length in lengths]
    found += [replace(ROW, length=n, method="mtsa:srl", label="MTSA", ratio=1.5) for n in lengths]
    found[-1] = replace(found[-1], status="out of memory", ratio=None)
    return [*found, *(replace(ROW, length=n, method="own", label="own one") for n in lengths)]


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ((16, 64, 1024), ["MTSA: 1.50 at 64, then out of memory", "own one: 1.00", "1,024"]),
        (
            (30, 64),
            ["MTSA", "out of memory", "30 tokens", "64 tokens", "time, ratio to multi-head"],
        ),
    ],
    ids=["lines", "dots"],
)
def test_pictures_say_what_they_show(tmp_path, lengths, words):
    written = draw(rows(lengths), tmp_path)
    assert sorted(p.name for p in written) == [
        "layer-training-cpu-time.png",
        "layer-training-cpu-time.svg",
    ]
    text = (tmp_path / "layer-training-cpu-time.svg").read_text()
    xml.etree.ElementTree.fromstring(text)
    assert [word for word in words if word not in text] == []
    assert (tmp_path / "layer-training-cpu-time.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_rows_give_the_same_file(tmp_path):
    first, second = (draw(rows((16, 64, 256)), tmp_path / name)[1] for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()


def test_a_file_in_place_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="taken, but .* is not a folder"):
        draw([ROW], tmp_path / "taken")
