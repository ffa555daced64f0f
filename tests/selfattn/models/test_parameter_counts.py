"""Published parameter counts, to the unit: papers' tables without the embedding."""

import pytest

from selfattn.models import ClassHead, PairHead, RelatednessHead, SelectionHead, SentenceEncoder

# Context of 300 features, its switches, highway in the head -> total.
SNLI = [
    ("mtsa", {}, True, 2_885_403),
    ("mtsa", {"masks": "none"}, True, 2_885_403),
    ("mtsa", {"scores": "source2token"}, True, 2_525_403),
    ("mtsa", {"scores": "token2token"}, True, 2_524_203),
    ("mtsa", {"scores": "none"}, True, 1_803_603),
    ("fast_disa", {}, True, 2_885_403),
    ("fast_disa", {"scores": "source2token"}, True, 2_525_403),
    ("fast_disa", {"scores": "token2token"}, True, 2_524_203),
    ("fast_disa", {"scores": "none"}, True, 1_803_603),
    ("disa", {}, False, 2_345_403),
    ("biblosa", {"hidden_size": 240}, False, 2_800_563),
    # Printed as 2.5m and 1.8m, which is cut off.
    ("biblosa", {"hidden_size": 240, "contexts": "global"}, False, 2_570_163),
    ("biblosa", {"hidden_size": 240, "contexts": "local"}, False, 1_876_083),
    ("biblosa", {"hidden_size": 240, "contexts": "none"}, False, 541_803),
    ("biblosa", {}, False, 4_148_403),
    ("resa", {}, True, 3_067_205),
    ("resa", {"shared_selection": True}, True, 2_796_604),
    ("resa", {"unselected": "nothing"}, True, 3_067_205),
    ("resa", {"sampler": "none"}, True, 2_526_003),
    ("resa", {"soft_attention": False}, True, 993_004),
    ("resa", {"soft_attention": False, "sampler": "none"}, False, 541_803),
    ("lstm", {}, False, 2_884_803),
    ("gru", {}, False, 2_524_203),
    ("sru", {}, False, 1_983_603),
    ("multi_cnn", {}, False, 1_441_803),
    ("hrchy_cnn", {}, False, 3_243_603),
    ("hrchy_cnn", {}, True, 3_424_203),
    ("multihead", {}, False, 1_982_403),
    ("none", {}, True, 1_803_603),  # what is left of MTSA without all of its scores
    ("none", {"input_map": False}, False, 541_803),
    ("vanilla", {}, False, 451_803),
]
SQUAD = [
    ("biblosa", {}, 815_001),
    ("lstm", {}, 712_601),
    ("gru", {}, 572_201),
    ("sru", {"input_map": True}, 322_001),
    ("multi_cnn", {"per_token": True, "windows": (3, 4, 5, 6)}, 601_401),
    ("multihead", {"heads": 4}, 451_001),
]


def size(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


def title(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("context", "switches", "highway", "total"), SNLI, ids=title)
def test_natural_language_inference(context, switches, highway, total):
    encoder = SentenceEncoder(300, context=context, **switches)
    assert size(encoder, PairHead(encoder.out_dim, 3, highway=highway)) == total


@pytest.mark.parametrize(("context", "switches", "total"), SQUAD, ids=title)
def test_selection_of_sentences(context, switches, total):
    question = SentenceEncoder(100, context="none", input_map=False)
    candidate = SentenceEncoder(100, context=context, hidden_size=100, **switches)
    head = SelectionHead(question.out_dim, candidate.out_dim, context=context, **switches)
    assert size(question, candidate, head) == total


@pytest.mark.parametrize(("classes", "total"), [(2, 2_164_500), (5, 2_165_400), (6, 2_165_700)])
def test_classification(classes, total):
    encoder = SentenceEncoder(300)
    assert size(encoder, ClassHead(encoder.out_dim, classes)) == total


def test_relatedness():
    encoder = SentenceEncoder(300)
    assert size(encoder, RelatednessHead(encoder.out_dim)) == 2_345_405
