"""What 8-bit weights cost, of the tagger that the package ships."""

import re
from pathlib import Path

import pytest

from benchmarks import exported_loss
from selfattn_tasks.saved import find_checkpoint
from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.formats import conll


def test_a_tagger_as_a_graph_scores_what_it_scores_in_pytorch(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    gold = [
        Sentence(
            tuple(f"{who} poured {what} .".split()),
            (Proposition(1, "pour", (Span("A0", 0, 0), Span("V", 1, 1), Span("A1", 2, end))),),
        )
        for who, what, end in (("We", "cold tea", 3), ("Maria", "it", 2), ("They", "milk", 2))
    ]
    conll.write_columns(tmp_path / "gold.conll", gold)
    model = find_checkpoint(Path("srl-en-small"))
    monkeypatch.setattr("sys.argv", ["exported_loss", str(model), str(tmp_path / "gold.conll")])
    exported_loss.main()
    rows = re.findall(r"^(\S+): (\S+), (\S+) MB$", capsys.readouterr().out, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == ["PyTorch", "float32", "int8"]
    assert rows[0][1] == rows[1][1] == "100.00"
    assert float(rows[2][2]) < 0.6 * float(rows[1][2])
