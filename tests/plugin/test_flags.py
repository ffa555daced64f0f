"""Wrong flags through the real fairseq-train: one sentence, exit code not 0, nothing written."""

import pytest

pytest.importorskip("fairseq")

from fairseq import options  # noqa: E402

import plugin  # noqa: E402, F401 - mends fairseq

CASES = {
    "odd heads": (
        ("--encoder-embed-dim", "63", "--encoder-attention-heads", "3"),
        "--encoder-attention-heads 3: masks 'forward_backward' gives half of the heads",
    ),
    "heads that do not divide": (
        ("--encoder-embed-dim", "66", "--encoder-attention-heads", "4"),
        "--encoder-attention-heads 4 does not divide --encoder-embed-dim 66",
    ),
    "window": (("--mtsa-window", "0"), "mask window 0 is not allowed; it must be at least 1"),
    "mechanism": (("--encoder-attention", "foo"), "invalid choice: 'foo'"),
    "switch of another mechanism": (
        ("--encoder-attention", "multihead", "--mtsa-fusion-gate"),
        "--mtsa-fusion-gate True is a switch of --encoder-attention mtsa, not of multihead",
    ),
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
        "--log-file none/log: there is no folder none",
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
    "no sentence short enough": (
        ("--max-source-positions", "1", "--skip-invalid-size-inputs-valid-test"),
        "no sentence is left to make a batch of",
    ),
    "a metric that is not logged": (
        ("--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric"),
        "--best-checkpoint-metric bleu is not logged by this validation, which has loss, ppl, wps",
    ),
}


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
def test_what_fairseq_has_no_default_for_is_named(flags, message, toy_data, run_module):
    train = [toy_data, "--user-dir", "plugin", "--arch", "transformer_mtsa_tiny", "--cpu"]
    done = run_module("fairseq_cli.train", [*train, *flags.split()])
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"fairseq-train: error: {message}")


@pytest.mark.parametrize(("flags", "tokens"), [("", 12000), ("--batch-size 2", None)])
def test_validation_limits_tokens_only_without_a_batch_size(flags, tokens):
    words = ["data", "--path", "x.pt", *flags.split()]
    parsed = options.parse_args_and_arch(options.get_validation_parser(), words)
    assert (parsed.max_tokens, parsed.task) == (tokens, "translation")


def test_help_shows_the_flags_of_the_architecture(run_module):
    done = run_module(
        "fairseq_cli.train", ["--user-dir", "plugin", "--arch", "transformer_mtsa", "--help"]
    )
    assert done.returncode == 0, done.stderr
    for flag in ("--mtsa-preset", "--mtsa-backend", "--encoder-attention {", "--share-all"):
        assert flag in done.stdout, flag
