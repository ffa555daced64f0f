"""``--criterion policy_gradient`` in real runs: phases, gradients, processes, resuming."""

import copy
import itertools
import shutil
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics

from plugin.criterions.policy_gradient import PolicyGradientConfig, PolicyGradientCriterion
from plugin.modules.policy_phases import PolicyPhases
from selfattn.errors import UserError
from selfattn.layers import build_attention
from selfattn.layers.resa import Choice
from selfattn.layers.selection import Selection
from selfattn_tasks import checkpoints
from selfattn_tasks.srl.formats import conll
from tests.plugin.helpers import FLAGS, hypotheses, logged, sentence, weights
from tests.plugin.srl_corpus import sentences
from tests.plugin.test_distributed import two_processes

RESA = """
    --arch transformer_resa_tiny --criterion policy_gradient --select-all-updates 3
    --policy-only-updates 3 --reward-baseline running_mean --encoder-layers 2
""".split()

TAGGER = """
    --user-dir plugin --task srl_tagging --arch deepatt_resa --encoder-layers 2
    --encoder-attention-heads 2 --encoder-embed-dim 32 --word-embed-dim 16 --optimizer adam
    --lr 0.003 --max-tokens 400 --cpu --num-workers 0 --no-progress-bar --log-format json --seed 1
""".split()


@pytest.fixture(scope="module")
def whole(train, tmp_path_factory):
    """Folder and log of a run through all phases: 3 updates each, and 4 of both."""
    folder = tmp_path_factory.mktemp("resa") / "whole"
    flags = ("--max-update", "10", "--save-interval-updates", "1", "--eval-bleu")
    return folder, train(folder, *RESA, *flags)


def change(folder, first, last):
    """Which weights moved between two numbers of updates: (of the samplers, of the rest)."""
    paths = [next(folder.glob(f"checkpoint_*_{n}.pt")) for n in (first, last)]
    before, after = (weights(path) for path in paths)
    moved = {n for n, t in before.items() if not torch.equal(t, after[n])}
    moved -= {n for n in moved if n.endswith("_extra_state")}  # whether everything is selected
    policy = {n for n in before if "_sampler." in n}
    return moved & policy, moved - policy


def test_each_phase_trains_its_own_parameters(whole):
    folder, log = whole
    policy, rest = change(folder, 1, 3)
    assert rest and not policy
    policy, rest = change(folder, 3, 6)
    assert policy and not rest
    assert all(change(folder, 6, 9))
    updates = logged(log, "train_inner")
    for record in updates:
        everything = int(record["num_updates"]) <= 3
        assert (float(record["selected_heads"]) == 1) is everything
        assert (float(record["selection_entropy"]) == 0) is everything
        assert float(record["reward"]) < 0
    valid = logged(log, "valid")[-1]
    for name in ("reward", "selected_dependents", "loss", "nll_loss", "ppl"):
        assert f"valid_{name}" in valid
    # It means something for samples alone, and validation selects without any.
    assert "policy_loss" in updates[-1] and "valid_policy_loss" not in valid
    assert 0 < float(valid["valid_selected_heads"]) < 1


def test_a_resumed_training_is_the_same(whole, train, tmp_path):
    """In the policy's phase: with its parameters, baseline and optimizer."""
    folder, log = whole
    resumed = tmp_path / "run"
    resumed.mkdir()
    shutil.copy(next(folder.glob("checkpoint_*_4.pt")), resumed / "checkpoint_last.pt")
    again = train(resumed, *RESA, "--max-update", "10")
    names = ("reward", "policy_loss", "selected_heads", "loss", "gnorm")
    expected, got = (
        {r["num_updates"]: [r[n] for n in names] for r in logged(lines, "train_inner")}
        for lines in (log, again)
    )
    assert list(got) == ["5", "6", "7", "8", "9", "10"]
    assert got == {number: expected[number] for number in got}
    name = "encoder.layers.0.self_attn.attention._extra_state"
    states = [checkpoints.read(f / "checkpoint_last.pt")["model"][name] for f in (folder, resumed)]
    assert torch.equal(*states)
    assert states[0][0] == 0 and states[0][1] < 0  # not everything selected; the baseline


def test_generation_is_deterministic_unless_sampling_is_asked_for(whole, prepared, run_cli):
    folder, _ = whole
    path = str(folder / "checkpoint_last.pt")
    command = ["-m", "fairseq_cli.generate", prepared / "data-bin", "--user-dir", "plugin", "--cpu"]
    command += ["--path", path, "--beam", "2", "--remove-bpe", "sentencepiece"]

    def generate(*flags):
        done = run_cli([*command, *flags]).ok()
        return hypotheses(done.stdout)

    first, second = generate("--seed", "1"), generate("--seed", "2")
    sampling = "{'resa_test_selection': 'sample'}"
    others = generate("--seed", "1", "--model-overrides", sampling)
    assert first == second
    assert first != others
    assert len(first) == len(others) == 20


def test_two_processes(prepared, run_cli, tmp_path):
    """With fairseq's default backend, through all phases, and two forward passes an update."""
    more = ("--max-update", "8", "--dropout", "0.1", "--reward-baseline", "select_all")
    more += ("--resa-sampler-lr-scale", "0.1")
    tmp_path /= "run"
    outputs = two_processes(run_cli, prepared / "data-bin", tmp_path, *RESA, *more)
    records = logged("\n".join(outputs).splitlines(), "train_inner")
    assert len(records) == 8
    assert [float(r["selected_heads"]) == 1 for r in records] == [True] * 3 + [False] * 5


def test_loss_and_bleu_are_those_of_the_usual_criterion(whole, train, tmp_path):
    """The weights of the end, validated by it after an update that changes nothing."""
    folder, log = whole
    usual = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1", "--lr", "0")
    start = ("--restore-file", str(folder / "checkpoint_last.pt"), "--reset-optimizer")
    start += ("--reset-dataloader", "--reset-meters", "--reset-lr-scheduler")
    again = train(
        tmp_path, *RESA[:2], *RESA[-2:], *usual, *start, "--max-update", "1", "--eval-bleu"
    )
    expected, got = (logged(lines, "valid")[-1] for lines in (again, log))
    for name in ("valid_loss", "valid_nll_loss", "valid_ppl", "valid_bleu"):
        assert got[name] == expected[name]


@pytest.fixture(scope="module")
def propositions(run_cli, tmp_path_factory):
    """A small prepared folder of propositions."""
    folder = tmp_path_factory.mktemp("srl")
    for split, size, seed in (("train", 60, 1), ("valid", 15, 2)):
        conll.write_columns(folder / f"{split}.conll", sentences(size, seed))
    files = [f"--{split}={folder / split}.conll" for split in ("train", "valid")]
    run_cli(["scripts/prepare_srl.py", *files, "--dest", folder / "data"]).ok()
    return folder / "data"


def test_labelling_has_its_own_loss_and_f1(propositions, run_cli, tmp_path):
    """Trained by policy gradient, validated again by bio_tagging after an update of nothing."""
    policy = ["--criterion", "policy_gradient", "--select-all-updates", "2", "--max-update", "5"]
    usual = ["--criterion", "bio_tagging", "--lr", "0", "--max-update", "1"]
    usual += ["--restore-file", tmp_path / "policy" / "checkpoint_last.pt", "--reset-optimizer"]
    usual += ["--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"]
    found = []
    for name, flags in (("policy", policy), ("usual", usual)):
        command = ["-m", "fairseq_cli.train", propositions, *TAGGER, "--save-dir", tmp_path / name]
        found.append(logged(run_cli([*command, *flags]).ok().lines, "valid")[-1])
    expected, got = found[1], found[0]
    for name in ("valid_loss", "valid_accuracy", "valid_f1", "valid_perfect_props"):
        assert got[name] == expected[name]
    assert float(got["valid_reward"]) < 0


def test_a_model_without_a_selection_is_refused(prepared, run_cli, tmp_path):
    flags = [*FLAGS, "--criterion", "policy_gradient", "--save-dir", tmp_path]
    done = run_cli(["-m", "fairseq_cli.train", prepared / "data-bin", *flags], timeout=600)
    assert "this model has none" in sentence(done)
    assert not list(tmp_path.glob("*.pt"))


def test_what_would_be_silently_wrong_is_refused():
    model, phases = Reward(), PolicyPhases(select_all=1, policy_only=1)
    phases.check(model)
    with pytest.raises(UserError, match="--policy-only-updates 1 needs parameters in float32"):
        phases.check(copy.deepcopy(model).half())
    with pytest.raises(UserError, match="--resa-sampler none has none; leave the criterion out"):
        phases.check(Reward(sampler="none"))
    model.args = SimpleNamespace(checkpoint_activations=True)
    with pytest.raises(UserError, match="--checkpoint-activations does not work"):
        phases.check(model)
    for wrong in ({"select_all_updates": -1}, {"policy_only_updates": -2}):
        with pytest.raises(UserError, match="-[12].* is not allowed; it must be at least 0"):
            built(**wrong)
    with pytest.raises(UserError, match="-1 is not allowed; it must be finite and at least 0"):
        built(selection_cost=-1)
    with pytest.raises(UserError, match="--selection-cost nan is not allowed"):
        built(selection_cost=float("nan"))


def built(**flags):
    """The criterion on a task that does nothing."""
    task = SimpleNamespace(supervised_criterion="bio_tagging", target_dictionary=None)
    task.begin_epoch = task.train_step = task.optimizer_step = None
    return PolicyGradientCriterion(task, PolicyGradientConfig(**flags))


class Reward(torch.nn.Module):
    """Stands for a model: one ReSA layer, and a loss of the layer's output."""

    def __init__(self, **switches):
        super().__init__()
        torch.manual_seed(1)
        self.layer = build_attention("resa", 8, 2, **switches)
        self.classifier = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.classifier(self.layer(x))


def losses_of(scores, target):
    """Of each sentence."""
    return torch.nn.functional.cross_entropy(
        scores.transpose(1, 2), target, ignore_index=-100, reduction="none"
    ).sum(1)


@pytest.mark.parametrize("known", [None, -2.5])
@pytest.mark.parametrize("sentences", [1, 2, 8])
def test_a_running_mean_takes_nothing_from_the_gradient(sentences, known):
    """Its expectation over all selections is that of the reward, in the first update as well."""
    criterion = built(reward_baseline="running_mean", selection_cost=0.0)
    logits = torch.full((sentences,), 0.3, dtype=torch.float64, requires_grad=True)
    rewards, total = torch.tensor([-3.0, -1.0], dtype=torch.float64), torch.tensor(0.0)
    for outcome in itertools.product([False, True], repeat=sentences):
        selected = torch.tensor(outcome)[:, None]
        found = Selection.of(selected, logits[:, None], torch.ones_like(selected))
        layer = SimpleNamespace(take_choice=lambda: Choice(found, found), reward_mean=known)  # noqa: B023
        losses = -rewards[selected[:, 0].long()]
        batch = {"target": torch.zeros(sentences, 1, dtype=torch.long)}
        policy, _ = criterion._policy([layer], losses, None, batch)
        total = total + found.log_probability.sum().exp().detach() * policy / sentences
    p = torch.sigmoid(logits.detach())
    expected = -(rewards[1] - rewards[0]) * p * (1 - p) / sentences
    torch.testing.assert_close(torch.autograd.grad(total, logits)[0], expected)


def test_the_reward_is_the_log_probability_whatever_the_loss():
    """Eq. 17, with label smoothing too; the loss itself is a choice."""
    model = Reward(test_selection="sample")
    x, target = torch.randn(3, 6, 8), torch.randint(5, (3, 6))
    target[1, 4:] = -100
    sample = {"net_input": {"x": x}, "target": target}
    rewards = {}
    for kind in ("log_p", "loss"):
        for smoothing in (0.0, 0.2):
            flags = {"selection_reward": kind, "label_smoothing": smoothing}
            for baseline in ("none", "select_all"):
                torch.manual_seed(9)
                criterion = built(
                    select_all_updates=0, selection_cost=0.0, reward_baseline=baseline, **flags
                )
                rewards[kind, smoothing, baseline] = criterion(model, sample)[2]["reward"]
    torch.manual_seed(9)
    scores = model(x)
    log_p = (-losses_of(scores, target) / (target != -100).sum(1)).sum().detach()
    for (kind, smoothing, _), reward in rewards.items():
        if kind == "log_p" or smoothing == 0:
            torch.testing.assert_close(reward, log_p)
        else:
            assert (reward - log_p).abs() > 0.1


def test_a_batch_whose_layers_were_all_dropped_counts_for_nothing():
    """By --encoder-layerdrop: with the names of other batches, and outside of their means."""
    criterion, model = built(select_all_updates=0), Reward()
    sample = {"net_input": {"x": torch.randn(3, 6, 8)}, "target": torch.randint(5, (3, 6))}
    usual = criterion(model, sample)[2]
    model.layer.take_choice = lambda: None
    dropped = criterion(model, sample)[2]
    assert dropped.keys() == usual.keys()
    for logs, mean in (([usual, dropped], usual["reward"] / 3), ([dropped], None)):
        with metrics.aggregate() as found:
            PolicyGradientCriterion.reduce_metrics(logs)
        assert found.get_smoothed_values().get("reward") == (
            None if mean is None else pytest.approx(mean.item(), abs=1e-4)
        )


@pytest.mark.parametrize("size", [3, 4, 6])
def test_a_dropped_layer_has_forgotten_what_it_selected_in_a_generation(size):
    """Validation with --eval-bleu reads other sentences, and takes no choice."""
    criterion, model = built(select_all_updates=0), Reward()
    sample = {"net_input": {"x": torch.randn(3, 6, 8)}, "target": torch.randint(5, (3, 6))}
    model.layer.select_all = False
    model.layer(torch.randn(size, 6, 8))
    model.forward = lambda x: model.classifier(x)  # without the layer
    assert criterion(model, sample)[2]["policy_sentences"] == 0


@pytest.mark.parametrize("baseline", ["none", "select_all"])
@pytest.mark.parametrize("penalty", ["product", "sum"])
def test_the_loss_is_that_of_the_paper(penalty, baseline):
    """Value and gradients of both parts against the formula, from the selection that was made."""
    flags = {"selection_cost": 0.5, "selection_penalty": penalty, "label_smoothing": 0.0}
    flags["reward_baseline"] = baseline
    criterion, model = built(select_all_updates=0, **flags), Reward()
    x, target = torch.randn(4, 6, 8), torch.randint(5, (4, 6))
    target[2, 3:] = -100
    sample = {"net_input": {"x": x}, "target": target}
    torch.manual_seed(9)
    criterion.phases.at(0)
    loss, size, figures = criterion(model, sample)
    got = torch.autograd.grad(loss, list(model.parameters()))

    torch.manual_seed(9)
    scores = model(x)
    heads, dependents = model.layer.take_choice()
    words = (target != -100).sum(1)
    assert size == words.sum()
    each = losses_of(scores, target)
    share = {
        "product": heads.share * dependents.share,
        "sum": heads.share + dependents.share,
    }[penalty]
    reward = -(each.detach() / words + 0.5 * share)
    log_p = heads.log_probability + dependents.log_probability
    advantage = reward
    if baseline == "select_all":
        model.layer.select_all = True
        whole = losses_of(model(x), target).detach()
        advantage = reward + whole / words + 0.5 * {"product": 1, "sum": 2}[penalty]
    expected = each.sum() - (advantage * log_p).mean() * size
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(figures["reward"], reward.sum())
    for one, other in zip(got, torch.autograd.grad(expected, model.parameters()), strict=True):
        torch.testing.assert_close(one, other)
