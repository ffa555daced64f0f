"""Predicates found by a trained tagger: prepare, train, predict and score as real commands."""

import json
import math
import re
import shutil

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.tagger.predictor import Predictor
from selfattn_tasks.srl.tagger.reading import Reading
from selfattn_tasks.srl.tagger.reliability import TEMPERATURES, judged, reliability
from tests.plugin.helpers import TAGGER as FLAGS
from tests.plugin.helpers import logged, sentence, validate
from tests.plugin.srl_corpus import prepared


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("srl_predicates")
    prepared(folder, train=(150, 1), valid=(30, 2))
    return folder


@pytest.fixture(scope="module")
def train(corpus, run_cli):
    """A function that trains and returns the finished process."""

    def run(save_dir, *flags, data=corpus / "data"):
        command = ["-m", "fairseq_cli.train", data, *FLAGS, "--save-dir", save_dir, *flags]
        return run_cli(command)

    return run


@pytest.fixture(scope="module")
def trained(train, corpus):
    """For each target, a checkpoint and what its last validation logged."""
    found = {}
    for target, more in (("both", ()), ("predicates", ("--characters", "8"))):
        folder = corpus / target
        lines = train(folder, "--target", target, "--max-epoch", "8", *more).ok().lines
        found[target] = folder / "checkpoint_last.pt", logged(lines, "valid")[-1]
    return found


def test_a_training_goes_on_with_its_own_target(train, trained, tmp_path):
    shutil.copy(trained["both"][0], tmp_path)
    done = train(tmp_path, "--max-epoch", "9")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "error: --target is arguments, but" in done.stderr
    assert "was trained with --target both; give that one, or start a new run" in done.stderr
    old = tmp_path / "checkpoint_last.pt"
    train(tmp_path / "new", "--finetune-from-model", old, "--max-update", "1").ok()


def test_whole_sequences_and_predicates_in_one_training(train, corpus, run_cli, tmp_path):
    flags = ("--criterion", "bio_crf", "--eval-decoder", "structured", "--target", "both")
    valid = logged(train(tmp_path, *flags, "--max-epoch", "8").ok().lines, "valid")[-1]
    assert float(valid["valid_f1"]) > 50 and float(valid["valid_predicate_f1"]) > 50, valid
    predictor = Predictor.load(tmp_path)
    assert predictor.needs_viterbi and len(predictor.finders) == 1


def test_a_training_set_of_another_name_is_one(train, tmp_path):
    done = train(tmp_path, "--train-subset", "valid", "--max-update", "1", "--max-length", "6").ok()
    assert re.search(r"left out \d+ of \d+ training propositions longer", done.stdout + done.stderr)


def label(run_cli, *args):
    return run_cli(["scripts/predict_srl.py", *args])


def test_one_network_from_words_to_the_official_score(trained, corpus, run_cli, tmp_path):
    """Validation says what predict and score say, of predicates and of given predicates' F1."""
    path, valid = trained["both"]
    gold, out = corpus / "valid.conll", tmp_path / "out.conll"
    # The predicates of the input do not matter.
    bare = [conll.Sentence(s.words) for s in conll.read(gold)]
    conll.write_columns(tmp_path / "bare.conll", bare)
    label(run_cli, path, "--input", tmp_path / "bare.conll", "--find-predicates",
          "--output", out, "--decoder", "argmax").ok()  # fmt: skip
    scored = run_cli(["scripts/score_srl.py", gold, out, "--end-to-end", "--json"])
    found = json.loads(scored.stdout)
    for name in ("f1", "precision", "recall"):
        expected = float(valid[f"valid_predicate_{name}"])
        assert found["predicates"][name] == pytest.approx(expected, abs=0.006)
    assert found["predicates"]["f1"] > 90
    label(run_cli, path, "--input", gold, "--output", tmp_path / "given.conll",
          "--decoder", "argmax").ok()  # fmt: skip
    given = run_cli(["scripts/score_srl.py", gold, tmp_path / "given.conll", "--json"])
    official = json.loads(given.stdout)["overall"]
    assert official["f1"] == pytest.approx(float(valid["valid_f1"]), abs=0.006)
    assert 20 < found["overall"]["f1"] <= official["f1"] + 1e-9
    # Without the flag, lemmas that nobody predicted count as another predicate, as officially.
    strict = json.loads(run_cli(["scripts/score_srl.py", gold, out, "--json"]).stdout)
    assert strict["absent_predicates"] > found["absent_predicates"]
    table = run_cli(["scripts/score_srl.py", gold, out, "--end-to-end"]).stdout
    assert f"{found['predicates']['f1']:.2f}" in table and "All charged" in table


def test_from_a_folder_of_hugging_face_back_to_fairseq(trained, corpus, run_cli, tmp_path):
    """fairseq-validate says what the run's last validation said."""
    pytest.importorskip("transformers")
    path, valid = trained["both"]
    for to, source, target in (("hf", path, "folder"), ("fairseq", tmp_path / "folder", "back.pt")):
        run_cli(["scripts/export_model.py", "--to", to, source, tmp_path / target]).ok()
    back = validate(run_cli, corpus / "data", tmp_path / "back.pt", "--target", "both")
    for name in ("f1", "predicate_f1", "loss"):
        assert back[f"valid_{name}"] == valid[f"valid_{name}"]


def test_lines_with_other_predicates_can_be_scored_end_to_end(corpus, run_cli, tmp_path):
    lines = "1 a b c ||| B-A0 B-V O\n2 a b c ||| B-A0 O B-V\n2 a b c ||| O B-A0 B-V\n"
    (tmp_path / "found").write_text(lines)
    columns = "x -\n\na - (A0*)\nb go (V*)\nc - *\n\n"
    (tmp_path / "gold").write_text(columns + "a - (A0*)\nb - *\nc do (V*)\n\n")
    args = ["scripts/score_srl.py", tmp_path / "gold", tmp_path / "found", "--json"]
    refused = run_cli(args)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    found = json.loads(run_cli([*args, "--end-to-end"]).stdout)
    assert found["predicates"]["correct"] == 2 and found["predicates"]["excess"] == 1
    assert found["overall"]["correct"] == 1 and found["all_charged"]["excess"] == 2


def test_a_tagger_of_predicates_beside_one_of_arguments(trained, corpus, run_cli):
    path, valid = trained["predicates"]
    assert "valid_f1" not in valid and float(valid["valid_predicate_f1"]) > 50
    state = checkpoints.read(path)
    assert state["task_state"]["srl_tagging"]["target"] == "predicates"
    assert state["model"]["tagger.classifier.weight"].shape[0] == 2
    assert state["model"]["tagger.indicator.weight"].shape == (2, 32 - 16 - 8)
    gold = conll.read(corpus / "valid.conll")
    words = [s.words for s in gold]
    alone = Predictor.load(path)
    found = alone.predicates([*words, (), ("No",)])
    right = sum(len({p.predicate for p in s.propositions} & set(row))
                for s, row in zip(gold, found, strict=False))  # fmt: skip
    wanted = sum(len(s.propositions) for s in gold)
    assert 100 * right / wanted == pytest.approx(float(valid["valid_predicate_recall"]), abs=0.006)
    assert found[-2] == [] and found[-1] in ([], [0])
    with pytest.raises(UserError, match="finds predicates only"):
        alone.predict(gold)
    done = label(run_cli, path, "--input", corpus / "valid.conll")
    assert "finds predicates only" in sentence(done, "predict_srl.py")
    both = Predictor.load([trained["both"][0], path])
    assert len(both.members) == 1 and len(both.finders) == 2
    assert both.predicates(words[:3]) != [[], [], []]


def test_a_word_that_training_never_saw_has_its_characters(trained):
    """Two unknown words differ; without characters they are one."""
    for target, same in (("predicates", False), ("both", True)):
        model = Predictor.load(trained[target][0])
        found = [Reading([("the", word)], model.device).log_probs(model.finders[0], [0], [-1])[0]
                 for word in ("zzz", "\U0001f642" + "y" * 1000)]  # fmt: skip
        assert torch.equal(*found) is same and found[0].isfinite().all()


def test_characters_in_fairseq_s_own_validation_and_a_training_that_goes_on(
    trained, train, corpus, run_cli, tmp_path
):
    path, logged_before = trained["predicates"]
    valid = validate(run_cli, corpus / "data", path, "--target", "predicates")
    assert valid["valid_predicate_f1"] == logged_before["valid_predicate_f1"]
    shutil.copy(path, tmp_path / "checkpoint_last.pt")
    train(tmp_path, "--target", "predicates", "--max-epoch", "9", "--characters", "8").ok()


def test_confidence_is_in_json_and_can_be_calibrated(trained, corpus, run_cli, tmp_path):
    gold = conll.read(corpus / "valid.conll")
    args = [trained["both"][0], "--input", corpus / "valid.conll", "--decoder", "strict"]
    label(run_cli, *args, "--confidence", "--output", tmp_path / "out.jsonl").ok()
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    predictor = Predictor.load(trained["both"][0])
    predicted = predictor.predict(gold, "strict", confidence=True)
    for record, s in zip(records, predicted, strict=True):
        for stored, p in zip(record["propositions"], s.propositions, strict=True):
            assert stored["confidence"] == pytest.approx(p.confidence, abs=2e-6)
            for span, own in zip(stored["spans"], p.spans, strict=True):
                assert span["confidence"] == pytest.approx(own.confidence, abs=2e-6)
                assert own.confidence >= p.confidence - 1e-9
    spans, whole = judged(gold, predicted)
    assert len(whole) == sum(len(s.propositions) for s in gold) < len(spans)
    assert 0 <= reliability(spans).error < 0.5
    assert all(p.confidence is None for s in predictor.predict(gold) for p in s.propositions)
    for more in (["--format", "props"], []):
        refused = label(run_cli, *args, "--confidence", *more)
        assert "--confidence needs --format json or jsonl" in sentence(refused, "predict_srl.py")


def test_a_temperature_is_fitted_and_stored(trained, corpus, run_cli, tmp_path):
    gold, small = tmp_path / "few.conll", tmp_path / "small.pt"
    conll.write_columns(gold, conll.read(corpus / "valid.conll")[:10])
    command = ["scripts/average_checkpoints.py", "--inputs", trained["both"][0], "--output", small]
    done = run_cli([*command, "--calibrate", gold]).ok()
    plain, fitted = Predictor.load(trained["both"][0]), Predictor.load(small)
    assert f"temperature {fitted.temperature}\n" in done.stdout
    assert fitted.temperature in [round(each, 1) for each in TEMPERATURES]
    read = conll.read(gold)

    def loss(temperature):
        plain.temperature = temperature
        spans, whole = judged(read, plain.predict(read, "structured", confidence=True))
        return -sum(math.log(max(1e-6, c if right else 1 - c)) for c, right in spans), whole

    best, whole = loss(fitted.temperature)
    for other in (fitted.temperature - 0.1, fitted.temperature + 0.1, 1.0):
        assert best <= loss(other)[0] and whole == loss(other)[1]
    again = tmp_path / "again.pt"  # whatever it was before
    done = run_cli([*command[:1], "--inputs", small, "--output", again, "--calibrate", gold])
    assert Predictor.load(again).temperature == fitted.temperature
    assert Predictor.load([small, trained["predicates"][0]]).temperature == fitted.temperature
    done = run_cli([*command[:2], trained["predicates"][0], *command[3:], "--calibrate", gold])
    assert "finds predicates only" in sentence(done, "average_checkpoints.py")
    assert Predictor.load(small).temperature == fitted.temperature  # the old file is left
    conll.write_props(tmp_path / "gold.props", read)
    bare = [conll.Sentence(s.words) for s in read]
    conll.write_columns(tmp_path / "bare.conll", bare)
    for file, output, message in (
        (tmp_path / "bare.conll", again, "has no predicate; give annotated sentences"),
        (tmp_path / "gold.props", again, "which has no words; give a file with both"),
        (gold, gold, "is one of the inputs, which would be lost"),
    ):
        done = run_cli([*command[:2], small, "--output", output, "--calibrate", file])
        assert message in sentence(done, "average_checkpoints.py")
    state = checkpoints.read(small)
    for part in ("weight", "bias"):  # as sure as at ten times the temperature
        state["model"][f"tagger.classifier.{part}"].mul_(0.1)
    saved.write(state, again)
    flat = tmp_path / "flat.pt"
    done = run_cli([*command[:1], "--inputs", again, "--output", flat, "--calibrate", gold]).ok()
    assert "warning: the temperature 0.5 is the last of those tried, 0.5 to 3.0" in done.stderr
    next(iter(state["model"].values())).mul_(1.5)
    saved.write(state, again)
    for inputs in ([small, again], [again, small]):  # it was that of another distribution
        run_cli([*command[:1], "--inputs", *inputs, "--output", tmp_path / "mean.pt"]).ok()
        assert Predictor.load(tmp_path / "mean.pt").temperature == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "verbs"}, "the target 'verbs' is unknown"),
        ({"target": 3 * ["x" * 1000]}, "the target .* is unknown"),
        ({"target": None}, "the target None is unknown"),
        ({"target": "predicates", "vocabulary": {"labels": ["O", "B-A0"]}}, "label B-V is missing"),
    ],
)
def test_a_broken_target_is_refused(trained, tmp_path, change, message):
    state = checkpoints.read(trained["predicates"][0])
    stored = state["task_state"]["srl_tagging"]
    stored["vocabulary"].update(change.pop("vocabulary", {}))
    stored.update(change)
    torch.save(state, tmp_path / "broken.pt")
    with pytest.raises(UserError, match=message) as refused:
        Predictor.load(tmp_path / "broken.pt")
    assert len(str(refused.value)) < 300


def test_models_without_predicates_say_so(trained, corpus, run_cli, tmp_path):
    """As every checkpoint from before there was a choice."""
    state = torch.load(trained["both"][0], weights_only=False)
    del state["task_state"]["srl_tagging"]["target"]
    del state["cfg"]["task"]["target"]
    torch.save(state, tmp_path / "old.pt")
    valid = validate(run_cli, corpus / "data", tmp_path / "old.pt")
    assert valid["valid_f1"] == trained["both"][1]["valid_f1"]
    assert "valid_predicate_f1" not in valid
    old = Predictor.load(tmp_path / "old.pt")
    with pytest.raises(UserError, match="without predicate identification: name the predicates"):
        old.predicates([("a", "b")])
    args = ["--input", corpus / "valid.conll", "--find-predicates"]
    done = label(run_cli, tmp_path / "old.pt", *args)
    assert "trained without predicate identification" in sentence(done, "predict_srl.py")
    done = label(run_cli, tmp_path / "old.pt", "--sentence", "a b", "--find-predicates")
    assert "--find-predicates needs --input" in sentence(done, "predict_srl.py")


def test_a_folder_of_an_older_version_must_be_prepared_again(train, corpus, tmp_path):
    shutil.copytree(corpus / "data", tmp_path / "data")
    (tmp_path / "data" / "train.conll").unlink()
    done = train(tmp_path / "run", "--target", "both", data=tmp_path / "data")
    assert "train.conll does not exist" in sentence(done)
    train(tmp_path / "run", "--max-update", "1", data=tmp_path / "data").ok()
