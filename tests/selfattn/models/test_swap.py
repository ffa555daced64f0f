"""swap: other attentions in models of torch.nn that exist."""

import copy
import re

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from benchmarks.testing import assert_close, noisy
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS, MTSA
from selfattn.models import AsMultihead, Encoder, EncoderLayer, swap
from tests.selfattn.models.test_torch import (
    CAUSAL,
    HEADS,
    PADDING,
    SIZES,
    WIDTH,
    switches,
    tokens,
)

# What torch warns of when it leaves its fast path.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API")


@pytest.mark.parametrize("name", ATTENTIONS)
def test_swap_keeps_weights_mode_and_calls(name):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES, batch_first=True), 2).eval()
    model.layers[1].requires_grad_(False)
    before = copy.deepcopy(model)
    report = swap(model, name, **switches(name))
    assert list(report.replaced) == ["layers.0.self_attn", "layers.1.self_attn"]
    assert not report.kept
    for number, (old, layer) in enumerate(zip(before.layers, model.layers, strict=True)):
        assert isinstance(layer.self_attn, AsMultihead) and not layer.self_attn.training
        taken, new, left = report.replaced[f"layers.{number}.self_attn"]
        own = dict(layer.self_attn.attention.named_parameters())
        assert {*taken, *new} == own.keys()
        for part, expected in zip("qkv", old.self_attn.in_proj_weight.chunk(3), strict=True):
            weight = f"{part}_proj.weight"
            assert (weight in taken) != (weight in left)
            if weight in taken:
                assert torch.equal(own[weight], expected)
                assert own[weight].requires_grad == old.self_attn.in_proj_weight.requires_grad
    with torch.no_grad():  # where torch's fast path would be taken
        y, other = (m(tokens(), src_key_padding_mask=PADDING)[~PADDING] for m in (model, before))
    assert not torch.allclose(y, other, atol=1e-3)
    model.train()(tokens(), src_key_padding_mask=PADDING)


def test_a_dropout_that_is_given_wins():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)
    swap(layer, "mtsa", attention_dropout=0.3)
    assert layer.self_attn.attention.config.attention_dropout == 0.3


def test_swap_of_a_transformer_says_what_it_kept():
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 32, batch_first=True)
    report = swap(model, "mtsa", preset="nmt")
    assert list(report.replaced) == ["encoder.layers.0.self_attn"]
    assert "must not look ahead" in report.kept["decoder.layers.0.self_attn"]
    assert "cross-attention" in report.kept["decoder.layers.0.multihead_attn"]
    assert str(report).startswith("replaced encoder.layers.0.self_attn: weights copied: v_proj")
    layer = nn.TransformerDecoderLayer(16, 2, batch_first=True)
    for name in ("biblosa", "resa"):  # blocks, samplers and means see what comes after
        with pytest.raises(UserError, match=f"'{name}' sees beyond its positional masks"):
            swap(layer, name, masks="forward")


@pytest.mark.parametrize("attention", ["mtsa", "disa"])
def test_a_swapped_decoder_does_not_look_ahead(attention):
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 32, batch_first=True)
    switches = {"masks": "forward", "include_self": True}
    report = swap(model, attention, only="decoder.*", **switches)
    assert list(report.replaced) == ["decoder.layers.0.self_attn"]
    x = tokens()
    first = model.eval()(x, x, tgt_mask=CAUSAL)
    later = model(x, torch.cat([x[:, :3], tokens(seed=2)[:, 3:]], 1), tgt_mask=CAUSAL)
    assert_close("what a token sees", first[:, :3], later[:, :3], 1e-6)


def test_swap_takes_over_what_parametrisations_compute():
    model = nn.TransformerEncoderLayer(**SIZES, batch_first=True).eval()
    for module, name in ((model.self_attn, "in_proj_weight"), (model.self_attn.out_proj, "weight")):
        nn.utils.parametrizations.weight_norm(module, name).get_parameter(
            f"parametrizations.{name}.original0"
        ).data.mul_(2.0)
    before = model(tokens())
    with torch.no_grad():  # where computed weights take no gradient
        report = swap(model, "multihead")
    assert not (report.replaced["self_attn"].new or report.replaced["self_attn"].left)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert_close("output", before, model(tokens()), 1e-6)


class Mixed(nn.Module):
    """What swap must tell apart."""

    def __init__(self):
        super().__init__()
        self.own = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.again = self.own
        self.wide = nn.MultiheadAttention(WIDTH, HEADS, kdim=8)
        self.more = nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True)
        self.zero = nn.MultiheadAttention(WIDTH, HEADS, add_zero_attn=True)
        self.odd = nn.MultiheadAttention(9, 3)
        self.strange = type("Strange", (nn.MultiheadAttention,), {"forward": None})(WIDTH, HEADS)
        self.hooked = nn.MultiheadAttention(WIDTH, HEADS)
        self.hooked.register_forward_hook(print)
        self.patched = nn.MultiheadAttention(WIDTH, HEADS)
        self.patched.forward = lambda *arguments: arguments
        self.bare = nn.MultiheadAttention(WIDTH, HEADS)
        self.bare.out_proj = nn.Identity()


def test_swap_keeps_what_is_no_self_attention():
    model = Mixed()
    report = swap(model)
    assert list(report.replaced) == ["own", "again"] and model.own is model.again
    assert " ".join(report.kept) == "wide more zero odd strange hooked patched bare"
    for why, sentence in zip(
        report.kept.values(),
        (
            "width of their own",
            "adds keys",
            "adds keys",
            "must be even",
            "a way of its own",
            "has hooks",
            "a way of its own",
            "its out_proj, Identity, has no weight",
        ),
        strict=True,
    ):
        assert sentence in why
    x, other = tokens(), tokens(seed=2)
    y, weights = model.own(x, x, x, PADDING, True, None, False, False)
    assert y.shape == x.shape and weights is None
    for arguments in ((x, other, other), (x, x, other), (x, x.clone(), x)):
        with pytest.raises(UserError, match="'mtsa' is self-attention; key and value must be"):
            model.own(*arguments)


@pytest.mark.parametrize("way", ["hook", "checkpoint"])
def test_aliases_of_the_query_are_the_query(way):
    """As torch makes them of arguments, for backward hooks and before a second forward pass."""
    torch.manual_seed(0)
    layer = EncoderLayer(WIDTH, HEADS, dropout=0.0).self_attn
    x, seen, empty = tokens().requires_grad_(), [], torch.empty(6, 0, WIDTH, requires_grad=True)
    (expected,) = torch.autograd.grad(layer(x, x, x)[0].square().sum(), x)
    if way == "hook":
        layer.register_full_backward_hook(lambda *_: seen.append(1))
        y = layer(x, x, x)[0]
    else:
        y = checkpoint(layer, x, x, x, use_reentrant=True)[0]
    y.square().sum().backward()
    torch.testing.assert_close(x.grad, expected)
    assert seen == [1] * (way == "hook")
    assert layer(empty, empty, empty)[0].shape == empty.shape  # at no address


class Reversed(torch.autograd.Function):
    """The same numbers with another gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


def test_what_has_a_gradient_of_its_own_is_no_alias():
    layer, x = EncoderLayer(WIDTH, HEADS, dropout=0.0).self_attn, tokens().requires_grad_()
    same, hooked, accumulating = (x.detach().requires_grad_() for _ in range(3))
    layer(same, x, x)  # as in a checkpoint's second pass
    hooked.register_hook(torch.neg)
    accumulating.register_post_accumulate_grad_hook(print)
    pairs = [(x, x.detach()), (x.detach(), x), (x, hooked), (hooked, x), (x, accumulating)]
    h = x * 1
    pairs += [(h, Reversed.apply(h)), (Reversed.apply(h), h), (h, h.view_as(h))]
    for query, other in pairs:
        with pytest.raises(UserError, match="key and value must be the query"):
            layer(query, other, other)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_wrapped_model_is_refused(depth, tmp_path):
    """DDP knows the parameters that there were when it was made."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        model = wrapped = DistributedDataParallel(nn.TransformerEncoderLayer(WIDTH, HEADS))
        if depth:
            model = nn.Sequential(wrapped)
        name = "0" if depth else "the model"
        with pytest.raises(UserError, match=f"^{name} is wrapped in DistributedDataParallel, wh"):
            swap(model)
        assert type(wrapped.module.self_attn) is nn.MultiheadAttention
    finally:
        torch.distributed.destroy_process_group()


def test_vmap_wants_bool_masks():
    """torch's encoder makes floats of them, whose values cannot be read under vmap."""
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, dropout=0.0, batch_first=True)
    stock, x = (
        nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        torch.randn(3, 2, 5, WIDTH),
    )
    padding = torch.zeros(3, 2, 5, dtype=torch.bool)
    padding[1, :, 3:] = True
    ours = Encoder.from_torch(stock, "mtsa").eval()
    found = torch.func.vmap(lambda x, p: ours(x, src_key_padding_mask=p))(x, padding)
    expected = torch.stack([ours(*each) for each in zip(x, [None] * 3, padding, strict=True)])
    torch.testing.assert_close(found, expected)
    swap(stock.eval())
    for function in (stock, torch.func.grad(lambda x, **p: stock(x, **p).sum())):
        with pytest.raises(UserError, match=r"give bool masks, which selfattn\.models\.Encoder"):
            torch.func.vmap(lambda x, p, f=function: f(x, src_key_padding_mask=p))(x, padding)


def test_swap_keeps_what_has_a_hook_on_a_weight_or_its_state():
    model = nn.ModuleList(nn.MultiheadAttention(WIDTH, HEADS) for _ in range(7))
    model[0].in_proj_weight.register_hook(torch.neg)
    model[1].out_proj.bias.register_post_accumulate_grad_hook(print)
    model[2].register_state_dict_post_hook(lambda *_: None)
    model[3].register_state_dict_pre_hook(print)
    model[4].out_proj.register_load_state_dict_pre_hook(print)
    model[5].register_load_state_dict_post_hook(print)
    report = swap(model)
    assert list(report.replaced) == ["6"]
    assert all("it has hooks, which would be lost" in why for why in report.kept.values())


def test_swap_knows_a_shared_layer_by_each_of_its_names():
    layer = nn.TransformerEncoderLayer(**SIZES)
    for only, name in (("*", "first.self_attn"), ("second.*", "second.self_attn")):
        model = nn.ModuleDict({"first": copy.deepcopy(layer)})
        model["second"] = model["first"]
        report = swap(model, only=only)
        assert list(report.replaced) == [name] and not report.kept
        assert isinstance(model["first"].self_attn, AsMultihead)


def test_swap_keeps_what_shares_weights():
    model = nn.ModuleDict({name: nn.MultiheadAttention(WIDTH, HEADS) for name in "abcd"})
    model["b"].in_proj_weight = model["a"].in_proj_weight
    model["out"] = nn.Linear(WIDTH, WIDTH)
    model["c"].out_proj.weight = model["out"].weight
    report = swap(model)
    assert list(report.replaced) == ["d"]
    assert report.kept == {
        kept: f"it shares weights with {other}"
        for kept, other in (("a", "b"), ("b", "a"), ("c", "out"))
    }


def test_swap_without_anything_to_swap():
    for model, options, sentence in (
        (nn.Linear(2, 2), {}, "Linear has no self-attention .* there is none in it"),
        (Mixed(), {"only": "wide"}, "own: only wide was asked for; .* wide: it is cross-"),
        (Mixed(), {"only": ["own", "wid"]}, "only 'wid' names no attention .* which has own, ag"),
        *(
            (Mixed(), {"only": only}, rf"^only is {re.escape(repr(only))}; it must be a name, such")
            for only in (None, 3, [3], b"own")
        ),
        (nn.MultiheadAttention(WIDTH, HEADS), {}, "is an nn.MultiheadAttention itself"),
        (nn.TransformerEncoderLayer(9, 3), {}, "self_attn: masks 'forward_backward' .* be even"),
    ):
        before = {name: type(module) for name, module in model.named_modules()}
        with pytest.raises(UserError, match=sentence):
            swap(model, **options)
        assert before == {name: type(module) for name, module in model.named_modules()}
    with pytest.raises(UserError, match=r"has no switch 'windw'; do you mean 'window'\?"):
        swap(Mixed(), windw=3)
    with pytest.raises(UserError, match="model is 'mtsa'; it must be an nn.Module, and comes fi"):
        swap("mtsa", Mixed())
    with pytest.raises(UserError, match="must be an nn.TransformerEncoder"):
        Encoder.from_torch(nn.Linear(2, 2))
    for wrong, message in (
        ({"dropout": 1.0}, "^dropout 1.0 is not allowed"),
        ({"dropout": None}, r"^dropout None is not allowed; it must be in \[0, 1\)"),
        ({"dropout": "x"}, "^dropout 'x' is not allowed"),
        ({"dim_feedforward": 0}, "^dim_feedforward 0 is not allowed; it must be at least 1"),
        ({"activation": "foo"}, "activation 'foo' is unknown"),
    ):
        with pytest.raises(UserError, match=message):
            EncoderLayer(16, 2, **wrong)
    with pytest.raises(UserError, match="nhead 3 does not divide d_model 16"):
        EncoderLayer(WIDTH, 3, attention="multihead")


def test_swapped_layers_train_and_load(tmp_path):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES, batch_first=True), 1)
    swap(model)
    model(tokens(), src_key_padding_mask=PADDING).square().mean().backward()
    assert all(p.grad is not None for p in model.parameters())
    torch.save(model, tmp_path / "model.pt")
    again = torch.load(tmp_path / "model.pt", weights_only=False).eval()
    assert torch.equal(again(tokens()), model.eval()(tokens()))


class Block(nn.Module):
    """A layer as torchvision's vision transformer has them: a MultiheadAttention among others."""

    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(WIDTH)
        self.self_attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU())

    def forward(self, x):
        y = self.ln(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class VisionTransformer(nn.Module):
    """Such layers over the patches of a picture."""

    def __init__(self):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, WIDTH, 8, 8)
        self.encoder = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, images):
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        return self.head(self.encoder(patches).mean(1))


def test_swap_in_a_vision_transformer():
    model = noisy(VisionTransformer())
    images = torch.randn(2, 3, 32, 32)
    before = model.eval()(images)
    report = swap(model, only="encoder.*", preset="nmt")
    assert len(report.replaced) == 2 and not report.kept
    after = model(images)
    assert after.shape == before.shape and not torch.allclose(after, before)
    model.train()(images).sum().backward()
    found = [module for module in model.modules() if isinstance(module, MTSA)]
    assert len(found) == 2 and all(m.v_proj.weight.grad.abs().sum() > 0 for m in found)
