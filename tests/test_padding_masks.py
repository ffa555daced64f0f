"""Whatever takes a padding mask refuses one that is not bool, everywhere in the same sentence."""

import importlib
import inspect
import pkgutil
import re

import pytest
import torch

from selfattn import layers, masks, ops
from selfattn.config import BiBloSAConfig, MTSAConfig
from selfattn.errors import UserError
from selfattn.layers import base, blocks, mblosa, selection, source2token
from selfattn_tasks import srl
from selfattn_tasks.srl import chain, decode, decode_structure
from selfattn_tasks.srl.tagger import confidence, network, predicates, sublayer

PARAMETERS = {"padding_mask", "key_padding_mask", "padding"}
DTYPES = (torch.int64, torch.int8, torch.uint8, torch.float16, torch.float32, torch.float64)
SENTENCE = (
    "padding_mask has dtype {}; it must be torch.bool with True = padding: an attention mask of "
    "1 = keep becomes one by padding_mask = attention_mask == 0"
)
ATTENTION_MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])  # of a tokenizer: 1 = keep

x = torch.randn(2, 3, 8)
heads = torch.randn(2, 2, 3, 4)
both = masks.PositionalMask("forward"), masks.PositionalMask("backward")
attend = layers.MaskedSelfAttention(both, 4)
pool = layers.Source2Token(8)
cut = torch.randn(2, 1, 3, 4)
block = mblosa.MBloSA(BiBloSAConfig.make(), 4, both[0], 3)
config = network.TaggerConfig(9, 5, MTSAConfig.make(), word_dim=4, predicate_dim=4, heads=2)
words = torch.ones(2, 3, dtype=torch.long)
scores, labels = torch.randn(2, 3, 3).log_softmax(-1), ["O", "B-A", "I-A"]
strict = decode.bio_constraints(labels, "strict")


def sample(mask):
    return layers.build_attention("resa", 8, 2).head_sampler(x, mask)


# How to call each entry point with a mask; layers listed in ATTENTIONS need no line.
CALLS = (
    {
        "masks.PositionalMask.visible_keys": both[0].visible_keys,
        "masks.visible_pairs": lambda m: masks.visible_pairs(both, 3, m),
        "masks.check_padding_mask": lambda m: masks.check_padding_mask(m, (2, 3)),
        "ops.mtsa": lambda m: ops.mtsa(*[heads] * 4, masks=both, padding_mask=m),
        "ops.disa": lambda m: ops.disa(x, x, x, mask=both, padding_mask=m),
        "layers.base.SelfAttention.forward": None,  # without a body
        "layers.base.SelfAttention.inspect": None,
        "layers.base.SelfAttention.check_input": lambda m: layers.build_attention(
            "multihead", 8, 2
        ).check_input(x, m),
        "layers.base.zero_padding": lambda m: base.zero_padding(x, m),
        "layers.blocks.Blocks.__init__": lambda m: blocks.Blocks(x, m, 2),
        "layers.masked_self_attention.MaskedSelfAttention.forward": lambda m: attend(x, m),
        "layers.masked_self_attention.MaskedSelfAttention.weights": lambda m: attend.weights(x, m),
        "layers.mblosa.MBloSA.forward": lambda m: block(cut, m[:, None]),
        "layers.mblosa.MBloSA.fuse": lambda m: block.fuse(cut, m[:, None]),
        "layers.mblosa.MBloSA.weights": lambda m: block.weights(cut, m[:, None]),
        "layers.selection.Sampler.forward": sample,
        "layers.selection.real_tokens": lambda m: selection.real_tokens(x, m),
        "layers.source2token.Source2Token.forward": lambda m: pool(x, m),
        "layers.source2token.softmax_over_time": lambda m: source2token.softmax_over_time(x, m),
        "layers.source2token.Source2Token.weights": lambda m: pool.weights(x, m),
        "srl.decode.decode": lambda m: decode.decode(scores, m, labels),
        "srl.decode.decode_propositions": lambda m: decode.decode_propositions(
            [srl.Proposition(0, "", ())] * 2, scores, m, labels, "argmax"
        ),
        "srl.decode.viterbi": lambda m: decode.viterbi(scores, m, strict),
        "srl.decode_structure.best_structured": lambda m: decode_structure.best_structured(
            scores, m, labels
        ),
        "srl.chain.forward": lambda m: chain.forward(scores.double(), m, strict),
        "srl.chain.backward": lambda m: chain.backward(scores.double(), m, strict),
        "srl.chain.log_likelihood": lambda m: chain.log_likelihood(
            scores, torch.zeros(2, 3, dtype=torch.long), m, strict
        ),
        "srl.tagger.confidence.with_confidence": lambda m: confidence.with_confidence(
            [], scores, m, labels
        ),
        "srl.tagger.predicates.places": lambda m: predicates.places(scores[..., 0], m),
        "srl.tagger.sublayer.ContextSublayer.forward": lambda m: sublayer.ContextSublayer(
            sublayer.SUBLAYERS["bilstm"].make(), 8
        )(x, m),
        "srl.tagger.network.Tagger.forward": lambda m: network.Tagger(config)(words, words, m),
        "srl.tagger.network.Tagger.below": lambda m: network.Tagger(config).below(words, m),
        "srl.tagger.network.Tagger.above": lambda m: network.Tagger(config).above(
            x[..., :4], words, m
        ),
        "srl.tagger.network.TaggerLayer.forward": lambda m: network.TaggerLayer(config)(x, m),
    }
    | {
        f"layers.{layer.__module__.rpartition('.')[2]}.{layer.__name__}.{way}": (
            lambda m, name=name, way=way: getattr(layers.build_attention(name, 8, 2), way)(x, m)
        )
        for name, layer in layers.ATTENTIONS.items()
        for way in ("forward", "inspect")
    }
)


def takes_a_mask(function):
    return (
        inspect.isfunction(function) and PARAMETERS & inspect.signature(function).parameters.keys()
    )


def entry_points(package):
    """Names, below the package, of what is public in its modules and takes a padding mask."""
    names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    for module in map(importlib.import_module, [package.__name__, *names]):
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            path = f"{module.__name__}.{name}".split(".", 1)[1]
            if takes_a_mask(thing):
                yield path
            elif inspect.isclass(thing):
                methods = vars(thing).items()
                yield from (
                    f"{path}.{n}" for n, method in methods
                    if takes_a_mask(method) and (n == "__init__" or not n.startswith("_"))
                )  # fmt: skip


def test_every_entry_point_is_known():
    """A new mechanism, layer or operator is found here before it can forget the check."""
    found = {*entry_points(layers), *entry_points(srl)}
    found |= {f"ops.{name}" for name in ops.__all__ if takes_a_mask(getattr(ops, name))}
    found |= {name for name in CALLS if name.startswith("masks.")}
    assert found <= CALLS.keys()
    assert len(found) > 30


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call is not None])
def test_only_bool_gets_in(name):
    check(CALLS[name])


def check(call):
    call(ATTENTION_MASK == 0)
    for dtype in DTYPES:
        with pytest.raises(UserError, match=re.escape(SENTENCE.format(dtype))):
            call(ATTENTION_MASK.to(dtype))


@pytest.mark.fairseq
def test_only_bool_gets_in_through_fairseq():
    from fairseq.modules import MultiheadAttention

    import plugin
    from plugin import looking
    from plugin.models import deepatt

    tagger = deepatt.DeepAttModel(network.Tagger(config))
    fairseqs = MultiheadAttention(8, 2, self_attention=True)
    turned = x.transpose(0, 1)
    calls = {
        "looking.inspect_fairseq_multihead": lambda m: looking.inspect_fairseq_multihead(
            fairseqs, turned, m
        ),
        "models.deepatt.DeepAttModel.forward": lambda m: tagger(words, words, m),
    }
    assert set(entry_points(plugin)) == calls.keys()
    for call in calls.values():
        check(call)


def test_a_selection_is_bool_as_well():
    for name in ("queries", "keys"):
        for call in (attend, attend.weights, lambda x, **t: ops.disa(x, x, x, mask=both, **t)):
            with pytest.raises(UserError, match=f"{name} has dtype torch.int64; .* = selected"):
                call(x, **{name: ATTENTION_MASK})


def test_what_is_no_tensor_is_refused_by_its_type():
    with pytest.raises(UserError, match="padding_mask has type list; it must be torch.bool"):
        pool(x, ATTENTION_MASK.tolist())
