"""Wrong flags through the real fairseq-train: one sentence, exit code not 0, nothing written."""

import re

import pytest
import torch
from fairseq.models import BaseFairseqModel

from plugin.compat import commands
from selfattn.errors import UserError
from tests.plugin.helpers import parsed, sentence

CASES = {
    "odd heads": (
        ("--encoder-embed-dim", "63", "--encoder-attention-heads", "3"),
        "--encoder-attention-heads 3: masks 'forward_backward' gives half of the heads",
    ),
    "heads that do not divide": (
        ("--encoder-embed-dim", "66", "--encoder-attention-heads", "4"),
        "--encoder-attention-heads 4 does not divide --encoder-embed-dim 66",
    ),
    "heads of a decoder": (
        ("--decoder-embed-dim", "66", "--decoder-attention-heads", "4"),
        "--decoder-attention-heads 4 does not divide --decoder-embed-dim 66",
    ),
    "window": (("--mtsa-window", "0"), "mask window 0 is not allowed; it must be at least 1"),
    "mechanism": (("--encoder-attention", "foo"), "invalid choice: 'foo'"),
    "switch of another mechanism": (
        ("--encoder-attention", "multihead", "--mtsa-fusion-gate"),
        "--mtsa-fusion-gate True is a switch of --encoder-attention mtsa, not of multihead",
    ),
    "no sentence short enough": (
        ("--max-source-positions", "1", "--skip-invalid-size-inputs-valid-test"),
        "no sentence is left to make a batch of",
    ),
    "two dictionaries as one": (
        ("--share-all-embeddings",),
        "--share-all-embeddings requires a joined dictionary",
    ),
    "a rate that falls without an end": (
        ("--lr-scheduler", "polynomial_decay"),
        "--total-num-update is missing: fairseq has no default for it",
    ),
    "a metric that is not logged": (
        ("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
        "--best-checkpoint-metric bleu is not logged by this validation, which has loss, ppl, wps",
    ),
}


# Known as soon as the flags are parsed: the cases above show how the command ends.
PARSED = {
    "the worst as the best": (
        ("--best-checkpoint-metric", "bleu"),
        "--best-checkpoint-metric bleu is better the higher it is: add --maximize-best-",
    ),
    "the worst reward as the best": (
        ("--best-checkpoint-metric", "reward"),
        "--best-checkpoint-metric reward is better the higher it is: add --maximize-best-",
    ),
    "the best of the losses as the worst": (
        ("--maximize-best-checkpoint-metric",),
        "--best-checkpoint-metric loss is better the lower it is: leave out --maximize-best-",
    ),
    "a log in no folder": (
        ("--log-file", "none/log"),
        "--log-file is none/log, but there is no folder none",
    ),
    "a folder as the log": (
        ("--log-file", "/dev"),
        "--log-file is /dev, which cannot be written: Is a",
    ),
    "vectors that are missing": (
        ("--encoder-embed-path", "none.txt"),
        "--encoder-embed-path none.txt: there is no such file",
    ),
    "an average that is missing": (
        ("--store-ema", "--ema-seed-model", "none.pt"),
        "--ema-seed-model none.pt: there is no such file",
    ),
    "no JSON": (
        ("--eval-bleu", "--eval-bleu-args", "{beam: 1}"),
        "--eval-bleu-args is '{beam: 1}', but must be JSON such as {",
    ),
    "a seed for batches that are made once": (
        ("--update-ordered-indices-seed",),
        "--update-ordered-indices-seed changes nothing where batches are made once: add --update-",
    ),
    "a tokenizer that is not known": (
        ("--eval-bleu", "--eval-bleu-detok", "foo"),
        "--eval-bleu-detok foo is not known; it must be one of moses, nltk, space",
    ),
    "one beta": (
        ("--optimizer", "adam", "--adam-betas", "0.9"),
        "--adam-betas 0.9 is not allowed; it must be two numbers from 0 to below 1",
    ),
    "dropout of more than everything": (
        ("--dropout", "1.5"),
        "--dropout 1.5 is not allowed; it must be 0 to below 1",
    ),
    "no layer is ever left": (
        ("--encoder-layerdrop", "1.5"),
        "--encoder-layerdrop 1.5 is not allowed; it must be 0 to below 1",
    ),
    "a rate for each epoch": (
        ("--lr", "0.1,0.2", "--lr-scheduler", "inverse_sqrt"),
        "--lr 0.1,0.2 is a rate for each epoch, but --lr-scheduler inverse_sqrt takes one rate",
    ),
    "TensorBoard in a file": (
        ("--tensorboard-logdir", "/dev/null/tb"),
        "--tensorboard-logdir is /dev/null/tb, but /dev/null is not a folder",
    ),
    "an update of no batches": (
        ("--update-freq", "1,0"),
        "--update-freq 0 is not allowed; it must be at least 1",
    ),
    "a seed below 0": (("--seed", "-1"), "--seed -1 is not allowed; it must be 0 to 4294967295"),
    "one batch of everything": (
        ("--max-tokens", "0"),
        "--max-tokens 0 is not allowed; it must be at least 1",
    ),
    "a division by no epochs": (
        ("--save-interval", "0"),
        "--save-interval 0 is not allowed; it must be at least 1",
    ),
    "fewer workers than none": (
        ("--num-workers", "-1"),
        "--num-workers -1 is not allowed; it must be at least 0",
    ),
    "an encoder without the attention that was asked for": (
        ("--encoder-layers", "0"),
        "--encoder-layers 0 is not allowed; it must be at least 1",
    ),
    "a division by no warm-up": (
        ("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "0"),
        "--warmup-updates 0 is not allowed; inverse_sqrt needs at least 1",
    ),
    "no width": (
        ("--encoder-embed-dim", "0"),
        "--encoder-embed-dim 0 is not allowed; it must be at least 1",
    ),
    "a validation without a beam": (
        ("--eval-bleu", "--eval-bleu-args", '{"beam": 0}'),
        "--beam 0 is not allowed; it must be at least 1",
    ),
    "a TPU without the package for it": (("--tpu",), "--tpu needs torch_xla, which is not inst"),
    "layers left out in training": (
        ("--encoder-layers-to-keep", "0"),
        "--encoder-layers-to-keep is not for training, where fairseq cannot read it: leave layers",
    ),
    "a rate that climbs": (("--lr", "-0.1"), "--lr -0.1 is not allowed; it must be at least 0"),
    "checkpoints written in the background without the package for it": (
        ("--write-checkpoints-asynchronously",),
        "--write-checkpoints-asynchronously needs iopath: install it with `pip install iopath`",
    ),
    "the supervised criterion of another task": (
        ("--criterion", "policy_gradient", "--supervised-criterion", "sentence_relatedness"),
        "--supervised-criterion sentence_relatedness does not fit --task translation; it is for",
    ),
    "an adaptive softmax without its loss": (
        ("--adaptive-softmax-cutoff", "10,20"),
        "--adaptive-softmax-cutoff needs --criterion adaptive_loss, not cross_entropy",
    ),
    "the loss of an adaptive softmax that is not there": (
        ("--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"),
        "--criterion adaptive_loss needs --adaptive-softmax-cutoff, such as 10000,20000",
    ),
    "torch's DDP around an adaptive softmax": (
        ("--criterion", "adaptive_loss", "--adaptive-softmax-cutoff", "10,20"),
        "--criterion adaptive_loss needs --ddp-backend legacy_ddp, not pytorch_ddp",
    ),
    "a validation that samples without saying so": (
        ("--eval-bleu", "--eval-bleu-args", '{"sampling_topk": 5}'),
        "--sampling-topk needs --sampling",
    ),
    "the criterion of models of another kind": (
        ("--task", "translation_lev", "--criterion", "nat_loss"),
        "--criterion nat_loss does not fit --arch transformer_mtsa_tiny; it is for non-auto",
    ),
    "the criterion of another task": (
        ("--criterion", "bio_tagging"),
        "--criterion bio_tagging does not fit --task translation; it is for --task srl_tagging",
    ),
}


@pytest.mark.parametrize("case", PARSED)
def test_wrong_flags_are_refused_before_anything_is_read(case):
    flags, message = PARSED[case]
    with pytest.raises(UserError, match=re.escape(message)):
        parsed("data", "--arch", "transformer_mtsa_tiny", *flags)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_vectors_of_another_width_are_refused(side, tmp_path):
    path, width = tmp_path / "vectors.txt", 64
    given = ("data", "--arch", "transformer_mtsa_tiny", f"--{side}-embed-path", path)
    path.write_text("2 3\na 1 2 3\nb 1 2 3\n")
    with pytest.raises(UserError, match=f"vectors.txt holds vectors of 3 numbers, but --{side}-"):
        parsed(*given)
    path.write_text(f"2 {width}\na {'0.5 ' * width}\n")
    parsed(*given)


@pytest.mark.parametrize("task", ["translation", "srl_tagging"])
def test_data_of_another_task_is_named(task, tmp_path):
    (tmp_path / "meta.json").touch()
    with pytest.raises(UserError, match=f"is data for --task sentences, not for --task {task}$"):
        parsed(tmp_path, "--task", task, "--arch", "transformer_mtsa_tiny")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("{1: 2}", "but must be a dictionary such as"),
        ("{'mtsa_maks': 'none'}", "names mtsa_maks, which is no flag of an attention"),
        ("{'mtsa_preset': 'nmt'}", "names mtsa_preset, which is fixed by training"),
        ("{'encoder_attention': 'disa'}", "names encoder_attention, which is fixed by training"),
        ("{'encoder_layers_to_keep': 'a'}", "encoder_layers_to_keep 'a', but must name layers"),
        ("{'decoder_layers_to_keep': [0]}", r"decoder_layers_to_keep \[0\], but must name layers"),
    ],
)
def test_overrides_that_change_nothing_are_refused(overrides, message):
    words = ("data", "--path", "x.pt", "--model-overrides")
    parsed(*words, "{'mtsa_masks': 'none'}", command="generation")
    with pytest.raises(UserError, match=message):
        parsed(*words, overrides, command="generation")


@pytest.mark.parametrize("lacks", ["supported_targets", "forward_encoder"])
def test_a_task_for_models_of_another_kind_is_one_sentence(lacks):
    with pytest.raises(AttributeError) as raised:
        getattr(BaseFairseqModel(), lacks)
    assert str(commands.explain(raised.value)).endswith("), and BaseFairseqModel is not one")
    with pytest.raises(AttributeError) as raised:
        getattr(torch.nn.Linear(1, 1), lacks)
    assert commands.explain(raised.value) is None


@pytest.mark.parametrize(("command", "flag"), [("training", "--arch"), ("generation", "--path")])
def test_a_model_is_named(command, flag):
    with pytest.raises(UserError, match=f"^{flag} is missing; give "):
        parsed("data", command=command)


@pytest.mark.parametrize(
    ("command", "flags", "message"),
    [
        ("generation", "--sampling-topp 0.9", "--sampling-topp needs --sampling"),
        (
            "generation",
            "--sampling --diverse-beam-groups 2",
            "--sampling and --diverse-beam-groups are different searches; give one of them",
        ),
        ("generation", "--num-shards 3 --shard-id 1", "--num-shards 3 has no effect in fairseq"),
        ("generation", "--print-step", "--print-step is for models that refine what they have wr"),
        ("generation", "--constraints", "--constraints ordered is for fairseq-interactive, which"),
        ("interactive_generation", "--score-reference", "--score-reference is for fairseq-gen"),
        ("interactive_generation", "--print-alignment soft", "--print-alignment soft is for fairs"),
    ],
)
def test_searches_that_a_command_cannot_make_are_refused(command, flags, message):
    with pytest.raises(UserError, match=f"^{message}"):
        parsed("data", "--path", "x.pt", *flags.split(), command=command)


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("generation", "--sampling --sampling-topk 5 --nbest 5 --print-alignment soft"),
        ("generation", "--task translation_lev --print-step --retain-iter-history"),
        ("generation", "--score-reference --diverse-beam-groups 2 --prefix-size 1"),
        ("interactive_generation", "--constraints unordered --print-alignment"),
    ],
)
def test_searches_of_a_command_are_accepted(command, flags):
    parsed("data", "--path", "x.pt", *flags.split(), command=command)


@pytest.mark.parametrize("case", CASES)
def test_wrong_flags_end_in_one_sentence(case, toy_train, tmp_path):
    flags, message = CASES[case]
    done = toy_train([*flags, "--save-dir", tmp_path / "run"])
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    # argparse, run with -m, calls the command by its file.
    assert last.startswith(("fairseq-train: error: ", "train.py: error: ")) and message in last
    assert "Traceback" not in done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--optimizer adam", "a batch size is missing: give --max-tokens or --batch-size"),
        ("--max-tokens 100", "--optimizer is missing"),
    ],
)
def test_what_fairseq_has_no_default_for_is_named(flags, message, toy_data, run_module, tmp_path):
    train = [toy_data, "--user-dir", "plugin", "--arch", "transformer_mtsa_tiny", "--cpu"]
    done = run_module("fairseq_cli.train", [*train, "--save-dir", tmp_path, *flags.split()])
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"fairseq-train: error: {message}")


@pytest.mark.parametrize(("flags", "tokens"), [("", 12000), ("--batch-size 2", None)])
def test_validation_limits_tokens_only_without_a_batch_size(flags, tokens):
    found = parsed("data", "--path", "x.pt", *flags.split(), command="validation")
    assert (found.max_tokens, found.task) == (tokens, "translation")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--temperature 0", "--temperature must be greater than 0"),
        ("--min-len 9 --max-len-a 0 --max-len-b 5", "--min-len is more than --max-len-a and"),
    ],
)
def test_what_a_search_asserts_of_its_flags_is_one_sentence(flags, message, toy_run, toy_generate):
    done = toy_generate(toy_run / "checkpoint_best.pt", flags.split())
    assert done.returncode == 1 and message in sentence(done, "fairseq-generate")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--lm-path {}", "Model, which is no language model"),
        (
            "--checkpoint-shard-count 2",
            "--checkpoint-shard-count 2 does not fit --path: Model file",
        ),
    ],
)
def test_checkpoints_of_another_kind_are_one_sentence(flags, message, toy_run, toy_generate):
    path = toy_run / "checkpoint_best.pt"
    done = toy_generate(path, flags.format(path).split())
    assert done.returncode == 1 and message in sentence(done, "fairseq-generate")


def test_help_needs_no_architecture(run_module):
    done = run_module("fairseq_cli.train", ["--user-dir", "plugin", "--help"])
    assert done.returncode == 0 and "--user-dir" in done.stdout, done.stderr


def test_what_a_command_asserts_of_its_flags_is_one_sentence(run_module, tmp_path):
    done = run_module("fairseq_cli.preprocess", ["--user-dir", "plugin", "--destdir", tmp_path])
    assert done.stderr.startswith("fairseq-preprocess: error: --trainpref must be set ")
