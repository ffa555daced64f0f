"""The tagger: published sizes and initial values, padding, frozen vectors, vocabulary."""

import math
from dataclasses import replace

import pytest
import torch

from selfattn.config import MTSAConfig, MultiHeadConfig, ReSAConfig
from selfattn.errors import UserError
from selfattn.models.timing import sines
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig
from selfattn_tasks.srl.tagger.state import KEY, TaggerState
from selfattn_tasks.srl.tagger.sublayer import BASELINES, SUBLAYERS
from selfattn_tasks.words.embeddings import look_up
from selfattn_tasks.words.initialise import initialise
from selfattn_tasks.words.vocabulary import UNKNOWN, Vocabulary

BASELINE = MultiHeadConfig()
MTSA = MTSAConfig.make("srl")


def parameters(config: TaggerConfig) -> int:
    """Parameters without the table of words, as the papers count."""
    tagger = Tagger(config)
    return sum(p.numel() for p in tagger.parameters()) - tagger.words.weight.numel()


def test_published_parameter_counts():
    """105 labels, 10 layers, 200 wide: 4,847,505 with multi-head, 402,000 more with MTSA."""
    sizes = [parameters(TaggerConfig(2, 105, attention)) for attention in (BASELINE, MTSA)]
    assert sizes == [4_847_505, 4_847_505 + 402_000]


def test_parameter_counts_of_the_baselines():
    """A layer has two LSTMs of 100, or 66 filters of 3, 4 and 5 words and a map 198 -> 200."""
    without = 4_847_505 - 10 * 4 * (200 * 200 + 200)
    lstm = 2 * (4 * 100 * (200 + 100) + 4 * 100)
    cnn = 66 * 200 * (3 + 4 + 5) + 3 * 66 + 198 * 200 + 200
    for name, size, total in (("bilstm", lstm, 5_647_505), ("cnn", cnn, 5_223_485)):
        found = parameters(TaggerConfig(2, 105, BASELINES[name]()))
        assert found == without + 10 * size == total


def test_parameter_count_of_characters():
    """50 features: 106 rows of 30, 50 filters of 3 x 30; the indicator is 50 narrower."""
    found = parameters(TaggerConfig(2, 105, MTSA, predicate_dim=50, characters=50, alphabet=106))
    assert found == 4_847_505 + 402_000 - 2 * 50 + 106 * 30 + 50 * (3 * 30) + 50


def small(attention, **more) -> Tagger:
    sizes = {"word_dim": 12, "predicate_dim": 12, "layers": 2, "heads": 4, "ffn_dim": 20}
    torch.manual_seed(1)
    return Tagger(TaggerConfig(30, 7, attention, **{**sizes, **more})).eval()


@pytest.mark.parametrize("name", SUBLAYERS)
def test_every_attention_and_padding(name):
    """Each attention fits, sees the predicate, and padding changes nothing on either side."""
    config = SUBLAYERS[name]
    timing = name not in BASELINES
    tagger = small(config.make("srl" if "srl" in config.presets else None), timing=timing)
    words = torch.randint(2, 30, (2, 6))
    indicator = torch.zeros_like(words)
    indicator[:, 2] = 1
    alone = tagger(words, indicator)
    nothing = torch.zeros(2, 3, dtype=torch.long)
    for place, sides in ((slice(0, 6), (0, 1)), (slice(3, 9), (1, 0))):
        padded = [torch.cat([(t, nothing)[i] for i in sides], 1) for t in (words, indicator)]
        beside = tagger(*padded, padded[0] == 0)
        torch.testing.assert_close(beside[:, place], alone, rtol=1e-4, atol=1e-5)
    assert (tagger(words, indicator.roll(1, 1)) - alone).abs().max() > 1e-3


def test_order_without_a_timing_signal():
    """Masks tell MTSA the order of words; multi-head attention alone cannot know it."""
    words = torch.tensor([[2, 3, 4, 5, 6]])
    indicator = torch.tensor([[1, 0, 0, 0, 0]])
    swapped = words[:, [0, 2, 1, 4, 3]]
    others = ((config(), True) for config in BASELINES.values())
    for attention, knows in ((MTSA, True), (BASELINE, False), *others):
        tagger = small(attention)
        change = (tagger(words, indicator) - tagger(swapped, indicator))[:, 0].abs().max()
        assert bool(change > 1e-4) is knows


def test_timing_signal():
    signal = sines(torch.arange(4), 7)
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(sines(torch.arange(4), 7), signal)
    finally:
        torch.set_default_dtype(torch.float32)
    assert signal.shape == (4, 7)
    torch.testing.assert_close(signal[:, 0], torch.arange(4.0).sin())
    torch.testing.assert_close(signal[:, 3], torch.arange(4.0).cos())
    torch.testing.assert_close(signal[3, 5], torch.tensor(3e-4).cos())
    assert (signal[:, 6] == 0).all()


def test_glorot_normal_draws_query_key_value_as_one_matrix_and_random_biases():
    layer = Tagger(TaggerConfig(2, 9, MTSA, layers=1)).layers[0]
    q, s2t = layer.attention.q_proj, layer.attention.source2token.network[1]
    assert q.weight.std().item() == pytest.approx((2 / 800) ** 0.5, rel=0.05)
    biases = torch.cat([getattr(layer.attention, f"{n}_proj").bias for n in "qkv"])
    assert biases.std().item() == pytest.approx(600**-0.5, rel=0.2)
    assert s2t.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.05)
    assert layer.expand.weight.std().item() == pytest.approx((2 / 1000) ** 0.5, rel=0.05)
    assert layer.expand.bias.std().item() == pytest.approx(800**-0.5, rel=0.2)
    assert (layer.ffn_norm.weight == 1).all() and (layer.ffn_norm.bias == 0).all()


@pytest.mark.parametrize("initialiser", ["glorot_normal", "orthogonal"])
def test_without_queries_and_keys_the_rest_starts_as_beside_them(initialiser):
    """So that an ablation differs from the whole in what it lacks alone."""
    starts = []
    for attention in (MTSA, replace(MTSA, scores="source2token")):
        tagger = small(attention)
        torch.manual_seed(2)
        initialise(tagger.layers, initialiser)
        starts.append(tagger.layers.state_dict())
    whole, lacking = starts
    gone = set(whole) - set(lacking)
    assert len(gone) == 8 and all("q_proj" in name or "k_proj" in name for name in gone)
    for name, values in lacking.items():
        assert torch.equal(values, whole[name]), name


def test_orthogonal():
    layer = Tagger(TaggerConfig(2, 9, BASELINE, layers=1, initialiser="orthogonal")).layers[0]
    columns = torch.cat([getattr(layer.attention, f"{n}_proj").weight for n in "qkv"])
    torch.testing.assert_close(columns.T @ columns, torch.eye(200), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        layer.expand.weight.T @ layer.expand.weight, torch.eye(200), atol=1e-5, rtol=0
    )


def test_baselines_keep_their_own_initial_values():
    """Glorot's bound for a gate's whole matrix, ones for the gate f, zeros for convolutions."""
    lstm, cnn = (
        Tagger(TaggerConfig(2, 9, config(), layers=1)).layers[0].attention.context
        for config in BASELINES.values()
    )
    assert lstm.directions[0].bias.tolist() == [0.0] * 100 + [1.0] * 100 + [0.0] * 200
    bound = (6 / (200 + 100 + 400)) ** 0.5
    assert 0.95 * bound < lstm.directions[1].weight_x.abs().max() <= bound
    assert not any(conv.conv.bias.any() for conv in cnn.convs)


def test_a_batch_mate_does_not_change_a_baseline_s_gradient():
    for config in BASELINES.values():
        tagger = small(config())
        words = torch.tensor([[2, 3, 4, 0, 0], [5, 6, 7, 8, 9]])
        zeros = torch.zeros_like(words)
        found = []
        for rows in (slice(0, 1), slice(0, 2)):
            tagger.zero_grad()
            scores = tagger(words[rows], zeros[rows], words[rows] == 0)
            scores[0, :3].square().sum().backward()
            found.append(torch.cat([p.grad.flatten() for p in tagger.layers.parameters()]))
        assert found[0].isfinite().all() and found[0].any()
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_samplers_start_where_their_switch_says():
    resa = ReSAConfig.make("code", sampler_bias_init=2.0)
    layer = Tagger(TaggerConfig(2, 9, resa, layers=1)).layers[0]
    for sampler in (layer.attention.head_sampler, layer.attention.dependent_sampler):
        assert sampler.network[-1].bias.item() == 2


def test_source2token_bias_starts_where_its_switch_says_and_else_at_random():
    for asked, expected in ((5.0, True), (0.0, False)):
        config = MTSAConfig.make("srl", s2t_bias_init=asked)
        layer = Tagger(TaggerConfig(2, 9, config, layers=1)).layers[0]
        bias = layer.attention.source2token.network[-1].bias
        assert bool((bias == asked).all()) is expected


def test_frozen_vectors_are_looked_up_and_not_trained():
    tagger = small(MTSA, frozen_words=3)
    tagger.frozen.copy_(torch.randn(3, 12))
    found = look_up(torch.tensor([[1, 29, 30, 32]]), tagger.words, tagger.frozen)
    assert torch.equal(found[0, 2:], tagger.frozen[[0, 2]])
    assert torch.equal(found[0, :2], tagger.words.weight[[1, 29]])
    assert "frozen" in tagger.state_dict()
    assert "frozen" not in dict(tagger.named_parameters())


def test_vocabulary_looks_in_the_training_first_then_in_the_vectors():
    words = Vocabulary(("the", "us"), ("O", "B-V")).with_frozen(["the", "US", "paris"])
    assert words.frozen == ("US", "paris")
    assert words.encode(["The", "US", "Paris", "tulip"]) == [2, 3, 5, UNKNOWN]
    assert Vocabulary.from_state(words.state()) == words


@pytest.mark.parametrize("attention", [MTSA, *(config() for config in BASELINES.values())])
def test_state_comes_back_from_plain_values(attention):
    state = TaggerState(Vocabulary(("a",), ("O",)), TaggerConfig(3, 1, attention, timing=True))
    assert TaggerState.load({KEY: state.dump()}, "x.pt") == state
    warm = replace(state, temperature=1.3)
    assert TaggerState.load({KEY: warm.dump()}, "x.pt") == warm
    for bad in (0.0, math.nan, "warm", True):
        with pytest.raises(UserError, match="x.pt has a temperature of .*; it must be above 0"):
            TaggerState.load({KEY: {**state.dump(), "temperature": bad}}, "x.pt")
    older = state.dump()
    for name in ("characters", "alphabet"):  # checkpoints from before there were characters
        del older["config"][name]
    assert TaggerState.load({KEY: older}, "x.pt") == state
    for change in ({"name": "gru"}, {"filters": 10**9}):
        wrong = state.dump()
        wrong["config"]["attention"].update(change)
        with pytest.raises(UserError, match=r"x.pt was written by another version"):
            TaggerState.load({KEY: wrong}, "x.pt")
    fewer = state.dump()
    fewer["vocabulary"]["words"] = []
    with pytest.raises(UserError, match="x.pt contradicts itself"):
        TaggerState.load({KEY: fewer}, "x.pt")
    with pytest.raises(UserError, match="x.pt was written by another version"):
        TaggerState.load({KEY: {**state.dump(), "config": "abc"}}, "x.pt")
    for found in ({}, {KEY: 5}, {KEY: {}}):
        with pytest.raises(UserError, match="x.pt is not a tagger"):
            TaggerState.load(found, "x.pt")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 7}, "the number of heads is 7; it must be even"),
        ({"layers": 0}, "layers 0 is not allowed"),
        ({"dropout": 1.0}, "dropout 1.0 is not allowed"),
        ({"initialiser": "zeros"}, "initialiser 'zeros'"),
    ],
)
def test_sizes_that_cannot_be(change, message):
    with pytest.raises(UserError, match=message):
        Tagger(TaggerConfig(2, 9, MTSA, **change))


def test_late_layers_read_a_sentence_once_for_all_its_predicates():
    torch.manual_seed(0)
    tagger = small(MTSA, late_layers=1).eval()
    words = torch.tensor([[2, 3, 4, 5], [2, 3, 4, 5], [6, 7, 0, 0], [2, 3, 4, 5]])
    indicator = torch.zeros_like(words)
    indicator[0, 1] = indicator[1, 3] = indicator[2, 0] = 1
    sizes: list[int] = []
    for layer in tagger.layers:
        layer.register_forward_hook(lambda _, given, __: sizes.append(len(given[0])))
    together = tagger(words, indicator, words == 0)
    assert sizes == [3, 4]  # equal rows that are neighbours are one sentence
    for row, length in enumerate((4, 4, 2, 4)):
        alone = tagger(words[row : row + 1, :length], indicator[row : row + 1, :length])[0]
        torch.testing.assert_close(together[row, :length], alone)
    assert not torch.allclose(together[0], together[1])
    hidden = torch.zeros(2, 4, dtype=torch.bool)
    hidden[1, 3] = True  # the same words, but not the same sentence
    second = tagger(words[:2], indicator[:2], hidden)[1, :3]
    torch.testing.assert_close(second, tagger(words[:1, :3], indicator[1:2, :3])[0])
    with pytest.raises(UserError, match="late_layers 3 is not allowed; it must be at most 2"):
        small(MTSA, late_layers=3)
