"""The ReSA layer against equations 5-15 written out, token by token, in float64."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from benchmarks.testing import PADDINGS, LargestTensor, assert_close, noisy, padding_mask
from selfattn.errors import UserError
from selfattn.layers import ReSA, build_attention
from selfattn.layers import resa as module
from selfattn.layers.selection import Selection

WIDTH, BATCH, LENGTH = 8, 3, 9
UNSELECTED = ("dependents", "others", "all", "nothing")


def built(preset="paper", **switches):
    torch.manual_seed(1)
    layer = noisy(build_attention("resa", WIDTH, 2, preset=preset, **switches).double(), 0.3)
    layer.select_all = False
    return layer, torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)


def bits(share, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(BATCH, LENGTH, generator=generator) < share


def attend(layer, d, j, h, heads, dependents, real):
    """What token j of direction d gets, eq. 10-13: (D,)."""
    a, b = layer.attention.k_proj, layer.attention.q_proj
    if heads[j]:
        seen = [i for i in real if dependents[i] and (i < j if d == 0 else i > j)]
        if not seen:
            return torch.zeros_like(h[0])
        score = 5 * torch.tanh((h[seen] @ a.weight[d] + h[j] @ b.weight[d] + b.bias[d]) / 5)
        return (torch.softmax(score, 0) * h[seen]).sum(0)
    pool = {
        "dependents": [i for i in real if dependents[i]],
        "others": [i for i in real if i != j],
        "all": real,
    }[layer.config.unselected]
    return h[pool].mean(0) if pool else torch.zeros_like(h[0])


def naive(layer, x, heads, dependents, hidden):
    """The layer's output at the real tokens, one after the other; 0 elsewhere."""
    out = 0 * x.clone()  # so that it has a graph where no token is selected
    for row in range(BATCH):
        real = [i for i in range(LENGTH) if not hidden[row, i]]
        mapped = layer.activation(layer.input_map(x[row])).chunk(2, -1)
        for d, h in enumerate(mapped):
            gate = layer.gate.linear
            for j in real:
                if layer.config.unselected == "nothing" and not heads[row][j]:
                    continue
                s = attend(layer, d, j, h, heads[row], dependents[row], real)
                logits = torch.cat([h[j], s]) @ gate.weight[d] + gate.bias[d]
                if layer.gate.more_biases is not None:
                    logits = logits + layer.gate.more_biases.sum(0)[d, 0]
                g = torch.sigmoid(logits)  # eq. 14, 15
                out[row, j, d * 4 : d * 4 + 4] = g * h[j] + (1 - g) * s
    return out


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0, 0), (1, 1), (0, 1), (1, 0)])
@pytest.mark.parametrize("unselected", UNSELECTED)
@pytest.mark.parametrize("preset", ["paper", "code"])
def test_the_layer_is_its_equations(monkeypatch, preset, unselected, shares, padding):
    layer, x = built(preset, unselected=unselected)
    hidden = padding_mask(padding, BATCH, LENGTH)
    padded = torch.zeros(BATCH, LENGTH, dtype=torch.bool) if hidden is None else hidden
    heads, dependents = (bits(share, i) & ~padded for i, share in enumerate(shares))
    chosen = iter((heads, dependents))
    monkeypatch.setattr("selfattn.layers.rss.decide", lambda *_: next(chosen), raising=True)
    weights = torch.randn_like(x).masked_fill(padded[..., None], 0.0)
    parameters = [p for n, p in layer.named_parameters() if "sampler" not in n]
    expected = naive(layer, x, heads, dependents, padded)
    want = torch.autograd.grad((expected * weights).sum(), [x, *parameters], allow_unused=True)
    y = layer(x, hidden)
    got = torch.autograd.grad((y * weights).sum(), [x, *parameters])
    assert_close("output", expected, y.masked_fill(padded[..., None], 0.0), 1e-12)
    for e, g in zip(want, got, strict=True):
        assert_close("gradient", torch.zeros_like(g) if e is None else e, g, 1e-11)


@pytest.mark.parametrize("sampler", ["parallel", "iterative"])
def test_the_initial_bias_decides_how_much_is_selected_first(sampler):
    torch.manual_seed(1)
    layer = build_attention("resa", WIDTH, 2, sampler=sampler, sampler_bias_init=5.0)
    layer.select_all = False
    layer.eval()(torch.randn(BATCH, LENGTH, WIDTH))
    assert all(selection.probability.mean() > 0.95 for selection in layer.take_choice())


def weights_of(sampler):
    """Copies of its weights, whatever they are stored as."""
    linear = [part for part in sampler.network if isinstance(part, torch.nn.Linear)]
    found = [w for part in linear for w in (part.weight, part.bias)]
    cell = getattr(sampler, "cell", None)
    found += [] if cell is None else [cell.weight_ih, cell.weight_hh, cell.bias_ih]
    return [w.detach().clone() for w in found]


@pytest.mark.parametrize("sampler", ["parallel", "iterative"])
def test_the_samplers_can_learn_at_another_rate(sampler):
    """The same weights, and a step of Adam of the same direction and a hundredth of the length."""
    before, after, x = {}, {}, torch.randn(BATCH, LENGTH, WIDTH)
    for scale in (1.0, 0.01):
        torch.manual_seed(1)
        layer = build_attention("resa", WIDTH, 2, sampler=sampler, sampler_lr_scale=scale)
        layer.select_all = False
        before[scale] = weights_of(layer.head_sampler)
        optimizer = torch.optim.Adam(layer.policy_parameters(), lr=0.001, eps=1e-30)
        layer(x)
        layer.take_choice().log_probability.sum().backward()
        optimizer.step()
        after[scale] = weights_of(layer.head_sampler)
    steps = {
        scale: [a - b for a, b in zip(after[scale], before[scale], strict=True)] for scale in after
    }
    for fast, slow, same, start in zip(steps[1], steps[0.01], before[1], before[0.01], strict=True):
        torch.testing.assert_close(start, same)
        torch.testing.assert_close(slow, 0.01 * fast, rtol=0.02, atol=1e-7)
        assert fast.abs().max() == pytest.approx(0.001, rel=1e-2)
    copy_of = build_attention("resa", WIDTH, 2, sampler=sampler, sampler_lr_scale=0.01)
    copy_of.load_state_dict(layer.state_dict())
    for want, found in zip(after[0.01], weights_of(copy_of.head_sampler), strict=True):
        assert torch.equal(want, found)


def test_a_learning_rate_of_zero_is_refused():
    with pytest.raises(UserError, match="sampler_lr_scale 0.0 is not allowed; it must be above 0"):
        build_attention("resa", WIDTH, 2, sampler_lr_scale=0.0)


def test_everything_selected_is_disa():
    layer, x = built("code")
    other = build_attention("disa", WIDTH, 2, preset="code").double()
    state = {n: t for n, t in layer.state_dict().items() if "sampler" not in n}
    other.load_state_dict({n: t for n, t in state.items() if n != "_extra_state"})
    layer.select_all = True
    hidden = padding_mask("left", BATCH, LENGTH)
    assert torch.equal(layer(x, hidden), other(x, hidden))
    assert (layer.take_choice().heads.share == 1).all()


@pytest.mark.parametrize("sampler", ["parallel", "iterative"])
@pytest.mark.parametrize("preset", ["paper", "code"])
def test_a_trained_layer_is_deterministic_and_knows_no_batch_mates(preset, sampler):
    layer, x = built(preset, sampler=sampler)
    layer.eval()
    x = x.detach()
    y = layer(x)
    choice = layer.take_choice()
    for selection in choice:
        assert torch.equal(selection.selected, selection.probability >= 0.5)
    assert 0 < choice.heads.selected.float().mean() < 1
    assert torch.equal(layer(x), y)
    for side in (0, 1):
        parts = [torch.full((BATCH, 5, WIDTH), 9.0).double(), x]
        hidden = torch.cat([torch.ones(BATCH, 5).bool(), torch.zeros(BATCH, LENGTH).bool()], 1)
        padded = torch.cat(parts[:: 1 - 2 * side], 1)
        hidden = hidden.flip(1) if side else hidden
        assert_close("padded", y, layer(padded, hidden)[~hidden].view_as(y), 1e-12)
    assert_close("alone", y[1:2], layer(x[1:2]), 1e-12)
    hidden = torch.zeros(BATCH, LENGTH).bool()
    hidden[0] = True
    assert torch.isfinite(layer(x, hidden)).all()
    assert layer.take_choice().heads.share[0] == 0


def test_sampling_at_test_time_follows_its_seed():
    layer, x = built(test_selection="sample")
    layer.eval()
    assert not torch.equal(layer(x), layer(x))
    seeded, _ = built(test_selection="sample", test_seed=3)
    seeded.load_state_dict(layer.state_dict())
    seeded.eval()
    y = seeded(x)
    choice = seeded.take_choice()
    assert torch.equal(seeded(x), y)
    assert not torch.equal(choice.heads.selected, choice.dependents.selected)
    with torch.device("meta"):
        assert torch.equal(seeded.get_extra_state(), layer.get_extra_state())
    assert seeded.to("meta")(x.to("meta")).shape == x.shape


def test_training_samples_and_the_state_is_stored():
    layer, x = built()
    assert not torch.equal(layer(x), layer(x))
    fresh, _ = built()
    fresh.select_all = True
    fresh.load_state_dict(layer.state_dict())
    assert not fresh.select_all
    for mean in (None, 0.25):
        layer.reward_mean = mean
        state = layer.get_extra_state()
        fresh.set_extra_state(state)
        assert (len(state), fresh.reward_mean) == (3, mean)
        fresh.set_extra_state(state[: 1 + (mean is not None)])  # as version 0.1 wrote it
        assert (fresh.select_all, fresh.reward_mean) == (False, mean)
    copied = copy.deepcopy(layer)  # with a graph of log probabilities that nobody took
    assert copied.take_choice() is None
    for other in (fresh, copied):
        assert torch.equal(other.eval()(x), layer.eval()(x))


@pytest.mark.parametrize("sampler", ["parallel", "iterative"])
def test_gradients_are_kept_apart(sampler):
    """The output's gradient is 0 at the samplers; the policy's is 0 everywhere else."""
    layer, x = built(sampler=sampler)
    layer(x).square().sum().backward()
    policy = {id(p) for p in layer.policy_parameters()}
    assert len(policy) == len(layer.policy_parameters()) > 0
    for parameter in layer.parameters():
        assert (parameter.grad == 0).all() == (id(parameter) in policy)
    layer.zero_grad()
    x.grad = None
    layer(x)
    layer.inspect(x.detach())  # a look takes nothing from the loss
    layer.take_choice().log_probability.sum().backward()
    assert x.grad is None
    for name, parameter in layer.named_parameters():
        assert (parameter.grad is not None) == (id(parameter) in policy), name
    assert layer.take_choice() is None


def test_a_selection_without_attention_gives_the_selected_tokens():
    """The ablation without soft self-attention: one sampler, its tokens, and nothing learnt."""
    layer, x = built("code", soft_attention=False, head_dim=300)
    assert layer.output_dim == WIDTH
    assert all(name.startswith("head_sampler") for name, _ in layer.named_parameters())
    hidden = padding_mask("left", BATCH, LENGTH)
    y = layer(x, hidden)
    assert torch.equal(layer.dropped(), y.abs().sum(-1) == 0)
    heads, dependents = layer.take_choice()
    assert heads is dependents and 0 < heads.selected.sum() < (~hidden).sum()
    assert torch.equal(y, x.masked_fill(~heads.selected[..., None], 0.0))
    found = layer.inspect(x, hidden)
    assert found.token2token is None
    assert torch.equal(found.heads, layer.head_sampler(x, hidden, "threshold").selected)
    layer.select_all = True
    assert torch.equal(layer(x, hidden), x.masked_fill(hidden[..., None], 0.0))
    assert layer.dropped() is None


def test_without_a_sampler_it_is_disa_and_has_no_policy(caplog):
    layer, x = built("code", sampler="none")
    disa = build_attention("disa", WIDTH, 2, preset="code").double()
    disa.load_state_dict({k: v for k, v in layer.state_dict().items() if k != "_extra_state"})
    assert layer.policy_parameters() == []
    for layer.select_all in (False, True):
        assert torch.equal(layer(x), disa(x))
        assert layer.take_choice().heads.share.tolist() == [1.0] * BATCH
    assert not caplog.records
    assert layer.inspect(x).head_probability is None


def test_a_shared_selection_counts_once():
    layer, x = built(shared_selection=True)
    layer(x)
    heads, dependents = choice = layer.take_choice()
    assert torch.equal(heads.selected, dependents.selected)
    assert torch.equal(choice.log_probability, heads.log_probability)


def test_memory_is_linear():
    layer, _ = built()
    layer = layer.float()
    sizes = []
    for length in (256, 1024):
        x = torch.randn(1, length, WIDTH, requires_grad=True)
        with LargestTensor() as seen:
            layer(x).sum().backward()
        sizes.append(seen.size)
    assert sizes[1] <= 4 * sizes[0]


def test_a_selection_reports_what_was_selected():
    selected = torch.tensor([[True, False, True, False]])
    logits = torch.tensor([[0.0, 1.0, 60.0, 3.0]], dtype=torch.float64)
    real = torch.tensor([[True, True, True, False]])
    found = Selection.of(selected, logits, real)
    p = torch.sigmoid(logits[0])
    assert_close("log p", p[0].log() + (1 - p[1]).log(), found.log_probability[0], 1e-12)
    entropy = sum(-F.logsigmoid(t) * torch.sigmoid(t) for t in (*logits[0, :2], *-logits[0, :2]))
    assert_close("entropy", entropy / 3, found.entropy[0], 1e-6)
    assert found.share.item() == pytest.approx(2 / 3)
    assert (found.probability[0, 3] == 0) and not found.probability.requires_grad
    surprise = Selection.of(~selected & real, logits, real).log_probability[0]
    assert_close("clipped", p[1].log() + p[0].log() + torch.tensor(1e-10).log(), surprise, 1e-6)


def test_inspection_shows_the_selection():
    layer, x = built("code")
    layer.eval()
    hidden = padding_mask("left", BATCH, LENGTH)
    layer(x, hidden)
    heads, dependents = layer.take_choice()
    found = layer.inspect(x, hidden)
    assert torch.equal(found.heads, heads.selected)
    assert torch.equal(found.dependents, dependents.selected)
    assert torch.equal(found.head_probability, heads.probability)
    before = dependents.selected.cumsum(1) - dependents.selected.long()
    after = dependents.selected.sum(1, keepdim=True) - before - dependents.selected.long()
    sees = heads.selected[:, None] & (torch.stack([before, after], 1) > 0)
    assert 0 < sees.sum() < sees.numel()
    assert_close("sums of weights", sees.double(), found.token2token.sum(-1), 1e-9)
    unseen = ~dependents.selected[:, None, None].expand_as(found.token2token)
    assert (found.token2token[unseen] == 0).all()
    assert found.gate.shape == (BATCH, 2, LENGTH)
    layer.select_all = True
    assert layer.inspect(x).head_probability is None


def test_training_without_a_policy_warns_once(caplog):
    layer, x = built()
    layer.select_all = True
    module._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        layer(x)
        layer(x)
    assert len(caplog.records) == 1
    assert "--criterion policy_gradient" in caplog.text


def test_selecting_without_gradients_in_training_warns_once(caplog):
    layer, x = built()
    module._warn_of_no_graph_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        checkpoint(layer, x.detach(), use_reentrant=False)
        assert not caplog.records
        for _ in range(2):
            checkpoint(layer, x, use_reentrant=True)
    assert [record.message for record in caplog.records if "use_reentrant" in record.message]
    assert len(caplog.records) == 1


def test_bad_switches_are_refused():
    with pytest.raises(UserError, match="sampler_hidden 0 is not allowed"):
        build_attention("resa", WIDTH, 2, sampler_hidden=0)
    with pytest.raises(UserError, match="unselected 'none' is not allowed"):
        build_attention("resa", WIDTH, 2, unselected="none")
    assert ReSA is type(build_attention("resa", WIDTH, 2))
