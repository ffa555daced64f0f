"""EncoderLayer and Encoder beside what they stand for in torch.nn."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from benchmarks.testing import LargestTensor, assert_close, noisy
from selfattn.config import MTSAConfig, MultiHeadConfig
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS
from selfattn.models import Encoder, EncoderLayer, swap

WIDTH, HEADS = 16, 4
PADDING = torch.tensor([[0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1], [0, 1, 1, 1, 1, 1]]).bool()
CAUSAL = torch.ones(6, 6, dtype=torch.bool).triu(1)
SIZES = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": 32, "dropout": 0.0}
# What torch warns of when it leaves its fast path, and that it may take it.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API")


def tokens(batch_first=True, seed=1):
    x = torch.randn(3, 6, WIDTH, generator=torch.Generator().manual_seed(seed))
    return x if batch_first else x.transpose(0, 1)


def switches(name):
    """Multi-head attention without switches is torch's own."""
    return {"masks": "forward_backward"} if name == "multihead" else {}


def run(module, *args, training, grad, **kwargs):
    with torch.set_grad_enabled(grad):
        return module.train(training)(*args, **kwargs).detach()


MODES = [(True, True), (False, True), (False, False)]  # training, with gradients


@pytest.mark.parametrize("attention", ["multihead", MultiHeadConfig()], ids=["torch's", "ours"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time", "batch"])
def test_multihead_is_torchs_encoder(attention, activation, norm_first, batch_first):
    options = {"activation": activation, "norm_first": norm_first, "batch_first": batch_first}
    layer = nn.TransformerEncoderLayer(**SIZES, **options)
    stock = noisy(nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH)))
    ours = Encoder.from_torch(stock, attention)
    x = tokens(batch_first)
    masks = {"src_key_padding_mask": PADDING}
    for (training, grad), (mask, padding) in itertools.product(MODES, [({}, masks), (masks, {})]):
        mask = mask or ({"mask": CAUSAL} if attention == "multihead" else {})
        given = {**mask, **padding}
        mode = {"training": training, "grad": grad}
        seen = ~(PADDING if "src_key_padding_mask" in given else torch.zeros_like(PADDING))
        seen = seen if batch_first else seen.T
        expected, found = (run(e, x, **given, **mode)[seen] for e in (stock, ours))
        assert_close(f"{given.keys()} {mode}", expected, found, 1e-6)
        layers = (run(e.layers[0], x, src_key_padding_mask=PADDING, **mode) for e in (stock, ours))
        one, other = (y[~PADDING if batch_first else ~PADDING.T] for y in layers)
        assert_close(f"layer {mode}", one, other, 1e-6)
    ours.train()(x).square().sum().backward()
    stock.train()(x).square().sum().backward()
    for name in ("linear1.weight", "norm1.weight"):
        grads = [e.layers[0].get_parameter(name).grad for e in (stock, ours)]
        assert_close(name, *grads, 1e-5)


def test_multihead_layer_has_torchs_weights():
    stock, ours = nn.TransformerEncoderLayer(**SIZES), EncoderLayer(**SIZES, attention="multihead")
    assert ours.load_state_dict(stock.state_dict())
    assert torch.equal(stock.eval()(tokens(False)), ours.eval()(tokens(False)))


@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_no_fast_path_goes_around_our_attention(name, norm_first):
    """In train and eval, in torch's encoder, ours and nn.Transformer: the layer written out."""
    options = {"norm_first": norm_first, "batch_first": True, "attention": name, **switches(name)}
    layer = noisy(EncoderLayer(**SIZES, **options))
    x = tokens()
    a, b = layer.norm1, layer.norm2
    attend = layer.self_attn.attention
    expected = {}
    for training in (True, False):
        layer.train(training)
        if norm_first:
            y = x + attend(a(x), PADDING)
            y = y + layer.linear2(layer.linear1(b(y)).relu())
        else:
            y = a(x + attend(x, PADDING))
            y = b(y + layer.linear2(layer.linear1(y).relu()))
        expected[training] = y.detach()[~PADDING]
    encoders = [nn.TransformerEncoder(layer, 1), Encoder(layer, 1)]
    state = copy.deepcopy(layer.state_dict())
    for encoder in encoders:
        whole = nn.Transformer(WIDTH, HEADS, 1, 1, 32, custom_encoder=encoder, batch_first=True)
        encoder.layers[0].load_state_dict(state)  # nn.Transformer draws all matrices anew
        for training, grad in MODES:
            options = {"src_key_padding_mask": PADDING, "training": training, "grad": grad}
            y = run(encoder, x, **options)
            assert_close(f"{type(encoder)} {options}", expected[training], y[~PADDING], 1e-6)
            assert run(whole, x, x, **options).isfinite().all()
        assert run(whole.encoder, x, src_key_padding_mask=PADDING, training=False, grad=False).shape


@pytest.mark.parametrize("name", [*ATTENTIONS, "torch's"])
def test_a_sentence_of_padding_makes_no_nan(name):
    name, more = ("multihead", {}) if name == "torch's" else (name, switches(name))
    layer = EncoderLayer(**SIZES, batch_first=True, attention=name, **more)
    padding = PADDING.clone()
    padding[1] = True
    for training, grad in MODES:
        x = tokens().requires_grad_(grad)
        y = Encoder(layer, 2).train(training)(x, src_key_padding_mask=padding)
        assert y.isfinite().all()
        if grad:
            y[0].sum().backward()
            assert x.grad.isfinite().all()


@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_attention_says_so_too_if_a_mask_does_not_fit(batch_first):
    layer = EncoderLayer(**SIZES, batch_first=batch_first, attention="multihead")
    x = tokens() if batch_first else tokens().transpose(0, 1)
    for mode in (layer.train(), layer.eval()):
        with pytest.raises(UserError, match=r"padding_mask .* must be \(B, T\)"):
            mode(x, src_key_padding_mask=PADDING[:, 1:])
        assert mode(x, src_key_padding_mask=PADDING).isfinite().all()


@pytest.mark.filterwarnings("error:Support for mismatched")
def test_torchs_own_attention_keeps_a_masks_dtype():
    layer = EncoderLayer(**SIZES, batch_first=True, attention="multihead")
    for masks in ((CAUSAL, PADDING), (0.0 * CAUSAL, torch.where(PADDING, float("-inf"), 0.0))):
        assert layer(tokens(), *masks).isfinite().all()


@pytest.mark.parametrize("batch_first", [False, True])
def test_one_sentence_without_a_batch(batch_first):
    layer = EncoderLayer(**SIZES, batch_first=batch_first).eval()
    x = tokens()[1]
    together = layer(x[None] if batch_first else x[:, None], src_key_padding_mask=PADDING[1:2])
    alone = layer(x, src_key_padding_mask=PADDING[1])
    assert_close("alone", together[0] if batch_first else together[:, 0], alone, 1e-6)


def test_device_dtype_dropout_and_switches():
    layer = EncoderLayer(WIDTH, HEADS, dropout=0.3, device="meta", dtype=torch.bfloat16)
    assert {(p.device.type, p.dtype) for p in layer.parameters()} == {("meta", torch.bfloat16)}
    assert layer.self_attn.attention.config == MTSAConfig.make(attention_dropout=0.3)
    layer = EncoderLayer(WIDTH, HEADS, preset="nmt", attention_dropout=0.1, window=2)
    expected = MTSAConfig.make("nmt", attention_dropout=0.1, window=2)
    assert layer.self_attn.attention.config == expected
    assert EncoderLayer(WIDTH, HEADS, attention=expected).self_attn.attention.config == expected
    layer = EncoderLayer(WIDTH, HEADS, bias=False, attention="multihead", masks="forward")
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]


def test_masks_that_torch_makes_of_bool_ones_and_others():
    layer = EncoderLayer(**SIZES, batch_first=True).eval()
    x = tokens()
    additive = torch.zeros(3, 6).masked_fill(PADDING, float("-inf"))
    assert torch.equal(
        layer(x, src_key_padding_mask=additive), layer(x, src_key_padding_mask=PADDING)
    )
    for number in (-1e9, 1.0, float("nan")):
        wrong = additive.nan_to_num(neginf=number)
        with pytest.raises(UserError, match=f"padding_mask holds {number}; .* 0 and -inf"):
            layer(x, src_key_padding_mask=wrong)
    with pytest.raises(UserError, match=r"padding_mask has shape \(6, 3\)"):
        layer(x, src_key_padding_mask=PADDING.T)
    with pytest.raises(UserError, match="takes no nested tensor"):
        layer(torch.nested.nested_tensor([x[0], x[1, :4]]))


@pytest.mark.parametrize("attention", ["mtsa", "disa"])
def test_masks_of_pairs_are_taken_where_the_layer_has_them_anyway(attention):
    x = tokens()
    switches = {"attention": attention, "masks": "forward"}
    causal = EncoderLayer(**SIZES, batch_first=True, **switches).eval()
    encoder = nn.TransformerEncoder(causal, 2).eval()
    y = encoder(x)
    for mask in ({"mask": CAUSAL}, {"mask": CAUSAL, "is_causal": True}, {"is_causal": True}):
        assert torch.equal(encoder(x, **mask), y)


def test_a_graph_checks_masks_too():
    """It cannot branch on values: assertions of its own end it."""
    x = tokens()
    layer = EncoderLayer(**SIZES, batch_first=True, masks="forward").eval()
    additive = torch.zeros(3, 6).masked_fill(PADDING, float("-inf"))
    args = (x, CAUSAL, additive)
    expected = layer(*args)
    graph = torch.compile(layer, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(graph(*args), expected)
    torch.testing.assert_close(torch.export.export(layer, args).module()(*args), expected)
    with pytest.raises(RuntimeError, match="padding_mask holds another number; allowed are 0 and"):
        graph(x, CAUSAL, additive.clamp_min(-1e9))
    with pytest.raises(RuntimeError, match="attn_mask hides keys that attention 'mtsa' sees"):
        graph(x, CAUSAL.T, additive)


@pytest.mark.parametrize("rows", [(), (HEADS,)], ids=["pairs", "heads"])
def test_an_export_with_a_mask_leaves_batch_and_length_open(rows):
    layer = EncoderLayer(**SIZES, batch_first=True, masks="forward").eval()

    def inputs(batch, length):
        mask = torch.ones(*(batch * n for n in rows), length, length, dtype=torch.bool)
        return torch.randn(batch, length, WIDTH), mask.triu(1)

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    shapes = {0: batch, 1: length}, dict(enumerate([*(batch * n for n in rows), length, length]))
    program = torch.export.export(layer, inputs(3, 6), dynamic_shapes=shapes).module()
    other = inputs(5, 9)
    torch.testing.assert_close(program(*other), layer(*other))


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
@pytest.mark.parametrize("attention", ["multihead", "mtsa"])
def test_fsdp_may_cast_what_an_attention_takes(attention, tmp_path):
    """It casts query, key and value each by itself."""
    layer = EncoderLayer(**SIZES, batch_first=True, attention=attention)
    expected = layer(tokens(), src_key_padding_mask=PADDING)
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        policy = MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
        mesh = init_device_mesh("cpu", (1,))
        fully_shard(layer.self_attn, mesh=mesh, mp_policy=policy)
        y = layer(tokens(), src_key_padding_mask=PADDING)
    finally:
        torch.distributed.destroy_process_group()
    torch.testing.assert_close(y, expected, atol=0.05, rtol=0)
    swapped = nn.TransformerEncoderLayer(**SIZES, batch_first=True)
    swap(swapped)
    swapped.self_attn.register_forward_pre_hook(lambda _, args: tuple(x.bfloat16() for x in args))
    with pytest.raises(UserError, match="FSDP's mixed precision .* shard whole layers"):
        swapped(tokens())


def test_from_torch_drops_nothing_that_an_encoder_calls():
    for change in (
        lambda encoder: encoder.register_forward_pre_hook(print),
        lambda encoder: setattr(encoder, "forward", encoder.forward),
    ):
        encoder = nn.TransformerEncoder(EncoderLayer(**SIZES, batch_first=True), 1)
        change(encoder)
        with pytest.raises(UserError, match="computes in a way of its own, or has hooks"):
            Encoder.from_torch(encoder)


def test_from_torch_is_a_copy_with_its_switches():
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    plain = nn.TransformerEncoder(layer, 1, nn.LayerNorm(8), enable_nested_tensor=False).eval()
    own = Encoder.from_torch(plain, "multihead", masks="forward")
    assert own.swapped is not None and own.layers[0].self_attn.attention.config.masks == "forward"
    assert not own.training and own.norm is not plain.norm


def test_causal_attention_with_itself_is_causal():
    layer = EncoderLayer(8, 2, 16, batch_first=True, masks="forward", include_self=True).eval()
    x = torch.randn(1, 5, 8)
    assert torch.equal(layer(x, is_causal=True), layer(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((None, 2), "encoder_layer is None; it must be"), (("layer", -1), "num_layers -1 is not all")],
)
def test_an_encoder_of_nothing_is_refused(arguments, message):
    layer, number = arguments
    with pytest.raises(UserError, match=message):
        Encoder(EncoderLayer(8, 2) if layer else None, number)


def test_masks_of_pairs_that_hide_more_are_refused():
    x = tokens()
    both = EncoderLayer(**SIZES, batch_first=True).eval()
    assert torch.equal(both(x, torch.zeros(6, 6)), both(x))
    with pytest.raises(UserError, match="attn_mask hides keys that attention 'mtsa' sees"):
        both(x, CAUSAL)
    with pytest.raises(UserError, match=r"attn_mask has shape \(5,\); it must be \(T, T\) or"):
        both(x, torch.zeros(5, dtype=torch.bool))
    with pytest.raises(UserError, match="is_causal hides keys"):
        both(x, is_causal=True)
    with pytest.raises(UserError, match="attn_mask holds 0.5; allowed are 0 and -inf"):
        both(x, 0.5 * torch.eye(6))
    meta = EncoderLayer(**SIZES, batch_first=True, masks="forward", device="meta")
    assert meta(x.to("meta"), CAUSAL.to("meta")).is_meta
    disa = EncoderLayer(**SIZES, batch_first=True, attention="disa").eval()  # of two heads
    assert torch.equal(disa(x, torch.zeros(3 * HEADS, 6, 6)), disa(x))
    with pytest.raises(UserError, match=r"attn_mask has shape \(4, 6, 6\); it must be"):
        both(x, torch.zeros(HEADS, 6, 6))
    for name in ("biblosa", "resa"):  # blocks, samplers and means look at later tokens
        beyond = EncoderLayer(**SIZES, batch_first=True, attention=name, masks="forward")
        words = (
            f"hides keys that attention '{name}' sees; it sees beyond its positional masks; take"
        )
        with pytest.raises(UserError, match=f"attn_mask {words}"):
            beyond(x, CAUSAL)
        with pytest.raises(UserError, match=f"is_causal {words}"):
            beyond(x, is_causal=True)
        beyond(x[:, :1], is_causal=True)  # nothing comes later


def test_is_causal_builds_no_mask_of_pairs():
    layer = EncoderLayer(8, 2, 8, batch_first=True, masks="forward").eval()
    with torch.no_grad(), LargestTensor() as largest:
        layer(torch.randn(1, 2000, 8), is_causal=True)
    assert largest.size < 2000**2
