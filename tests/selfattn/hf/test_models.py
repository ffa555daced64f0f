"""The models for transformers: saved, loaded elsewhere, trained, and padded."""

from __future__ import annotations

import weakref

import pytest
import torch

pytest.importorskip("transformers")

from transformers import (
    AutoModel,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn.hf import (
    SelfattnConfig,
    SelfattnForConditionalGeneration,
    SelfattnForMaskedLM,
    SelfattnForSequenceClassification,
    SelfattnForTokenClassification,
    SelfattnModel,
)
from selfattn.hf.base import SelfattnPreTrainedModel

SIZES = {
    "vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 24, "num_labels": 3, "decoder_layers": 3,
}  # fmt: skip
IDS = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 1, 1]])
HEADS = (SelfattnForSequenceClassification, SelfattnForTokenClassification, SelfattnForMaskedLM)
# A switch or a preset of each mechanism that is not its default.
SPECIAL = {
    "mtsa": {"preset": "nmt", "switches": {"window": [2, 3, 4, 5]}},
    "multihead": {"switches": {"positions": "alibi"}},
    "resa": {"preset": "code"},
}
REPEAT = """
import sys, torch
from transformers import AutoModelForSeq2SeqLM
import selfattn.hf
for folder in sys.argv[1:]:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ids = torch.tensor([[5, 6, 7, 8, 2], [9, 10, 2, 1, 1]])
    torch.save(model(input_ids=ids, labels=ids).logits, folder + "/again.pt")
"""


def config(name: str = "mtsa", **changes) -> SelfattnConfig:
    return SelfattnConfig(attention=name, **{**SIZES, **changes})


def test_a_second_process_computes_the_same(tmp_path, run_cli):
    """All mechanisms, with all that a folder must hold: difference 0.0."""
    expected = {}
    for name in CONFIGS:
        model = SelfattnForConditionalGeneration(config(name, **SPECIAL.get(name, {}))).eval()
        model.save_pretrained(tmp_path / name)
        assert (tmp_path / name / "model.safetensors").is_file()
        expected[name] = model(input_ids=IDS, labels=IDS).logits
    folders = [str(tmp_path / name) for name in CONFIGS]
    run_cli(["-c", REPEAT, *folders], fresh=False).ok()
    for name, logits in expected.items():
        again = torch.load(tmp_path / name / "again.pt")
        assert (again - logits).abs().max() == 0.0, name


def test_a_new_model_keeps_what_its_modules_draw():
    """transformers would draw each linear map and embedding again, with a deviation of 0.02."""
    model = SelfattnModel(config(vocab_size=2000, hidden_size=64))
    assert model.embeddings.tokens.weight.std().item() == pytest.approx(1 / 8, rel=0.05)
    limit = (6 / 128) ** 0.5  # Xavier
    assert model.layers[0].self_attn.v_proj.weight.abs().max().item() == pytest.approx(
        limit, rel=0.05
    )


@pytest.mark.parametrize("name", ["mtsa", "multihead"])
def test_what_a_folder_lacks_is_drawn_as_in_a_new_model(tmp_path, name):
    """A fresh head on an encoder alone, whose model is built without memory; and a fixed buffer."""
    encoder = SelfattnModel(config(name, **SPECIAL[name])).eval()
    encoder.save_pretrained(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(model.encoder(IDS)[0], encoder(IDS)[0])
    assert not model._drawn and not model.encoder._drawn  # a second model in memory
    new = SelfattnForSequenceClassification(model.config)
    for (key, weight), drawn in zip(model.named_parameters(), new.parameters(), strict=True):
        assert weight.isfinite().all(), key
        if not key.startswith("encoder."):
            assert (
                (weight.std() > 0.3 * drawn.std()) if drawn.std() > 0 else (weight == drawn).all()
            )
    model.save_pretrained(tmp_path / "whole")
    again = AutoModel.from_pretrained(tmp_path / "whole").eval()  # the encoder of a classifier
    assert torch.equal(again(IDS)[0], encoder(IDS)[0])


def test_a_subclass_may_take_more_than_a_configuration(tmp_path):
    class Tagged(SelfattnPreTrainedModel):
        def __init__(self, config, classes):
            super().__init__(config)
            self.encoder = SelfattnModel(config)
            self.head = torch.nn.Linear(config.hidden_size, classes)
            self.post_init()

    SelfattnModel(config()).save_pretrained(tmp_path)
    for more in ({}, {"classes": 5}):
        model = Tagged.from_pretrained(tmp_path, *([] if more else [5]), **more)
        assert model.head.weight.shape == (5, 16) and model.head.weight.std() > 0.05


@pytest.mark.parametrize("head", HEADS)
def test_padding_changes_nothing_and_masks_mean_keep(head):
    model = head(config()).eval()
    alone = model(IDS[1:, :3]).logits
    padded = model(IDS).logits[1:]
    left = torch.tensor([[1, 1, 9, 10, 2]])
    moved = model(left, attention_mask=(left != 1).long()).logits
    if padded.dim() == 3:
        padded, moved = padded[:, :3], moved[:, 2:]
    torch.testing.assert_close(padded, alone)
    torch.testing.assert_close(moved, alone)
    assert torch.equal(
        model(left, attention_mask=(left != 1).long().tolist()).logits, model(left).logits
    )
    for wrong in ({"input_ids": left[0]}, {"inputs_embeds": torch.randn(5, 16)}):
        with pytest.raises(UserError, match=r"the embeddings have shape \(5, 16\), but must be"):
            model(**wrong)
    with pytest.raises(UserError, match="allowed are 0 and 1"):
        model(left, attention_mask=torch.zeros(1, 5) - 10_000)
    model.config.output_attentions = True
    for asked in ({}, {"output_attentions": True}, {"output_attentions": None}):
        with pytest.raises(UserError, match="output_attentions=True: the models return no"):
            model(left, **asked)


@pytest.mark.parametrize("head", [*HEADS, SelfattnForConditionalGeneration])
def test_a_configuration_says_what_comes_out(head):
    model = head(config(return_dict=False, output_hidden_states=True)).eval()
    inputs = {"input_ids": IDS}
    if head is SelfattnForConditionalGeneration:
        inputs["labels"] = IDS
    states = [3]  # of two layers
    if head is SelfattnForConditionalGeneration:
        states = [4, 3]  # its decoder has three
    assert [len(x) for x in model(**inputs) if isinstance(x, tuple)] == states
    found = model(**inputs, return_dict=True, output_hidden_states=False)
    assert found.logits.shape[0] == 2 and not any("hidden_states" in name for name in found)


def test_inputs_of_layers_are_kept_only_where_they_are_asked_for():
    model, first, freed = SelfattnModel(config()).eval(), [], []
    model.layers[0].register_forward_pre_hook(lambda _, x: first.append(weakref.ref(x[0])))
    model.norm.register_forward_pre_hook(lambda *_: freed.append(first[-1]() is None))
    with torch.no_grad():
        for asked in (False, True):
            model(IDS, output_hidden_states=asked)
    assert freed == [True, False]


def test_a_configuration_serves_several_models():
    shared = config()
    assert SelfattnForConditionalGeneration(shared).config.is_encoder_decoder
    assert not shared.is_encoder_decoder


def test_it_trains_with_gradient_checkpointing(tmp_path):
    """Trainer runs, and recomputed activations give the same gradients."""
    model = SelfattnForSequenceClassification(config(dropout=0.0))
    batch = {"input_ids": IDS, "labels": torch.tensor([0, 2])}
    model.train()
    gradients = []
    for _ in range(2):
        model.zero_grad()
        model(**batch).loss.backward()
        gradients.append(model.encoder.layers[0].feed_forward.fc1.weight.grad.clone())
        model.gradient_checkpointing_enable()
    assert model.encoder.layers[0].gradient_checkpointing
    torch.testing.assert_close(*gradients)
    rows = [{"input_ids": ids, "labels": label} for ids, label in zip(IDS, (0, 2), strict=True)]
    how = {"max_steps": 12, "learning_rate": 0.02, "report_to": [], "use_cpu": True}
    settings = TrainingArguments(tmp_path, save_strategy="no", disable_tqdm=True, **how)
    before = model(**batch).loss.item()
    Trainer(model, settings, train_dataset=rows * 4).train()
    assert model.eval()(**batch).loss.item() < 0.5 * before


@pytest.mark.parametrize("tied", ["all", "output", "none"])
def test_shared_embeddings_stay_shared(tmp_path, tied):
    model = SelfattnForConditionalGeneration(config(share_embeddings=tied)).eval()
    model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    source, target = again.encoder.embeddings.tokens, again.decoder.embeddings.tokens
    assert (source.weight is target.weight) == (tied == "all")
    assert (again.lm_head.weight is target.weight) == (tied != "none")
    same = [m(input_ids=IDS, labels=IDS).logits for m in (model, again)]
    assert torch.equal(*same)


@pytest.mark.parametrize("tied", ["all", "output", "none"])
def test_the_vocabulary_of_both_sides_grows(tmp_path, tied):
    SelfattnForConditionalGeneration(config(share_embeddings=tied)).save_pretrained(tmp_path)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    before = model(input_ids=IDS, labels=IDS).logits
    model.resize_token_embeddings(40, mean_resizing=False)
    new = model.decoder.embeddings.tokens.weight[30:]
    assert new.std().item() == pytest.approx(1 / 4, rel=0.3)  # as a new model's of width 16
    torch.testing.assert_close(model(input_ids=IDS, labels=IDS).logits[..., :30], before)
    model.save_pretrained(tmp_path / "longer")
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "longer").eval()
    new_ids = torch.full((1, 3), 39)
    both = [m(input_ids=new_ids, labels=new_ids).logits for m in (model, again)]
    assert torch.equal(*both) and both[0].shape == (1, 3, 40)


def test_learned_positions_end():
    model = SelfattnForConditionalGeneration(
        config(positions="learned", max_position_embeddings=5)
    ).eval()
    padded = torch.cat([IDS, torch.ones_like(IDS)], 1)
    both = (model(input_ids=ids, labels=IDS).logits for ids in (IDS, padded))
    torch.testing.assert_close(*both)  # padding has no position
    message = "a sequence has 6 tokens, but learned positions end at max_position_embeddings, 5"
    for call in (
        lambda: model.encoder(torch.full((1, 6), 7)),
        lambda: model(input_ids=IDS, labels=torch.full((2, 6), 7)),
        lambda: model.generate(IDS, max_new_tokens=9, min_new_tokens=9, do_sample=False),
    ):
        with pytest.raises(UserError, match=message):
            call()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_another_padding_token_moves_no_position(tmp_path, positions):
    """Trainer gives a model the tokenizer's padding token, after training."""
    model = SelfattnForConditionalGeneration(config(positions=positions)).eval()
    expected = model(input_ids=IDS[:1], labels=IDS[:1]).logits
    model.config.pad_token_id = 0
    model.save_pretrained(tmp_path)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert torch.equal(again(input_ids=IDS[:1], labels=IDS[:1]).logits, expected)
    assert (again.config.pad_token_id, again.config.first_position) == (0, 2)


def test_a_missing_token_is_said():
    alone = config(pad_token_id=None)
    assert SelfattnModel(alone)(IDS)[0].isfinite().all()
    with pytest.raises(UserError, match="pad_token_id None is not allowed; it must be a whole"):
        SelfattnForConditionalGeneration(alone)
    ends = [("eos_token_id", wrong) for wrong in (None, [], [2, None])]
    for name, wrong in (*ends, ("decoder_start_token_id", None)):
        with pytest.raises(UserError, match=f"{name} .* is not allowed; it must be a whole"):
            SelfattnForConditionalGeneration(config(**{name: wrong}))
    several = SelfattnForConditionalGeneration(config(eos_token_id=[2, 3])).eval()
    assert several.generate(IDS, max_new_tokens=5).shape[0] == len(IDS)


def test_embeddings_are_shared_or_not_as_either_setting_says(tmp_path):
    shared, apart = config(), config(share_embeddings="none")
    for old, name, new, found in (
        (shared, "share_embeddings", "none", ("none", False)),
        (shared, "tie_word_embeddings", False, ("none", False)),
        (apart, "share_embeddings", "output", ("output", True)),
        (apart, "tie_word_embeddings", True, ("all", True)),
    ):
        old.save_pretrained(tmp_path)
        read = SelfattnConfig.from_pretrained(tmp_path, **{name: new})
        assert (read.share_embeddings, read.tie_word_embeddings) == found
    shared.tie_word_embeddings = False  # which nothing checks
    with pytest.raises(UserError, match="contradict each other; change both"):
        SelfattnForConditionalGeneration(shared)


@pytest.mark.parametrize("head", HEADS)
def test_a_subclass_has_the_loss_of_its_head(head):
    """transformers chooses one by a class's name, or that of a causal language model."""
    model = head(config()).eval()
    mine = type("Mine", (head,), {})(model.config).eval()
    mine.load_state_dict(model.state_dict())
    labels = torch.tensor([0, 2]) if model.loss_type == "ForSequenceClassification" else IDS % 3
    assert torch.equal(mine(IDS, labels=labels).loss, model(IDS, labels=labels).loss)


@pytest.mark.parametrize("head", [SelfattnModel, *HEADS, SelfattnForConditionalGeneration])
def test_masks_of_another_name_and_second_sentences_are_said(head):
    model = head(config()).eval()
    more = {"labels": IDS} if head is SelfattnForConditionalGeneration else {}
    for name in ("padding_mask", "key_padding_mask", "attn_mask"):
        with pytest.raises(UserError, match=f"{name} is given, but these models read attention_"):
            model(IDS, **more, **{name: IDS == 1})
    model(IDS, token_type_ids=torch.zeros_like(IDS), **more)
    with pytest.raises(UserError, match="token_type_ids are not all 0, but this model reads one"):
        model(IDS, token_type_ids=(IDS > 7).long(), **more)


def test_hidden_states_of_the_decoder():
    """Of a search, too, in which finished sentences have none."""
    model = SelfattnForConditionalGeneration(config()).eval()
    found = model(IDS, labels=IDS, output_hidden_states=True)
    torch.testing.assert_close(model.lm_head(found.decoder_hidden_states[-1]), found.logits)
    assert torch.equal(found.encoder_hidden_states[-1], found.encoder_last_hidden_state)
    how = {"max_len_a": 1.0, "max_len_b": 1, "output_hidden_states": True}
    made = model.generate(IDS, num_beams=3, return_dict_in_generate=True, **how)
    for states in made.decoder_hidden_states:
        assert [tuple(x.shape) for x in states] == [(6, 1, 16)] * 4


def test_what_a_decoder_cannot_do_is_said():
    with pytest.raises(UserError, match="decoder_attention_heads 3 does not divide hidden_size 16"):
        SelfattnForConditionalGeneration(config(decoder_attention_heads=3))
    model = SelfattnForConditionalGeneration(config()).eval()
    right = {"decoder_input_ids": IDS, "decoder_attention_mask": (IDS != 1).long()}
    assert model(IDS, **right).logits.shape == (2, 5, 30)
    for name in ("position_ids", "decoder_inputs_embeds"):
        with pytest.raises(UserError, match=f"{name} is given, but these models count positions"):
            model(IDS, decoder_input_ids=IDS, **{name: IDS})
        with pytest.raises(UserError, match=f"{name} is given"):
            model(encoder_outputs=model.encoder(IDS), labels=IDS, **{name: IDS})
    with pytest.raises(UserError, match="output_attentions=True: the models return no"):
        model(encoder_outputs=model.encoder(IDS), labels=IDS, output_attentions=True)
    labels = IDS.masked_fill(IDS == 1, -100)
    assert model(IDS, labels=labels).loss.isfinite()
    with pytest.raises(UserError, match="labels have -100 before a label"):
        model(IDS, labels=labels.flip(1))
    with pytest.raises(UserError, match=r"labels have shape \(2, 0\); they must be"):
        model(IDS, labels=labels[:, :0])
    with pytest.raises(UserError, match="decoder_attention_mask holds"):
        model(IDS, decoder_input_ids=IDS, decoder_attention_mask=7 * torch.ones_like(IDS))
    with pytest.raises(UserError, match=r"decoder_start_token_id \[2, 2\] is not allowed"):
        SelfattnForConditionalGeneration(config(decoder_start_token_id=[2, 2]))
    left = {name: tensor.flip(1) for name, tensor in right.items()}
    with pytest.raises(UserError, match="takes padding on the right alone"):
        model(IDS, **left)


def test_a_configuration_may_untie_the_output():
    model = SelfattnForMaskedLM(config(tie_word_embeddings=False))
    assert model.config.share_embeddings == "none"
    assert model.lm_head.weight is not model.encoder.embeddings.tokens.weight
