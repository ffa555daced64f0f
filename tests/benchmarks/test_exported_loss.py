"""What 8-bit weights cost."""

import re
from types import SimpleNamespace

import pytest

from benchmarks import exported_loss
from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.propositions import unlabelled
from selfattn_tasks.srl.tagger.predictor import Predictor as Labeller
from tests.selfattn_tasks.test_model_folder import tagger


def test_a_tagger_as_a_graph_scores_what_it_scores_in_pytorch(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    sizes = {"word_dim": 64, "predicate_dim": 64, "layers": 1, "ffn_dim": 512}
    model = tagger(tmp_path / "tagger.pt", "mtsa", "arguments", **sizes)
    texts = ("the old cat chased a mouse .", "a tulip chased it .", "mouse and cat chased .")
    words = [tuple(text.split()) for text in texts]
    asked = [Sentence(row, unlabelled(row, [row.index("chased")])) for row in words]
    gold = Labeller.load(model).predict(asked)
    conll.write_columns(tmp_path / "gold.conll", gold)
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
