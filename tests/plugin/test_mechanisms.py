"""Every mechanism as an architecture: sizes, defaults, --help, and training by real commands."""

import functools
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, build_model
from omegaconf import OmegaConf

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.tagger.predictor import Predictor
from selfattn_tasks.srl.tagger.sublayer import BASELINES
from tests.plugin.helpers import logged, parsed
from tests.plugin.srl_corpus import prepared
from tests.plugin.test_distributed import MORE, check_same, two_processes
from tests.plugin.test_fairseq_features import build

MECHANISMS = [name for name in CONFIGS if name != "multihead"]
# fairseq's architecture of the same sizes, and whether it is the published recipe.
SIZES = {
    "": ("transformer", False),
    "_tiny": ("transformer_tiny", False),
    "_iwslt_de_en": ("transformer_iwslt_de_en", False),
    "_wmt_en_de": ("transformer_wmt_en_de", True),
    "_wmt_en_de_big": ("transformer_vaswani_wmt_en_de_big", True),
}
TAGGER = """
    --user-dir plugin --task srl_tagging --criterion bio_tagging --cpu --num-workers 0
    --encoder-layers 1 --encoder-attention-heads 2 --encoder-embed-dim 32 --word-embed-dim 16
    --optimizer adam --lr 0.001 --max-tokens 500 --max-update 3 --seed 1
    --no-progress-bar --log-format json --log-interval 1
""".split()


@functools.cache
def resolved(arch: str):
    """The arguments that an architecture's function leaves, from none."""
    return parsed("data", "--arch", arch, "--cpu")


@pytest.mark.parametrize("end", SIZES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_translation_architectures_have_fairseqs_sizes(mechanism, end):
    twin, published = SIZES[end]
    own, ours = resolved(twin), resolved(f"transformer_{mechanism}{end}")
    changed = {name for name, value in vars(own).items() if getattr(ours, name) != value}
    dropouts = {"attention_dropout", "activation_dropout"} if published else set()
    first = {f"{side}_normalize_before" for side in ("encoder", "decoder")} if published else set()
    assert changed <= {"arch"} | dropouts | first
    assert all(getattr(ours, name) == 0.1 for name in dropouts)
    assert all(getattr(ours, name) is True for name in first)
    assert ours.encoder_attention == mechanism
    wanted = "nmt" if published and "nmt" in CONFIGS[mechanism].presets else None
    preset = CONFIGS[mechanism].default_preset if wanted is None else wanted
    assert getattr(ours, f"{mechanism}_preset") == preset


@pytest.mark.parametrize("end", SIZES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_translation_architectures_build(mechanism, end):
    with torch.device("meta"):  # shapes without memory
        model = build("--share-all-embeddings", arch=f"transformer_{mechanism}{end}", entries=40)
    layers = model.encoder.layers
    assert {layer.self_attn.attention.config.name for layer in layers} == {mechanism}
    assert layers[0].self_attn.attention.output_dim == model.encoder.embed_tokens.embedding_dim


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tagging_architectures(mechanism):
    args = resolved(f"deepatt_{mechanism}")
    assert (args.encoder_attention, args.encoder_layers) == (mechanism, 10)
    assert (args.attention_dropout, args.timing_signal) == (0.19, False)
    preset = "srl" if "srl" in CONFIGS[mechanism].presets else CONFIGS[mechanism].default_preset
    assert getattr(args, f"{mechanism}_preset") == preset


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_baselines_of_table_4(baseline):
    args = resolved(f"deepatt_{baseline}")
    assert (args.encoder_attention, args.encoder_layers) == (baseline, 10)
    assert (args.attention_dropout, args.timing_signal, args.embedding_dropout) == (0.1, False, 0)


def test_a_baseline_has_no_switches():
    flags = ("--arch", "deepatt", "--encoder-attention", "cnn", "--mtsa-masks", "none")
    with pytest.raises(UserError, match="--mtsa-masks none is a switch of .* mtsa, not of cnn"):
        parsed("data", *flags)


@pytest.mark.parametrize("model", ["transformer", "deepatt"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_help(model, mechanism, capsys):
    with pytest.raises(SystemExit) as done:
        parsed("--arch", f"{model}_{mechanism}", "--help")
    assert done.value.code == 0
    assert f"--{mechanism.replace('_', '-')}-preset" in capsys.readouterr().out


@pytest.mark.parametrize("arch", ["transformer_mtsa", "transformer_disa_tiny", "deepatt_resa"])
def test_hydra_is_refused_in_one_sentence(arch):
    """As fairseq-hydra-train calls it with +model._name=NAME; it prints a SystemExit alone."""
    cfg = OmegaConf.create({"_name": arch})
    OmegaConf.set_struct(cfg, True)
    with pytest.raises(SystemExit) as ended:
        build_model(cfg, task=None)
    assert str(ended.value).startswith(f"fairseq-hydra-train: error: model {arch} has no Hydra")


def test_an_architecture_with_another_attention():
    """The flag wins over the name, as in the commands that compare attentions."""
    assert set(ARCH_CONFIG_REGISTRY) >= {f"transformer_{name}" for name in MECHANISMS}
    flags = ("--encoder-attention", "fast_disa", "--fast-disa-masks", "backward")
    attention = build(*flags).encoder.layers[0].self_attn.attention
    assert (attention.config.name, attention.config.masks) == ("fast_disa", "backward")


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "mtsa"])
def test_translation_trains(mechanism, train, prepared, run_cli, tmp_path):
    """Samplers of ReSA, which this criterion never trains, must not stop DDP."""
    arch = ("--arch", f"transformer_{mechanism}_tiny")
    alone = tmp_path / "alone"
    log = train(alone, *MORE, "--update-freq", "2", *arch)
    if mechanism in ("biblosa", "resa"):  # blocks of automatic length, and parts that stay idle
        together = tmp_path / "together"
        outputs = two_processes(run_cli, prepared / "data-bin", together, *arch)
        check_same(together, outputs, (alone, log), first=1)
    flags = checkpoints.model_flags(checkpoints.read(alone / "checkpoint_last.pt"))
    assert flags["encoder_attention"] == mechanism
    assert any(name.startswith(f"{mechanism}_") for name in flags)
    warned = any("attention 'resa' selects every token" in line for line in log)
    assert warned == (mechanism == "resa")


@pytest.fixture(scope="module")
def tagging_data(tmp_path_factory) -> Path:
    return prepared(tmp_path_factory.mktemp("mechanisms"), train=(40, 1), valid=(40, 2))


@pytest.mark.parametrize("mechanism", [*(name for name in CONFIGS if name != "mtsa"), *BASELINES])
def test_tagging_trains(mechanism, tagging_data, run_cli, tmp_path):
    """With MTSA's masks where they are a choice beside the published form."""
    arch = "deepatt" if mechanism == "multihead" else f"deepatt_{mechanism}"
    command = ["-m", "fairseq_cli.train", tagging_data, "--arch", arch, *TAGGER]
    if mechanism == "multihead":
        command += ["--multihead-masks", "forward_backward", "--multihead-positions", "rotary"]
    lines = run_cli([*command, "--save-dir", tmp_path]).ok().lines
    losses = [float(record["loss"]) for record in logged(lines, "train_inner")]
    assert len(losses) == 3 and all(0 < loss < 20 for loss in losses)
    assert "valid_f1" in logged(lines, "valid")[-1]
    state = checkpoints.read(tmp_path / "checkpoint_last.pt")["task_state"]["srl_tagging"]
    stored = state["config"]["attention"]
    masks = None if mechanism in BASELINES else "forward_backward"
    assert (stored["name"], stored.get("masks")) == (mechanism, masks)
    gold = conll.read(tagging_data / "valid.conll")
    found = Predictor.load([tmp_path / "checkpoint_last.pt"]).predict(gold, "published")
    assert [len(s.propositions) for s in found] == [len(s.propositions) for s in gold]
