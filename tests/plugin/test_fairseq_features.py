"""fairseq's own features with our attention: each works, or is refused in one sentence."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from selfattn.errors import UserError
from tests.plugin.helpers import parsed

SMALL = """
    --encoder-layers 2 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 --share-all-embeddings
    --encoder-attention-heads 2 --decoder-attention-heads 2
""".split()
NO_DROPOUT = "--dropout 0 --attention-dropout 0 --activation-dropout 0".split()


def dictionary(size: int) -> Dictionary:
    """A dictionary of `size` entries, fairseq's four special ones included."""
    words = Dictionary()
    for number in range(size - len(words)):
        words.add_symbol(f"w{number}")
    return words


def build(*flags: str, arch: str = "transformer_mtsa_tiny", entries: int = 20, seed: int = 1):
    """A model as fairseq-train builds it from its flags."""
    args = parsed("data", "--arch", arch, "--cpu", "--max-tokens", "100", *flags)
    words = dictionary(entries)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words, datasets={})
    lengths = SimpleNamespace(sizes=np.array([7, 5, 2]))  # of the training data
    task.load_dataset = lambda split, **_: task.datasets.update({split: lengths})
    torch.manual_seed(seed)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task)


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    """Three sources of 7, 5 and 2 tokens, padded on the left as fairseq does."""
    torch.manual_seed(5)
    lengths = torch.tensor([7, 5, 2])
    tokens = torch.randint(4, 20, (3, 7))
    tokens[torch.arange(7) < 7 - lengths[:, None]] = 1
    return {
        "src_tokens": tokens,
        "src_lengths": lengths,
        "prev_output_tokens": torch.randint(4, 20, (3, 6)),
    }


def loss_and_gradients(model, batch):
    """A loss of the decoder's output under a fixed seed, and all gradients."""
    torch.manual_seed(3)
    loss = model(**batch)[0].float().log_softmax(-1)[..., 4].mean()
    loss.backward()
    return loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("preset", ["paper", "nmt", "srl"])
def test_train_and_eval_mode_agree_without_dropout(batch, preset):
    model = build(*SMALL, *NO_DROPOUT, "--mtsa-preset", preset)
    trained = model.train()(**batch)[0]
    with torch.no_grad():
        evaluated = model.eval()(**batch)[0]
    torch.testing.assert_close(evaluated, trained)
    assert evaluated.isfinite().all()


def test_every_parameter_learns(batch):
    model = build(*SMALL)
    _, gradients = loss_and_gradients(model, batch)
    assert [name for name, _ in model.named_parameters() if not gradients[name].any()] == []


@pytest.mark.parametrize("how", ["bfloat16", "autocast"])
def test_bfloat16_is_finite_and_close(batch, how):
    exact, gradients = loss_and_gradients(build(*SMALL, *NO_DROPOUT), batch)
    model = build(*SMALL, *NO_DROPOUT)
    if how == "bfloat16":
        loss, rounded = loss_and_gradients(model.to(torch.bfloat16), batch)
    else:
        with torch.autocast("cpu", torch.bfloat16):
            loss, rounded = loss_and_gradients(model, batch)
    assert loss == pytest.approx(exact.item(), rel=0.02)
    assert set(rounded) == set(gradients)
    assert all(gradient.isfinite().all() for gradient in rounded.values())
    name = "encoder.layers.0.self_attn.attention.v_proj.weight"
    error = (rounded[name].float() - gradients[name]).norm() / gradients[name].norm()
    assert error < 0.1


@pytest.mark.parametrize("preset", ["paper", "nmt"])
def test_activation_checkpointing_changes_nothing(batch, preset):
    """Dropout is drawn twice: the recomputed attention must drop the same weights."""
    flags = [*SMALL, "--mtsa-preset", preset, "--dropout", "0.3", "--attention-dropout", "0.3"]
    plain, gradients = loss_and_gradients(build(*flags).train(), batch)
    model = build(*flags, "--checkpoint-activations").train()
    assert hasattr(model.encoder.layers[0], "precheckpoint_forward"), "not checkpointed"
    loss, again = loss_and_gradients(model, batch)
    assert torch.equal(loss, plain)
    for name, gradient in gradients.items():
        torch.testing.assert_close(again[name], gradient, msg=name)


def test_layerdrop_drops_layers_in_training_only(batch):
    model = build(*SMALL, "--encoder-layerdrop", "0.5")
    ran = []
    for number, layer in enumerate(model.encoder.layers.children()):
        layer.register_forward_hook(lambda *_, number=number: ran.append(number))
    seen = set()
    for seed in range(20):
        ran.clear()
        torch.manual_seed(seed)
        model.train()(**batch)
        seen.add(tuple(ran))
    assert seen == {(), (0,), (1,), (0, 1)}
    ran.clear()
    model.eval()(**batch)
    assert ran == [0, 1]


def test_retained_dropout_is_honoured_and_off_by_default(batch):
    """--retain-dropout keeps attention dropout at generation, which calls eval() once more."""

    def encode(**kept):
        model = build(*SMALL, *"--dropout 0 --attention-dropout 0.5".split())
        model.make_generation_fast_(**kept)
        model.eval()
        with torch.no_grad():
            return [model(**batch)[0] for _ in range(2)]

    first, second = encode(retain_dropout=False)
    assert torch.equal(first, second)
    first, second = encode(retain_dropout=True, retain_dropout_modules=["MultiheadAttention"])
    assert not torch.equal(first, second)
    first, second = encode(retain_dropout=True, retain_dropout_modules=["AnotherModule"])
    assert torch.equal(first, second)


def test_retained_dropout_does_not_sample_selections(batch):
    model = build(*SMALL, *NO_DROPOUT, arch="transformer_resa")
    for layer in model.encoder.layers:
        layer.self_attn.attention.select_all = False
    model.make_generation_fast_(retain_dropout=True)
    model.eval()
    with torch.no_grad():
        first, *others = (model(**batch)[0] for _ in range(3))
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerEncoderLayerBase"])
def test_dropout_is_retained_in_the_same_modules_as_with_fairseqs_attention(name):
    def retained(arch):
        model = build(*SMALL, "--dropout", "0.5", arch=arch)
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=[name])
        modules = model.encoder.named_modules()
        return {at for at, m in modules if getattr(m, "apply_during_inference", False)}

    ours, fairseqs = retained("transformer_mtsa_tiny"), retained("transformer_tiny")
    assert ours == fairseqs != set()


@pytest.mark.parametrize(
    "flags",
    [
        ["--quant-noise-pq", "0.1"],
        ["--quant-noise-scalar", "0.2"],
        ["--encoder-xformers-att-config", '{"name": "linformer"}'],
    ],
    ids=lambda flags: flags[0],
)
def test_what_wraps_linear_maps_is_refused(flags):
    with pytest.raises(UserError) as refused:
        build(*SMALL, *flags)
    assert flags[0] in str(refused.value)
    assert "mtsa" in str(refused.value)


def test_a_refused_switch_is_that_of_the_attention_that_is_named():
    with pytest.raises(UserError, match="attention mtsa with .*: window lists 3 values"):
        build(*SMALL, "--mtsa-window", "3,5,9")


@pytest.mark.parametrize(
    ("name", "flags"),
    [("mtsa", ()), ("multihead", ("--encoder-attention", "multihead", "--multihead-window", "3"))],
)
def test_exports_and_pruning_are_refused(name, flags, batch):
    model = build(*SMALL, *flags).eval()
    attention = model.encoder.layers[0].self_attn
    attempts = {
        "TorchScript": lambda: torch.jit.script(model),
        "ONNX": model.prepare_for_onnx_export_,
        "head pruning": lambda: attention._get_reserve_head_index(1),
        "pruning": lambda: attention._adaptive_prune_heads([0]),
        "attn_mask": lambda: attention(
            x := torch.zeros(4, 1, 16), x, x, attn_mask=torch.ones(4, 4) > 0
        ),
        "self-attention": lambda: attention(torch.zeros(4, 1, 16), torch.zeros(4, 1, 16)),
    }
    for what, attempt in attempts.items():
        with pytest.raises(UserError, match=what) as refused:
            attempt()
        assert "--encoder-layers-to-keep" not in str(refused.value)  # refused in training
        assert name in str(refused.value)
        assert ("multihead without switches" in str(refused.value)) == (
            what in ("TorchScript", "ONNX")
        )
        assert str(refused.value).count("\n") == 0


def test_multihead_is_fairseq_s_own_transformer(batch):
    """Same words on the command line, same weights, same loss and gradients."""
    flags = [*SMALL, *"--dropout 0.3 --attention-dropout 0.3".split()]
    own = build(*flags, arch="transformer")
    ours = build(*flags, "--encoder-attention", "multihead", arch="transformer_mtsa")
    expected, found = own.state_dict(), ours.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    loss, gradients = loss_and_gradients(own.train(), batch)
    same, others = loss_and_gradients(ours.train(), batch)
    assert torch.equal(loss, same)
    assert all(torch.equal(others[name], gradients[name]) for name in gradients)


def test_multihead_with_masks_starts_as_multihead(batch):
    """Equal weights, the decoder's too; a window beyond the sentence changes nothing."""
    own = build(*SMALL, *NO_DROPOUT, arch="transformer")
    flags = (*SMALL, *NO_DROPOUT, "--encoder-attention", "multihead")
    loss, gradients = loss_and_gradients(own, batch)
    for switch in (("--multihead-window", "99"), ("--multihead-masks", "forward_backward")):
        ours = build(*flags, *switch)
        weights = {fairseqs(name): value for name, value in ours.state_dict().items()}
        expected = own.state_dict()
        assert set(weights) == set(expected)
        assert all(torch.equal(weights[name], expected[name]) for name in expected)
        same, others = loss_and_gradients(ours, batch)
        if "99" in switch:
            torch.testing.assert_close(same, loss, rtol=0, atol=1e-6)
            for name, gradient in others.items():
                torch.testing.assert_close(gradient, gradients[fairseqs(name)], rtol=0, atol=1e-6)
        else:
            assert (same - loss).abs() > 1e-4


@pytest.mark.parametrize(("positions", "more"), [("relative", 2 * 33 * 8), ("rotary", 0)])
def test_multihead_with_positions_trains(batch, positions, more):
    """Also without the sines that fairseq adds; what is new has a gradient."""
    flags = (*SMALL, "--encoder-attention", "multihead", "--no-token-positional-embeddings")
    own, ours = build(*flags), build(*flags, "--multihead-positions", positions)
    sizes = [sum(p.numel() for p in model.parameters()) for model in (own, ours)]
    assert sizes[1] - sizes[0] == 2 * more  # two layers
    _, gradients = loss_and_gradients(ours, batch)
    new = [name for name in gradients if ".relative." in name]
    assert len(new) == (4 if more else 0)
    assert all(gradients[name].abs().max() > 0 for name in new)
    assert ours.encoder.embed_positions is None


def fairseqs(name: str) -> str:
    return name.replace("self_attn.attention.", "self_attn.")


def test_published_parameter_counts():
    """61.38 M and 61.58 M in the paper; fairseq has 20,480 more: biases, no target-space table."""

    def count(attention: str, *more: str) -> int:
        flags = ["--share-all-embeddings", "--encoder-attention", attention, *more]
        with torch.device("meta"):  # shapes without memory
            model = build(*flags, arch="transformer_mtsa_wmt_en_de", entries=33708)
        assert all(parameter.is_meta for parameter in model.parameters())
        return sum(parameter.numel() for parameter in model.parameters())

    assert count("multihead") == 61_399_040
    assert count("multihead", "--multihead-masks", "forward_backward") == 61_399_040
    assert count("mtsa") == 61_598_720 == 61_399_040 + 199_680


def test_layers_can_be_left_out_at_generation(train, tmp_path):
    """fairseq-generate --model-overrides "{'encoder_layers_to_keep': '1'}"."""
    train(tmp_path, *"--encoder-layers 2 --encoder-layerdrop 0.3 --max-update 2".split())
    path = str(tmp_path / "checkpoint_last.pt")
    stored = checkpoint_utils.load_checkpoint_to_cpu(path)["model"]
    with pytest.raises(UserError, match="encoder_layers_to_keep is '2', but .* the layers 0, 1$"):
        checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"encoder_layers_to_keep": "2"}
        )
    overrides = {"encoder_layers_to_keep": "1"}
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], arg_overrides=overrides)
    kept = model.state_dict()
    assert not any(name.startswith("encoder.layers.1.") for name in kept)
    for name, value in kept.items():
        original = name.replace("encoder.layers.0.", "encoder.layers.1.")
        assert torch.equal(value, stored[original]), name
