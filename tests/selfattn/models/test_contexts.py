"""What every context promises, and every sentence encoder made of one."""

import math

import pytest
import torch

from benchmarks.testing import assert_close, noisy
from selfattn.errors import UserError
from selfattn.models import CONTEXTS, SentenceEncoder, build_context
from selfattn.models.pool import build_pool

FORMS = [(name, {}) for name in CONTEXTS]
FORMS += [
    ("sru", {"input_map": True}),
    ("multi_cnn", {"per_token": True}),
    ("multi_cnn", {"windows": (2, 6)}),
    ("none", {"input_map": False}),
    ("multihead", {"heads": 2, "head_dim": 5}),
    ("multihead", {"masks": "forward_backward"}),
    # Ablations.
    ("mtsa", {"scores": "none"}),
    ("biblosa", {"contexts": "none"}),
    ("resa", {"soft_attention": False}),
]
IDS = ["-".join([name, *switches]) for name, switches in FORMS]
WIDTH, HIDDEN = 12, 12
LINEAR = ("mtsa", "fast_disa", "biblosa", "lstm", "sru", "multi_cnn", "hrchy_cnn", "none")


def built(name, switches, dropout=0.0):
    torch.manual_seed(0)
    encoder = SentenceEncoder(
        WIDTH, context=name, hidden_size=HIDDEN, activation="elu", dropout=dropout, **switches
    )
    return noisy(encoder.double())


@pytest.fixture(params=FORMS, ids=IDS)
def encoder(request):
    return built(*request.param)


def tokens(batch=3, length=7, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, WIDTH, generator=generator, dtype=torch.float64)


def hide(length, *spans):
    """A padding mask; a span is what is real."""
    hidden = torch.ones(len(spans), length, dtype=torch.bool)
    for row, (start, stop) in enumerate(spans):
        hidden[row, start:stop] = False
    return hidden


@pytest.mark.parametrize("length", [1, 2, 4, 7])
def test_a_sentence_does_not_depend_on_where_it_is_padded_nor_on_its_batch_mates(encoder, length):
    x = tokens(4, 11)
    hidden = hide(11, (0, length), (11 - length, 11), (2, 2 + length), (0, 11))
    sentence = tokens(1, length, seed=2)[0]
    for row, start in enumerate((0, 11 - length, 2)):
        x[row, start : start + length] = sentence
    alone = encoder(sentence[None])
    x[hidden] = torch.nan
    together = encoder(x, hidden)
    assert_close("padded", alone.expand(3, -1), together[:3], 1e-12)
    assert_close("batch mate", encoder(x[3:]), together[3:], 1e-12)
    context = encoder.context(x, hidden)
    if not encoder.context.pools:
        assert context.shape == (4, 11, encoder.out_dim)
        assert (context[hidden] == 0).all()
        expected = encoder.context(sentence[None])[0]
        assert_close("tokens", expected, context[1, 11 - length :], 1e-12)


def test_every_parameter_learns(encoder):
    hidden = hide(13, (0, 13), (2, 13), (0, 9), (4, 9))
    x = tokens(4, 13).masked_fill(hidden[..., None], torch.nan).requires_grad_()
    y = encoder(x, hidden)
    assert y.shape == (4, encoder.out_dim)
    y.square().sum().backward()
    policy = {
        id(p) for part in encoder.modules() for p in getattr(part, "policy_parameters", list)()
    }
    for name, parameter in [("x", x), *encoder.named_parameters()]:
        assert torch.isfinite(parameter.grad).all(), name
        if id(parameter) in policy or name.endswith(("network.4.bias", "network.1.bias")):
            continue  # the last bias of a softmax's scores changes nothing
        assert parameter.grad.abs().max() > 1e-12, name


def test_sentences_without_a_token_give_0_and_harm_nobody(encoder):
    x = tokens().requires_grad_()
    y = encoder(x, hide(7, (0, 7), (0, 0), (0, 7)))
    assert (y[1] == 0).all()
    assert_close("others", encoder(x[::2]), y[::2], 1e-12)
    y.sum().backward()
    assert torch.isfinite(x.grad).all()
    assert (x.grad[1] == 0).all()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 0)], ids=str)
def test_no_sentence_and_no_token(encoder, shape):
    x = torch.zeros(*shape, WIDTH, dtype=torch.float64, requires_grad=True)
    y = encoder(x, torch.zeros(shape, dtype=torch.bool))
    assert y.shape == (shape[0], encoder.out_dim)
    assert (y == 0).all()
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert all((p.grad == 0).all() for p in encoder.parameters() if p.requires_grad)


@pytest.mark.parametrize(
    "switches", [{"unselected": "nothing"}, {"soft_attention": False}], ids=str
)
def test_the_pool_leaves_out_what_resa_drops(switches):
    encoder = built("resa", switches).eval()
    layer = encoder.context.layer
    layer.select_all = False
    x, hidden = tokens(), hide(7, (0, 7), (2, 7), (0, 0))
    y = encoder(x, hidden)
    selected = layer.take_choice().heads.selected
    assert 0 < selected.sum() < (~hidden).sum()
    context = encoder.context(x, hidden)
    assert_close("pooled", encoder.pool(context, ~selected), y, 1e-12)
    assert (encoder.weights(x, hidden)[~selected] == 0).all()
    assert (context[~selected] == 0).all()
    for shape in ((0, 7), (len(x), 0)):  # nothing of this batch stays for an empty one
        nothing = encoder(x[: shape[0], : shape[1]], hidden[: shape[0], : shape[1]])
        assert nothing.shape == (shape[0], encoder.out_dim)


@pytest.mark.parametrize("name", LINEAR)
def test_ten_thousand_tokens(name):
    encoder = SentenceEncoder(4, context=name, hidden_size=6)
    with torch.no_grad():
        y = encoder(torch.randn(1, 10_000, 4))
    assert torch.isfinite(y).all()


def test_autocast_runs_forward_and_backward_and_stays_near(encoder):
    encoder, x = encoder.float(), tokens().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = encoder(x, hide(7, (0, 7), (3, 7), (0, 1)))
    y.float().sum().backward()
    assert torch.isfinite(x.grad).all()
    assert_close("autocast", encoder(x, hide(7, (0, 7), (3, 7), (0, 1))), y.float(), 0.1)


def test_gradcheck(encoder):
    x = tokens(2, 3).requires_grad_()
    hidden = hide(3, (0, 3), (1, 3))
    torch.autograd.gradcheck(lambda t: encoder(t, hidden), (x,), fast_mode=True)


def test_dropout_is_for_training_and_follows_the_seed(encoder, request):
    dropping = built(*request.node.callspec.params["encoder"], dropout=0.3)
    x = tokens()
    assert torch.equal(dropping.eval()(x), encoder(x))
    dropping.train()
    torch.manual_seed(5)
    first = dropping(x)
    torch.manual_seed(5)
    assert torch.equal(first, dropping(x))
    assert not torch.equal(first, dropping(x))


def test_a_seed_decides_the_first_values_and_a_state_dict_holds_all_of_them(encoder, request):
    name, switches = request.node.callspec.params["encoder"]
    again = built(name, switches)
    assert torch.equal(again(tokens()), encoder(tokens()))
    other = SentenceEncoder(
        WIDTH, context=name, hidden_size=HIDDEN, activation="elu", **switches
    ).double()
    assert not torch.equal(other(tokens()), encoder(tokens()))
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(tokens()), encoder(tokens()))


# Inputs and outputs of each matrix as it is drawn: a head's, a convolution's over its window, an
# LSTM's of four gates at once; a GRU's map of the input holds gates and the candidate.
FANS = {
    "mtsa": [*[60 + 60] * 5, 120 + 60],
    "fast_disa": [*[60 + 60] * 5, 120 + 60],
    "lstm": [60 + 60 + 240] * 4,
    "gru": [60 + 60 + 60, 60 + 60 + 120, 60 + 60 + 60],
    "sru": [60 + 180],
    "multi_cnn": [(60 + 40) * window for window in (3, 4, 5)],
    "hrchy_cnn": [(60 + 120) * 5] * 3,
    "none": [60 + 120],
    "vanilla": [60 + 60, 60 + 1],
}


@pytest.mark.parametrize("name", FANS)
def test_first_values_are_glorots(name):
    """Matrices up to Glorot's bound and with its variance, biases 0 or TensorFlow's."""
    torch.manual_seed(0)
    parameters = dict(build_context(name, 60, 60).named_parameters())
    biases = torch.cat([p.flatten() for key, p in parameters.items() if "bias" in key])
    assert set(biases.tolist()) <= {0.0, 1.0}
    assert biases.sum() == {"lstm": 2 * 60, "gru": 2 * 2 * 60}.get(name, 0)
    matrices = [p for key, p in parameters.items() if "bias" not in key]
    for matrix, fans in zip(matrices, FANS[name], strict=True):
        bound = math.sqrt(6 / fans)
        assert 0.95 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_a_padding_mask_of_another_kind_is_refused(encoder):
    with pytest.raises(UserError, match=r"x has shape \(3, 7, 5\); it must be \(B, T, 12\)"):
        encoder(tokens()[..., :5])
    with pytest.raises(UserError, match="torch.bool"):
        encoder(tokens(), torch.zeros(3, 7))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"context": "rnn"}, "context 'rnn' is unknown; allowed are multihead, mtsa"),
        ({"context": "lstm", "windows": (3,)}, "has no switch 'windows'; its switches are: none"),
        ({"context": "sru", "preset": "code"}, "its switches are: input_map"),
        ({"context": "mtsa", "preset": "code"}, "preset 'code' is unknown for 'mtsa'"),
        ({"context": "vanilla", "pool": "banana"}, "pool 'banana' is unknown"),
        ({"context": "none", "input_map": "false"}, "input_map 'false' is not allowed"),
        ({"context": "mtsa", "block_length": 3}, "attention 'mtsa' has no switch 'block_length'"),
        ({"context": "multihead", "hidden_size": 15, "heads": 8}, "heads 8 does not divide"),
        ({"context": "multihead", "masks": "half"}, "masks 'half' is unknown"),
        ({"context": "multihead", "positions": "alibi"}, "no switch 'positions'; its switches are"),
        ({"context": "multihead", "heads": 0}, "heads 0 is not allowed; it must be at least 1"),
        ({"context": "hrchy_cnn", "layers": 0}, "layers 0 is not allowed; it must be at least 1"),
        ({"context": "hrchy_cnn", "window": 2.5}, "window 2.5 is not allowed; it must be a whole"),
        ({"context": "multi_cnn", "windows": ()}, "must list at least one width"),
        ({"context": "multi_cnn", "windows": (3, 0)}, "windows 0 is not allowed"),
        ({"pool": "last"}, "pool 'last' is unknown; allowed are source2token, max, mean"),
        ({"hidden_size": 0}, "hidden_size 0 is not allowed"),
        ({"dropout": 1.0}, "dropout 1.0 is not allowed"),
        ({"activation": "swish", "context": "none"}, "activation 'swish' is unknown"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_mistakes_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        SentenceEncoder(12, **{"hidden_size": 12, **options})


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_plain_pools_are_those_of_the_real_tokens(pool):
    encoder = SentenceEncoder(WIDTH, context="none", input_map=False, pool=pool).double()
    x = tokens(2, 7)
    y = encoder(x, hide(7, (2, 5), (0, 0)))
    expected = x[0, 2:5].amax(0) if pool == "max" else x[0, 2:5].mean(0)
    assert_close(pool, expected, y[0], 1e-12)
    assert (y[1] == 0).all()
    assert_close("whole", x.amax(1) if pool == "max" else x.mean(1), encoder(x), 1e-12)


@pytest.mark.parametrize("name", ["mtsa", "fast_disa", "disa", "biblosa", "resa"])
def test_heads_are_as_many_as_asked_for(name):
    context = build_context(name, WIDTH, HIDDEN, num_heads=4)
    assert context.layer.num_heads == 4 and context.out_dim == 4 * HIDDEN


def test_a_compiled_lstm_trains():
    plain = built("lstm", {}).float()
    compiled = torch.compile(plain, backend="aot_eager")
    x, hidden = tokens(2, 7).float(), hide(7, (2, 5), (0, 7))
    found = []
    for encoder in (plain, compiled):
        y = encoder(x, hidden)
        found.append((y, torch.autograd.grad(y.square().sum(), list(plain.parameters()))))
    torch.testing.assert_close(*found)


def test_the_mean_of_large_numbers_in_float16():
    x, hidden = torch.full((1, 1000, 4), 100.0).half(), torch.zeros(1, 1000, dtype=torch.bool)
    hidden[0, -1] = True
    assert torch.equal(build_pool("mean", 4)(x, hidden), x[:, 0])


def test_the_pools_weights_sum_to_1_over_a_sentence():
    encoder = built("mtsa", {}, dropout=0.5).train()
    weights = encoder.weights(tokens(2, 7), hide(7, (2, 5), (0, 7)))
    assert encoder.training and not weights.requires_grad
    assert torch.equal(weights, encoder.weights(tokens(2, 7), hide(7, (2, 5), (0, 7))))
    assert_close("sums", torch.ones(2, 24), weights.sum(1), 1e-12)
    assert (weights[0, :2] == 0).all()
    with pytest.raises(UserError, match="no source2token pool"):
        built("vanilla", {}).weights(tokens())
