"""``--finetune-from-model`` across attentions: what goes along, what is new, what it brings."""

import logging
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig

from plugin.compat import warm_start
from selfattn.config import CONFIGS
from selfattn.errors import UserError
from tests.plugin.conftest import write_corpus
from tests.plugin.helpers import logged
from tests.plugin.test_fairseq_features import build, fairseqs

QKVO = ("q_proj", "k_proj", "v_proj", "out_proj")
# What of a stock checkpoint finds a place in the encoder's attention.
FROM_STOCK = {
    "multihead": QKVO,
    "mtsa": QKVO,
    "fast_disa": ("v_proj",),
    "disa": (),
    "biblosa": (),
    "resa": (),
}


def start(model, state, path="other.pt"):
    cfg = SimpleNamespace(
        checkpoint=SimpleNamespace(finetune_from_model=path, load_checkpoint_on_all_dp_ranks=False),
        ema=SimpleNamespace(store_ema=False),
    )

    def load(trainer, filename):
        model.load_state_dict(dict(state), strict=True)

    warm_start.start_from_other_attentions(load, SimpleNamespace(cfg=cfg), path)


def inside(name):
    return name.startswith("encoder.layers.") and ".self_attn." in name


@pytest.mark.parametrize("mechanism", FROM_STOCK)
def test_a_stock_transformer_goes_into_every_mechanism(mechanism, caplog):
    assert set(FROM_STOCK) == set(CONFIGS)
    stock = build("--share-all-embeddings", arch="transformer_tiny", seed=2).state_dict()
    flags = ("--share-all-embeddings", "--encoder-attention", mechanism)
    model = build(*flags, seed=3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with caplog.at_level(logging.INFO):
        start(model, stock)
    for name, value in model.state_dict().items():
        goes_along = not inside(name) or any(part in name for part in FROM_STOCK[mechanism])
        if mechanism in ("disa", "biblosa", "resa") and inside(name):
            goes_along = False  # their k_proj and q_proj are others, one level further down
        wanted = stock[fairseqs(name)] if goes_along else before[name]
        assert torch.equal(value, wanted), name
    taken, new = (record.getMessage() for record in caplog.records[-2:])
    parts = ", ".join(sorted(FROM_STOCK[mechanism])) or "none"
    assert taken.startswith("warm start from other.pt: ") and taken.endswith(f"({parts})")
    own = [
        p.numel() for name, p in model.named_parameters()
        if inside(name) and not any(part in name for part in FROM_STOCK[mechanism])
    ]  # fmt: skip
    assert new.startswith(
        f"new in the encoder's attention: {len(own)} tensors ({sum(own):,} parameters)"
    )


def test_from_one_mechanism_to_another_and_back():
    disa = build(arch="transformer_disa_tiny", seed=2).state_dict()
    resa = build(arch="transformer_resa_tiny", seed=3)
    start(resa, disa)
    name = "encoder.layers.0.self_attn.attention.attention.k_proj.weight"
    assert torch.equal(resa.state_dict()[name], disa[name])
    start(resa, build(arch="transformer_resa_tiny", seed=4).state_dict())
    mtsa = build(seed=5).state_dict()
    stock = build("--encoder-attention", "multihead", seed=6)
    start(stock, mtsa)
    assert torch.equal(
        stock.encoder.layers[1].self_attn.q_proj.weight,
        mtsa["encoder.layers.1.self_attn.attention.q_proj.weight"],
    )


def test_multihead_goes_under_masks_and_back():
    stock = build("--encoder-attention", "multihead", seed=2)
    flags = ("--encoder-attention", "multihead", "--multihead-masks", "forward_backward")
    directed = build(*flags, seed=3)
    start(directed, stock.state_dict())
    again = build("--encoder-attention", "multihead", seed=4)
    start(again, directed.state_dict())
    for name, value in stock.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_projections_of_old_checkpoints_are_one_tensor():
    stock = build(arch="transformer_tiny", seed=2).state_dict()
    old = {name: value for name, value in stock.items() if not inside(name) or "out" in name}
    for layer in (0, 1):
        at = f"encoder.layers.{layer}.self_attn."
        for kind in ("weight", "bias"):
            parts = [stock[f"{at}{letter}_proj.{kind}"] for letter in "qkv"]
            old[f"{at}in_proj_{kind}"] = torch.cat(parts)
    model = build(seed=3)
    start(model, old)
    for part in QKVO:
        ours = model.state_dict()[f"encoder.layers.1.self_attn.attention.{part}.weight"]
        assert torch.equal(ours, stock[f"encoder.layers.1.self_attn.{part}.weight"])


@pytest.mark.parametrize(
    ("stock", "message"),
    [
        (("--encoder-layers", "3"), "it has encoder.layers.2."),
        (("--decoder-ffn-embed-dim", "32"), "decoder.layers.0.fc1.weight has shape (32, 64)"),
    ],
)
def test_everything_else_must_fit(stock, message):
    state = build(*stock, arch="transformer_tiny").state_dict()
    with pytest.raises(UserError) as raised:
        start(build(), state)
    assert message in str(raised.value) and "--finetune-from-model" not in str(raised.value)


def test_another_vocabulary_is_refused():
    state = build(arch="transformer_tiny", entries=30).state_dict()
    with pytest.raises(UserError, match=r"the vocabulary does not match the checkpoint"):
        start(build(), state)


def test_tied_embeddings_do_not_take_one_of_two():
    state = build(arch="transformer_tiny").state_dict()
    with pytest.raises(UserError, match=r"differ in the checkpoint other\.pt; share embeddings"):
        start(build("--share-all-embeddings"), state)


def test_without_the_flag_nothing_is_taken():
    state = build(arch="transformer_tiny").state_dict()
    with pytest.raises(UserError, match="take what fits with --finetune-from-model"):
        build().load_state_dict(state)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "none.pt does not exist"),
        ({"reset_optimizer": True}, "can not be set together with either --reset-optimizer"),
        ({"restore_file": "a.pt"}, "and --restore-file (non-default value) can not be specified"),
    ],
    ids=["missing", "reset", "restore"],
)
def test_a_missing_file_and_excluding_flags(more, message, tmp_path):
    wanted = str(tmp_path / "none.pt")
    cfg = CheckpointConfig(save_dir=str(tmp_path), finetune_from_model=wanted, **more)
    trainer = SimpleNamespace(checkpoint_suffix="", is_data_parallel_master=True)
    with pytest.raises(UserError) as raised:
        checkpoint_utils.load_checkpoint(cfg, trainer)
    assert message in str(raised.value) and len(str(raised.value)) < 200


def test_warm_is_better_than_cold_after_50_updates(run_module, toy_train, tmp_path):
    write_corpus(tmp_path, sizes={"train": 4000, "valid": 100})
    prefixes = [f"--{split}pref={tmp_path / split}" for split in ("train", "valid")]
    languages = ["--source-lang=src", "--target-lang=tgt", "--destdir", tmp_path / "data"]
    run_module("fairseq_cli.preprocess", [*languages, *prefixes]).ok()
    flags = ["--encoder-embed-dim=32", "--decoder-embed-dim=32", "--lr=0.01", "--log-format=json"]
    flags += ["--no-epoch-checkpoints", "--max-update=50"]

    def trained(name, *more):
        done = toy_train(
            [*flags, "--save-dir", tmp_path / name, *more], data=tmp_path / "data"
        ).ok()
        return done.stdout

    trained("stock", "--arch", "transformer_tiny", "--max-update", "100")
    stock = tmp_path / "stock" / "checkpoint_last.pt"
    averaged = ["--store-ema", "--max-update", "1", "--finetune-from-model", stock]
    assert "warm start from" in trained("averaged", *averaged)
    warm, cold = trained("warm", "--finetune-from-model", stock), trained("cold")
    assert f"warm start from {stock}: " in warm and "warm start" not in cold
    found = [float(logged(log.splitlines(), "valid")[-1]["valid_loss"]) for log in (warm, cold)]
    assert found[0] < found[1] - 0.1, found
