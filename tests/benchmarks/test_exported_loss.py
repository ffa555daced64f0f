"""What 8-bit weights cost, of the tagger that the package ships."""

import re
from pathlib import Path
from types import SimpleNamespace

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
    rows = re.findall(r"^- (\S+): (\S+), (\S+) MB$", capsys.readouterr().out, flags=re.MULTILINE)
    assert [name for name, *_ in rows] == ["PyTorch", "float32", "int8"]
    assert rows[0][1] == rows[1][1] == "100.00"
    assert float(rows[2][2]) < 0.6 * float(rows[1][2])


@pytest.mark.parametrize(
    ("kind", "targets", "predictions", "score"),
    [
        ("relatedness", [1.0, 2.0, 4.0], [1.1, 2.2, 4.4], 100.0),
        ("relatedness", [1.0, 2.0, 4.0], [3.0, 3.0, 3.0], float("nan")),
        ("classification", ["HUM", "LOC", "HUM"], ["HUM", "HUM", "HUM"], 200 / 3),
    ],
)
def test_scores_of_sentences_are_those_that_validation_logs(
    kind, targets, predictions, score, monkeypatch
):
    """The prediction of a relatedness is never exactly the gold score."""
    state = SimpleNamespace(kind=kind, tokens=None)

    class Classifier:
        def __init__(self, members):
            self.state = members[0][1]

        @staticmethod
        def load(path):
            return Classifier([(None, state)])

        def predict(self, examples):
            return [SimpleNamespace(prediction=prediction) for prediction in predictions]

    examples = [SimpleNamespace(target=target) for target in targets]
    monkeypatch.setattr(exported_loss, "Classifier", Classifier)
    monkeypatch.setattr(exported_loss, "Reading", lambda tokens: tokens)
    monkeypatch.setattr(exported_loss, "read", lambda *_: SimpleNamespace(examples=examples))
    model = SimpleNamespace(networks=[SimpleNamespace(block=1)])
    args = SimpleNamespace(checkpoint="x", test="y")
    found = exported_loss._figure(args, model, {"sentences": None})
    assert found == pytest.approx(score, nan_ok=True)
