"""Models of sentences: no output depends on batch mates or on the side of the padding."""

import pytest
import torch

from selfattn.errors import UserError
from selfattn.models import CONTEXTS
from selfattn_tasks.sentences.model.looking import look
from selfattn_tasks.sentences.model.network import SentenceModel, SentenceModelConfig, pad
from selfattn_tasks.sentences.model.predictor import BATCH_WORDS, Predictor
from selfattn_tasks.sentences.model.state import SentenceState
from selfattn_tasks.sentences.record import Example, Kind
from selfattn_tasks.words.embeddings import WordTable, WordVectors
from selfattn_tasks.words.vocabulary import Vocabulary

# Empty, of one word, and longer than the widest convolution.
SENTENCES = ([5, 6, 7, 8, 9, 4, 3, 2], [], [4], [3, 9, 2, 2, 1, 12], [7, 11])
EXAMPLES = {
    "classification": [[s] for s in SENTENCES],
    "nli": [[s, t] for s, t in zip(SENTENCES, SENTENCES[1:] + SENTENCES[:1], strict=True)],
    "selection": [[SENTENCES[3], *SENTENCES[:3]], [[2, 3], *SENTENCES], [[], [4], []]],
}
EXAMPLES["relatedness"] = EXAMPLES["nli"]


def model(kind, context="mtsa", **more):
    config = SentenceModelConfig(
        kind, words=9, classes=5, frozen_words=2, embed_dim=6, context=context, hidden_size=8,
        head_hidden_size=8, **more,
    )  # fmt: skip
    network = SentenceModel(config).double()
    torch.nn.init.normal_(network.table.frozen)
    return network


def outcome(network, examples):
    return network(*pad(examples))


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("kind", list(Kind))
def test_neither_batch_mates_nor_the_side_of_the_padding_matter(kind, context):
    if kind is Kind.SELECTION and context == "vanilla":
        with pytest.raises(UserError, match="gives one vector for all candidates"):
            model(kind, context)
        return
    network = model(kind, context).eval()
    examples = EXAMPLES[kind]
    together = outcome(network, examples)
    assert together.isnan().sum() == 0
    for row, example in zip(together, examples, strict=True):
        (alone,) = outcome(network, [example])
        torch.testing.assert_close(row[: len(alone)], alone, rtol=1e-9, atol=1e-9)
        assert (row[len(alone) :] == float("-inf")).all()  # no candidate
    words, missing = pad(examples)
    left = torch.stack([row.roll(int((row == 0).sum()), 0) for row in words.flatten(0, 1)])
    wider = torch.nn.functional.pad(left.view(words.shape), (3, 0))
    torch.testing.assert_close(network(wider, missing), together, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", list(Kind))
def test_gradients_are_finite_with_empty_sentences(kind):
    network = model(kind, dropout=0.2)
    scores = outcome(network, EXAMPLES[kind])
    torch.logsumexp(scores, -1).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


def test_ten_thousand_words():
    network = model("classification", "mtsa").float().eval()
    long = torch.randint(2, 13, (10_000,)).tolist()
    with torch.no_grad():
        scores = outcome(network, [[long], [[2, 3]]])
    assert scores.isfinite().all()


def test_empty_sentences_fill_batches_too():
    """Each is a word of padding."""
    config = SentenceModelConfig("classification", 1, 2, embed_dim=2, context="none", hidden_size=2)
    state = SentenceState(Vocabulary(("a",), ("x", "y")), {"kind": "classification", "tokens": {}})
    sizes: list[int] = []
    predictor = Predictor([(SentenceModel(config), state)])
    assert len(predictor.predict([Example(((),), None)] * 3000, sizes.append)) == 3000
    assert sizes == [BATCH_WORDS["cpu"], 3000]


@pytest.mark.parametrize("context", ["biblosa", "mtsa", "vanilla", "lstm"])
def test_what_is_looked_into_has_a_weight_for_each_word(context):
    """Bi-BloSA holds attentions between blocks, which are not what is meant."""
    network = model("classification", context)
    state = SentenceState(Vocabulary(tuple("abcdefg"), ()), {})
    found = dict(look(network, state, tuple("abcde")))
    assert list(found) == ([context] if context in ("biblosa", "mtsa") else []) + ["pool"]
    assert found.pop("pool").source2token.shape[-1] == 5
    for inspection in found.values():
        assert inspection.token2token.shape[-2:] == (5, 5)


def test_the_table_of_words():
    """Trained, fixed, unknown and padding; a word that all know stays trained."""
    vocabulary = Vocabulary(("a", "b"), ()).with_frozen(["b", "d", "e"])
    vectors = WordVectors({"b": 0, "d": 1, "e": 2}, torch.arange(6.0).view(3, 2))
    table = WordTable(2, 2, len(vocabulary.frozen))
    before = table.trained.weight[0].clone()
    vectors.fill(vocabulary, table.trained.weight, table.frozen)
    found = table(torch.tensor([vocabulary.encode(["a", "B", "e", "d", "?"]) + [0]]))[0]
    expected = [before.tolist(), [0, 1], [4, 5], [2, 3], [0, 0], [0, 0]]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert before.abs().max() <= 0.05
    found.sum().backward()
    assert table.trained.weight.grad.tolist() == [[1, 1], [1, 1]]
    assert not table.frozen.requires_grad and "frozen" in table.state_dict()


def test_a_configuration_holds_all_switches_of_its_context():
    own = {"scores": "source2token", "num_heads": 4}
    network = model("nli", "mtsa", activation="elu", switches=own)
    switches = network.config.switches
    assert switches.items() >= own.items() and switches["value_activation"] == "elu"
    again = SentenceModel(network.config)
    assert again.config == network.config
    again.load_state_dict(network.float().state_dict())


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"kind": "x"}, "kind 'x' is unknown; allowed are nli, relatedness"),
        ({"words": 0}, "words 0 is not allowed"),
        ({"dropout": 1.0}, "dropout 1.0 is not allowed"),
        ({"kind": "relatedness", "highway": True}, "leave --highway out"),
        ({"context": "x"}, "context 'x' is unknown"),
        ({"context": "lstm", "switches": {"scores": "both"}}, "has no switch 'scores'"),
    ],
)
def test_wrong_configurations(changed, sentence):
    values = {"kind": "nli", "words": 3, "classes": 3, "embed_dim": 4, "hidden_size": 4}
    with pytest.raises(UserError, match=sentence):
        SentenceModel(SentenceModelConfig(**{**values, **changed}))
