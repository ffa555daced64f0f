"""``--task sentences`` in this process: criterions, correlations, wrong flags, odd sentences."""

import json
import math
import re
from argparse import Namespace
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.trainer import Trainer

from plugin.criterions.policy_gradient import _mean
from plugin.criterions.sentences import l2
from plugin.models.sentence_lm import SentenceLanguageModel
from selfattn.errors import UserError
from selfattn_tasks.sentences.model.predictor import Predictor
from selfattn_tasks.sentences.model.state import KEY, PREFIX, SentenceState
from selfattn_tasks.sentences.record import Example
from tests.plugin.helpers import parsed

LABELS = {"classification": ["x", "y"], "nli": ["contradiction", "neutral", "entailment"]}
TARGETS = {"classification": ["x", "y"], "nli": ["neutral", "entailment"], "selection": [1, 0],
           "relatedness": [3.7, 5.0]}  # fmt: skip
SENTENCES = [["a", "dog", "runs"], [], ["a"]]
COUNTS = {"classification": 1, "nli": 2, "relatedness": 2, "selection": 3}


@pytest.fixture
def folder(tmp_path):
    """A function that writes a prepared folder of two examples; one sentence of them is empty."""

    def write(kind, **meta):
        content = {"version": 1, "kind": kind, "labels": LABELS.get(kind, []), "folds": None,
                   "tokens": {"lowercase": True, "split_words": False},
                   "selection": "dev", "sst": None, **meta}  # fmt: skip
        (tmp_path / "meta.json").write_text(json.dumps(content))
        (tmp_path / "dict.txt").write_text("a 4\ndog 2\nruns 2\n")
        count = COUNTS[kind]
        rows = [Example(tuple(map(tuple, SENTENCES[:count])), TARGETS[kind][0]),
                Example(tuple(map(tuple, SENTENCES[3 - count :])), TARGETS[kind][1])]  # fmt: skip
        for split in ("train", "valid"):
            (tmp_path / f"{split}.jsonl").write_text("".join(row.line() + "\n" for row in rows))
        return tmp_path

    return write


def built(data, *more):
    """Task, model and criterion, and a batch of the training set, as fairseq-train makes them."""
    words = [str(data), "--task", "translation", "--task", "sentences",  # the last one counts
             "--arch", "sentence_encoder_tiny", "--cpu", "--optimizer", "adam", "--lr", "0.01",
             "--batch-size", "4", "--dropout", "0", *more]  # fmt: skip
    if not {"--embed-dim", "--arch"} & set(more):
        words += ["--embed-dim", "6"]
    cfg = convert_namespace_to_omegaconf(parsed(*words))
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    task.load_dataset("train")
    dataset = task.dataset("train")
    return task, model, criterion, dataset.collater([dataset[i] for i in range(len(dataset))])


@pytest.mark.parametrize("kind", COUNTS)
def test_the_criterion_follows_from_the_data(kind, folder):
    task, model, criterion, sample = built(folder(kind))
    loss, size, logged = criterion(model, sample)
    expected = "Relatedness" if kind == "relatedness" else "Classification"
    assert type(criterion).__name__ == f"Sentence{expected}Criterion"
    assert size == 2 and loss.isfinite() and logged["ntokens"] == sample["lengths"].sum()
    logits = model(**sample["net_input"])
    if kind != "relatedness":
        targets = sample["target"].tolist()
        rows = torch.log_softmax(logits, -1)
        by_hand = -sum(float(row[target]) for row, target in zip(rows, targets, strict=True))
        assert float(loss) == pytest.approx(by_hand, abs=1e-5)
        return
    q = torch.softmax(logits, -1).tolist()
    kl = 0.3 * math.log(0.3 / q[0][2]) + 0.7 * math.log(0.7 / q[0][3]) - math.log(q[1][4])
    assert float(loss) == pytest.approx(kl, abs=1e-5)
    score = [sum(k * p for k, p in enumerate(row, 1)) for row in q]
    squared = (score[0] - 3.7) ** 2 + (score[1] - 5) ** 2
    assert float(logged["mse"]) == pytest.approx(squared, abs=1e-5)
    loss, _, out = built(folder(kind), "--relatedness-loss", "mse")[2](model, sample, reduce=False)
    assert float(out["nll_loss"].sum()) == float(loss.sum()) == pytest.approx(squared / 2, abs=1e-5)


def test_the_l2_term_is_that_of_matrices_alone(folder):
    _, model, criterion, sample = built(folder("nli"), "--l2", "0.5", "--context", "resa")
    plain = criterion.eval()(model, sample)[0]
    loss, size, logged = criterion.train()(model, sample)
    left_out = re.compile(r"table|_sampler|bias")
    matrices = [p.detach() for n, p in model.named_parameters() if not left_out.search(n)]
    squares = [float(p.square().sum()) / 2 for p in matrices]
    assert l2(model).item() == pytest.approx(sum(squares), rel=1e-5)
    assert float(loss - plain) == pytest.approx(size * 0.5 * sum(squares), rel=1e-5)
    assert float(logged["loss"]) == pytest.approx(float(plain), rel=1e-5)
    each = criterion(model, sample, reduce=False)[0]
    assert each.shape == (2,) and float(each.sum()) == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("context", ["mtsa", "disa", "resa", "gru", "sru", "lstm", "multi_cnn"])
def test_the_l2_term_holds_no_bias(folder, context):
    _, model, _, _ = built(folder("nli"), "--context", context)
    before = l2(model)
    biases = [p for name, p in model.named_parameters() if name.endswith(("bias", "biases"))]
    assert len(biases) > 2
    for bias in biases:
        bias.data.fill_(3.0)
    assert l2(model) == before


def test_the_reward_of_a_selection_has_no_l2_term(folder):
    flags = "--criterion policy_gradient --context resa --selection-reward loss --l2".split()
    rewards = []
    for factor in ("0", "0.5"):
        _, model, criterion, sample = built(folder("nli"), *flags, factor)
        rewards.append(float(criterion(model, sample)[2]["reward"]))
    assert rewards[0] == pytest.approx(rewards[1], rel=1e-5)


def test_half_precision(folder):
    for dtype in (torch.bfloat16, torch.float16):
        _, model, criterion, sample = built(folder("relatedness"), "--context", "lstm")
        loss = criterion(model.to(dtype), sample)[0]
        assert loss.dtype == torch.float32 and loss.isfinite()


def test_gold_scores_are_not_rounded_in_half_precision(folder):
    *_, sample = built(folder("relatedness"))
    cfg = SimpleNamespace(common=SimpleNamespace(fp16=False, bf16=True))
    sample = Trainer._fp_convert_sample(SimpleNamespace(cfg=cfg), sample)
    assert sample["target"].tolist() == [3.7, 5.0]


def correlations(task, values):
    """What a validation logs whose predictions are these, one batch each."""
    task.begin_valid_epoch(1, None)
    for number, value in enumerate(values):
        task._scores.setdefault("valid", {})[number] = (float(number), value)
    with metrics.aggregate(new_root=True) as found:
        task.reduce_metrics([{"_validation": 1, "sample_size": 1, "loss": 1.0, "mse": 1.0}], None)
        return found.get_smoothed_values()


def test_a_constant_prediction_is_the_worst(folder, monkeypatch):
    task, _, criterion, _ = built(folder("relatedness"))
    monkeypatch.setattr(type(task).__mro__[1], "reduce_metrics", lambda *_: None)
    found = correlations(task, [1.0, 2.0, 4.0, 3.0])
    assert found["spearman"] == pytest.approx(0.8) and found["pearson"] == pytest.approx(0.8)
    found = correlations(task, [3.0, 3.0, 3.0])
    assert found["pearson"] == found["spearman"] == -1


def test_a_validation_scores_what_a_file_of_predictions_holds(folder):
    task, model, criterion, sample = built(folder("relatedness"))
    sample["split"] = "valid"
    task.valid_step(sample, model, criterion)
    found = [predicted for _, predicted in task._scores["valid"].values()]
    assert len(found) == 2 and found == [float(f"{score:.6f}") for score in found]


def test_the_share_of_a_pair_is_that_of_its_tokens():
    shares = torch.tensor([1.0, 0.5, 0.0, 1.0])
    lengths = torch.tensor([[2, 4], [0, 3]])
    assert _mean(shares, lengths, torch.zeros(2)).tolist() == pytest.approx([4 / 6, 1])
    assert torch.equal(_mean(shares[:2], lengths, torch.zeros(2)), shares[:2])  # one an example
    behind = torch.tensor([[9, 2, 4], [9, 0, 3]])  # of a question, which no layer reads
    assert _mean(shares, behind, torch.zeros(2)).tolist() == pytest.approx([4 / 6, 1])


def test_automatic_blocks_are_those_of_whole_sentences(folder):
    # As prepare writes it of trees, whose train.jsonl holds phrases: n = 60 + 8 sqrt(2 ln 4).
    data = folder("classification", lengths={"train": {"mean": 60.0, "sd": 8.0}})
    _, model, *_ = built(data, "--arch", "sentence_encoder_biblosa_tiny")
    extra = model.network.config.switches["block_length_extra"]
    assert model.network.config.switches["block_length"] == 6 + extra


def test_a_label_that_training_lacks_is_wrong(folder):
    data = folder("classification")
    (data / "valid.jsonl").write_text(Example((("a",),), "z").line() + "\n")
    task, model, criterion, _ = built(data)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    loss, size, logged = criterion(model, dataset.collater([dataset[0]]))
    assert float(loss) == 0 and size == 0 and logged["nsentences"] == 1
    assert int(logged["correct"]) == 0
    (data / "train.jsonl").write_text(Example((("a",),), "z").line() + "\n")
    with pytest.raises(UserError, match="1 training examples of .* have a label that its meta"):
        task.load_dataset("train")


def test_only_training_is_shuffled_and_shortened(folder):
    data = folder("classification")
    lines = [Example((("a",) * n,), "x").line() for n in range(40)]
    (data / "train.jsonl").write_text("\n".join(lines) + "\n")
    task, *_ = built(data, "--max-length", "30")
    train = task.dataset("train")
    assert len(train) == 31 and not train.can_reuse_epoch_itr_across_epochs
    orders = {tuple(train.ordered_indices()) for _ in range(3)}
    assert len(orders) == 3
    for order in orders:
        assert sorted(order) == list(range(31))
        sizes = train.sizes[list(order)]
        assert abs(sizes - sorted(sizes)).max() <= 12
    task.load_dataset("valid")
    assert task.dataset("valid").can_reuse_epoch_itr_across_epochs
    assert task.sentence_lengths is None  # --biblosa-block-length auto counts what remains
    with pytest.raises(UserError, match="--max-length -1 leaves none of the 40 training"):
        built(data, "--max-length", "-1")


WRONG = {
    "--criterion cross_entropy": "--criterion cross_entropy does not fit .*--criterion sentence_c",
    "--criterion sentence_relatedness": "needs scores, and this data has none",
    "--l2 -1": "--l2 -1.0 is not allowed",
    "--l2 nan": "--l2 nan is not allowed",
    "--fold 1": "--fold is 1, but .* was prepared without --folds",
    "--hidden-size 0": "hidden_size 0 is not allowed",
    "--embed-dim 0": "embed_dim 0 is not allowed",
    "--dropout 1": "dropout 1.0 is not allowed",
    "--context lstm --mtsa-scores both": "is a switch of --context mtsa, not of lstm",
    "--context lstm --attention-dropout 0.1": "has no switch 'attention_dropout'",
    "--context disa --disa-activation tanh": "contradicts --activation-fn relu: context, pool",
    "--highway": "leave --highway out",
    "--arch transformer_mtsa_tiny": "--arch transformer_mtsa_tiny encodes no sentences",
    "--word-embeddings no.txt": "no.txt cannot be read",
    "--embed-dim 5 --word-embeddings {data}/v.txt": "--embed-dim 5 is not the width 2 of the word",
}


@pytest.mark.parametrize("flags", WRONG)
def test_wrong_flags(flags, folder):
    data = folder("classification")
    (data / "v.txt").write_text("a 1 2\ncat 3 4\n")
    with pytest.raises(UserError, match=WRONG[flags]):
        built(data, *flags.format(data=data).split())


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(UserError, match=r"meta.json cannot be read .*prepare sentences"):
        built(tmp_path)


def test_vectors_of_a_file_are_all_kept(folder):
    data = folder("classification")
    (data / "v.txt").write_text("a 1 2\ncat 3 4\n")
    flags = ["--word-embeddings", str(data / "v.txt"), "--embed-dim", "2"]
    task, model, *_ = built(data, *flags, "--head-hidden-size", "5")
    assert task.network_state.vocabulary.frozen == ("cat",)
    assert model.network.table.frozen.tolist() == [[3, 4]]
    assert model.network.table.trained.weight[0].tolist() == [1, 2]
    assert 5 in {weight.shape[0] for weight in model.network.head.parameters()}


@pytest.fixture
def checkpoint(folder, tmp_path):
    """A function that writes a checkpoint after a change of its task's state."""

    def write(change=lambda state: None):
        task, model, *_ = built(folder("classification"))
        state = task.state_dict()
        change(state[KEY])
        path = tmp_path / "model.pt"
        torch.save({"model": model.state_dict(), "args": {"arch": "x"}, "task_state": state}, path)
        return path

    return write


def test_a_checkpoint_is_read(checkpoint):
    found = Predictor.load(checkpoint()).predict([Example((("a",),), None)])
    assert found[0].prediction in LABELS["classification"]


CHANGES = {
    "another version": lambda s: s["config"].update(new=1),
    "contradicts itself": lambda s: s["vocabulary"]["words"].append("more"),
    "contradicts itself: ": lambda s: s["config"].update(classes=7),
    "written by": lambda s: s["meta"].update(kind="none"),
    "written by another": lambda s: s["meta"].update(tokens={"run": "rm"}),
    "version of this project": lambda s: s.update(vocabulary=3),
    "hidden_size": lambda s: s["config"].update(hidden_size=-1),
    "does not hold the weights": lambda s: s["config"].update(embed_dim=7),
    "is no model of sentences": lambda s: s.clear(),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_checkpoint_that_contradicts_itself(words, checkpoint):
    with pytest.raises(UserError, match=words):
        Predictor.load(checkpoint(CHANGES[words]))


def test_a_training_goes_on_with_its_own_words_only(folder):
    task, model, *_ = built(folder("classification"))
    state = task.state_dict()
    task.check_state(state, "x.pt")
    (task.folder.path / "dict.txt").write_text("a 4\ncat 2\nruns 2\n")
    other, *_ = built(task.folder.path)
    with pytest.raises(UserError, match=r"and x.pt differ: 3 and 3 words; give the folder and"):
        other.check_state(state, "x.pt")
    assert all(name.startswith(PREFIX) for name in model.state_dict())
    assert SentenceState.load(state, "x.pt").vocabulary.words == ("a", "dog", "runs")
    state[KEY]["meta"]["fold"] = 1
    with pytest.raises(UserError, match=r"differ: the folds None and 1; give the folder and"):
        task.check_state(state, "x.pt")


FOLDS, SHARE = {"folds": 3, "fold": 0}, {"folds": None, "fold": None, "valid share": 0.2}
CUTS = (FOLDS, {"fold": 1}), (FOLDS, {"fold": None, "folds": None}), (SHARE, {"seed": 2})


@pytest.mark.parametrize(("cut", "change"), CUTS)
def test_a_training_starts_from_a_model_of_the_same_part(folder, cut, change):
    ours = {**cut, "seed": 1, "inputs": {"corpus": "ab", "vectors": "cd"}}
    task, *_ = built(folder("classification"))
    task.network_state = replace(task.network_state, meta={**task.network_state.meta, **ours})
    state = {KEY: {"meta": {**ours, "inputs": {"elsewhere": "ab"}}}}
    task.check_start(state, "x.pt")
    task.check_start({}, "of_a_language_model.pt")
    task.check_start({KEY: {"meta": {"folds": None}}}, "of_a_folder_of_hugging_face.pt")
    state[KEY]["meta"] |= change
    with pytest.raises(UserError, match="x.pt has learned from sentences that .* tests or va"):
        task.check_start(state, "x.pt")
    state[KEY]["meta"]["inputs"] = {"another corpus": "ef", "vectors": "cd"}
    task.check_start(state, "x.pt")


@pytest.mark.parametrize("context", ["biblosa", "disa", "mtsa"])
def test_a_language_model_is_what_its_flags_say_after_training(context):
    words = SimpleNamespace(symbols=["<pad>", "a"], pad=lambda: 0)
    task = SimpleNamespace(source_dictionary=words, sentence_lengths=(5.0, 2.0), mask_idx=1)
    flags = Namespace(context=context, embed_dim=8, hidden_size=6, max_tokens=64)
    ARCH_CONFIG_REGISTRY["sentence_lm"](flags)
    first, again = (SentenceLanguageModel.build_model(flags, task) for _ in range(2))
    configs = [model.network.encoder.context.layer.config for model in (first, again)]
    assert configs[0] == configs[1] and configs[0].dense_dropout == flags.dropout
    with pytest.raises(UserError, match="fit --arch sentence_lm; give --criterion masked_lm"):
        SentenceLanguageModel.build_model(Namespace(**vars(flags), criterion="cross_entropy"), task)
    del task.mask_idx  # it would see the words that a model from left to right has to predict
    with pytest.raises(UserError, match="--arch sentence_lm needs --task masked_lm, not Simple"):
        SentenceLanguageModel.build_model(flags, task)
