"""What every attention layer promises, whatever its mechanism."""

import copy
import math
from dataclasses import fields
from typing import get_type_hints

import pytest
import torch

from benchmarks.testing import assert_close, noisy, run_with_grads
from selfattn.config import CONFIGS
from selfattn.config.base import is_constant
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS, build_attention

FORMS = [
    (name, preset, {}) for name in ATTENTIONS for preset in (list(CONFIGS[name].presets) or [None])
]
# Switches that make another mechanism of one.
FORMS += [("mtsa", "paper", {"scores": "token2token"}), ("mtsa", "srl", {"scores": "source2token"})]
FORMS += [("biblosa", "code", {"contexts": "local"}), ("biblosa", "paper", {"contexts": "global"})]
FORMS += [("resa", "code", {"unselected": "nothing"}), ("resa", "code", {"sampler": "iterative"})]
FORMS += [
    ("multihead", None, switches)
    for switches in (
        {"masks": "forward_backward"},
        {"masks": "backward", "include_self": True},
        {"window": 2},
        {"masks": "forward", "distance": "log"},
        {"positions": "relative", "relative_clip": 3},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"positions": "relative", "masks": "forward_backward"},
        {"positions": "rotary", "masks": "backward"},
    )
]
WIDTH, HEADS = 24, 4


def title(form):
    name, preset, switches = form
    return "-".join(filter(None, (name, preset, *map(str, switches.values()))))


def built(form):
    torch.manual_seed(0)
    name, preset, switches = form
    return noisy(build_attention(name, WIDTH, HEADS, preset=preset, **switches).double(), 0.1)


def has_products(name, preset, switches):
    """Whether a form has dot products of queries and keys."""
    config = CONFIGS[name].make(preset, **switches)
    one_sided = getattr(config, "scores", "") == "source2token"
    return name in ("multihead", "mtsa", "fast_disa") and not one_sided


@pytest.fixture(params=FORMS, ids=title)
def layer(request):
    return built(request.param)


def tokens(batch=3, length=9, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, WIDTH, generator=generator, dtype=torch.float64)


def test_shape_and_gradients_of_every_parameter(layer):
    x = tokens(length=12).requires_grad_()  # 3 whole blocks of Bi-BloSA
    y = layer(x)
    assert y.shape == (3, 12, layer.output_dim) == (3, 12, WIDTH)
    y.square().sum().backward()
    policy = {id(parameter) for parameter in layer.policy_parameters()}
    for name, parameter in [("x", x), *layer.named_parameters()]:
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        if id(parameter) in policy:  # trained by policy gradient alone, see test_resa.py
            assert (parameter.grad == 0).all(), name
            continue
        # A key bias shifts all scores of a query alike: its gradient is zero in some forms.
        assert name.endswith("bias") or parameter.grad.abs().max() > 1e-12, name


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("extra", [1, 70])
def test_padding_from_either_side_changes_no_real_token(layer, side, extra):
    x = tokens()
    filler = 3 * torch.randn(3, extra, WIDTH, dtype=torch.float64)
    filler[0, 0] = torch.nan
    hidden = torch.zeros(3, 9 + extra, dtype=torch.bool)
    if side == "left":
        padded, real = torch.cat([filler, x], 1), slice(extra, None)
        hidden[:, :extra] = True
    else:
        padded, real = torch.cat([x, filler], 1), slice(0, 9)
        hidden[:, 9:] = True
    assert_close("real tokens", layer(x), layer(padded, hidden)[:, real], 1e-12)


def test_nan_at_padding_reaches_no_gradient(layer):
    hidden = torch.tensor([[0] * 9, [1] * 4 + [0] * 5, [0] * 7 + [1] * 2]).bool()
    x = tokens().masked_fill(hidden[..., None], torch.nan).requires_grad_()
    layer(x, hidden)[~hidden].sum().backward()
    for name, parameter in (("x", x), *layer.named_parameters()):
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


def test_a_batch_of_one_equals_a_row_of_a_batch(layer):
    x = tokens()
    hidden = torch.tensor([[0] * 9, [1] * 4 + [0] * 5, [0] * 7 + [1] * 2]).bool()
    together = layer(x, hidden)
    for row in range(3):
        alone = layer(x[row : row + 1], hidden[row : row + 1])
        real = ~hidden[row]
        assert_close(f"row {row}", together[row][real], alone[0][real], 1e-12)


def test_rows_of_padding_alone_stay_finite_and_harm_nobody(layer):
    x = tokens().requires_grad_()
    hidden = torch.zeros(3, 9, dtype=torch.bool)
    hidden[1] = True
    y = layer(x, hidden)
    assert torch.isfinite(y).all()
    assert_close("other rows", layer(x[::2]), y[::2], 1e-12)
    with torch.autograd.set_detect_anomaly(True):  # no NaN, not even on the way
        layer(x, hidden).sum().backward()
    x.grad = None
    y[::2].sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[1] == 0).all()


@pytest.mark.parametrize("length", [1, 2])
def test_very_short_sentences(layer, length):
    y = layer(tokens(length=length))
    assert y.shape == (3, length, WIDTH)
    assert torch.isfinite(y).all()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)], ids=str)
def test_no_sentence_or_no_token_goes_through_forward_backward_and_inspection(layer, shape, masked):
    hidden = torch.zeros(shape, dtype=torch.bool) if masked else None
    if hasattr(layer, "select_all"):
        layer.select_all = False
    x = torch.zeros(*shape, WIDTH, dtype=torch.float64, requires_grad=True)
    y = layer(x, hidden)
    assert y.shape == (*shape, WIDTH)
    y.sum().backward()
    assert x.grad.shape == x.shape
    for parameter in layer.parameters():
        assert (parameter.grad == 0).all()
    assert layer.inspect(x, hidden).token2token.shape[::3] == (shape[0], shape[1])


def test_train_and_eval_agree_without_dropout(layer):
    x = tokens()
    assert torch.equal(layer.train()(x), layer.eval()(x))


def test_dropout_is_for_training_and_follows_the_seed(layer):
    dropping = build_attention(layer.config, WIDTH, HEADS, attention_dropout=0.3).double()
    dropping.load_state_dict(layer.state_dict())
    x = tokens()
    assert torch.equal(dropping.eval()(x), layer.eval()(x))
    dropping.train()
    torch.manual_seed(5)
    first = dropping(x)
    torch.manual_seed(5)
    assert torch.equal(first, dropping(x))
    assert not torch.equal(first, dropping(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_finite_and_near(layer, dtype):
    x = tokens()
    low = copy.deepcopy(layer).to(dtype)
    rounded = x.to(dtype).requires_grad_()
    y = low(rounded)
    assert y.dtype == dtype
    y.float().square().sum().backward()
    assert torch.isfinite(rounded.grad).all()
    assert_close("half precision", layer(x), y, 0.05 if dtype == torch.bfloat16 else 0.01)


def test_float32_on_the_device_is_float64_without_kernels(layer, device):
    """Where ``--device cuda`` runs it, by Triton's kernels."""
    x, hidden = tokens(length=70), torch.zeros(3, 70, dtype=torch.bool)
    hidden[1, :20] = hidden[2, 30:] = True
    upstream = tokens(length=70, seed=2).masked_fill(hidden[..., None], 0.0)
    there = copy.deepcopy(layer).to(device, torch.float32)
    place = hidden.to(device)
    want = run_with_grads(lambda t: layer(t, hidden), [x], upstream)
    found = run_with_grads(
        lambda t: there(t, place), [x.to(device, torch.float32)], upstream.to(device)
    )
    for name, a, b in zip(("output", "gradient"), want, found, strict=True):
        assert_close(name, a[~hidden], b.cpu()[~hidden], 2e-5)


@pytest.mark.parametrize("form", FORMS, ids=title)
def test_gradcheck(form):
    """Of a random projection of the Jacobian, in which an error anywhere is seen."""
    layer, x = built(form), tokens(batch=2, length=5).requires_grad_()
    hidden = torch.tensor([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
    torch.autograd.gradcheck(lambda t: layer(t, hidden), (x,), fast_mode=True)


def test_state_dict_round_trip(layer, tmp_path):
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = build_attention(layer.config, WIDTH, HEADS).double()
    assert not torch.equal(other(tokens()), layer(tokens()))
    other.load_state_dict(torch.load(tmp_path / "layer.pt"))
    assert torch.equal(other(tokens()), layer(tokens()))


def test_weights_fill_a_layer_that_was_made_without_memory(layer):
    with torch.device("meta"):
        other = build_attention(layer.config, WIDTH, HEADS)
    other.load_state_dict(layer.state_dict(), assign=True)
    assert_close("loaded", layer(tokens()), other(tokens()), 1e-12)


def test_the_default_device_is_not_where_kernels_look(layer):
    dropping = build_attention(layer.config, WIDTH, HEADS, attention_dropout=0.3)
    x, found = tokens().float().requires_grad_(), []
    for device in ("cpu", "meta"):
        torch.manual_seed(5)
        with torch.device(device):
            (grad,) = torch.autograd.grad(dropping(x).square().sum(), x, create_graph=True)
            if layer.config.name != "multihead":  # it has no second derivative on a CPU
                (grad,) = torch.autograd.grad(grad.square().sum(), x)
        found.append(grad)
    assert torch.equal(*found)


def test_a_mask_on_another_device_is_refused(layer):
    with pytest.raises(UserError, match="padding_mask is on meta; it must be on cpu"):
        layer.float()(tokens().float(), torch.zeros(3, 9, dtype=torch.bool, device="meta"))


def test_autocast_runs_forward_and_backward(layer):
    x = tokens().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer.float()(x)
    y.float().sum().backward()
    assert torch.isfinite(x.grad).all()


def test_numbers_that_no_layer_can_have_are_refused_by_name(layer):
    """At once, in the configuration: not when the first sentence comes."""
    types = get_type_hints(type(layer.config))
    for f in fields(layer.config):
        if is_constant(f):
            continue
        numbers = {int: (None, 2**63, 2**200, 1.5, "2"), float: (None, math.nan, math.inf, "2")}
        kind = types[f.name]
        for value in numbers[int][1:] if kind == int | None else numbers.get(kind, ()):
            if (f.name, value) != ("test_seed", 2**63):  # a seed of torch
                with pytest.raises(UserError, match=f"{f.name} .* is not allowed; it must be"):
                    layer.config.with_switches(**{f.name: value})
    for wrong in (2**63, 24.0, True):
        with pytest.raises(UserError, match="embed_dim .* is not allowed; it must be"):
            build_attention(layer.config, wrong, 4)
        if not getattr(layer.config, "heads", 0):  # else it does not count
            with pytest.raises(UserError, match="num_heads .* is not allowed; it must be"):
                build_attention(layer.config, 24, wrong)


@pytest.mark.parametrize("form", [form for form in FORMS if has_products(*form)], ids=title)
def test_products_beyond_float16_are_scaled_first(form):
    layer, x = built(form), tokens()
    with torch.no_grad():
        for linear in (layer.q_proj, layer.k_proj):
            linear.weight *= 100
        q, k = layer._project(x, None)[:2]
        excess = (q @ k.mT).abs().max() / torch.finfo(torch.float16).max
        for parameter in layer.q_proj.parameters():
            parameter *= 1.5 / excess
    low = copy.deepcopy(layer).half()
    assert torch.isfinite(low(x.half())).all()
    found, want = (part.inspect(t).token2token for part, t in ((low, x.half()), (layer, x)))
    assert torch.isfinite(found).all()
    assert (found.sum(-1) - want.sum(-1)).abs().max() < 0.01


def test_inputs_of_another_shape_are_refused(layer):
    nested = torch.nested.nested_tensor([tokens()[0], tokens()[0, :4]], layout=torch.jagged)
    with pytest.raises(UserError, match="x is a nested tensor; it must be a padded batch"):
        layer(nested)
    with pytest.raises(UserError, match=r"x is a ndarray; it must be a tensor \(B, T, 24\)"):
        layer(tokens().numpy())
    with pytest.raises(UserError, match=r"x has shape \(3, 9, 5\); it must be \(B, T, 24\)"):
        layer(tokens()[..., :5])
    with pytest.raises(UserError, match=r"padding_mask has shape \(3, 8\)"):
        layer(tokens(), torch.zeros(3, 8, dtype=torch.bool))
