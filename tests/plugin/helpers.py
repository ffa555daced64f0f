"""What several test files of the plugin share: the flags of a tiny run, readers of output."""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from fairseq import options

from selfattn_tasks import checkpoints
from tests.conftest import free_port

# An epoch has 5 updates, so a checkpoint of every 4th update lies inside of an epoch.
FLAGS = """
    --user-dir plugin --arch transformer_mtsa_tiny --cpu --num-workers 0 --no-progress-bar
    --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --decoder-embed-dim 16
    --encoder-ffn-embed-dim 32 --decoder-ffn-embed-dim 32 --share-all-embeddings
    --dropout 0.1 --attention-dropout 0.1 --optimizer adam --lr 0.003 --max-tokens 400 --seed 1
    --criterion cross_entropy --log-format json --log-interval 1
""".split()

# A small tagger on `srl_corpus.prepared`.
TAGGER = """
    --user-dir plugin --task srl_tagging --arch deepatt_tiny --criterion bio_tagging
    --cpu --num-workers 0 --no-progress-bar --log-format json --log-interval 1 --seed 1
    --optimizer adam --lr 0.005 --max-tokens 500 --no-epoch-checkpoints
""".split()

# What `trained` trains for, with BLEU. fairseq validates whenever it saves: at the end of an epoch
# and every 4th update.
UPDATES = 15
MORE = f"--max-update {UPDATES} --save-interval-updates 4".split()
BLEU = [
    *"--eval-bleu --eval-bleu-remove-bpe sentencepiece --eval-bleu-print-samples".split(),
    *("--eval-bleu-args", '{"beam": 1, "max_len_b": 10}'),
]


def parsed(*words: str | Path, command: str = "training") -> Namespace:
    """The flags of one of fairseq's commands, as its parser of that name takes them."""
    parser = getattr(options, f"get_{command}_parser")()
    return options.parse_args_and_arch(parser, [*map(str, words)])


def logged(lines: Iterable[str], kind: str) -> list[dict[str, str]]:
    """The JSON records of one kind (train_inner, valid) in a log."""
    return [json.loads(line.split(f"| {kind} | ", 1)[1]) for line in lines if f"| {kind} |" in line]


def losses(lines: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    """Number of each update -> loss, gradient norm and learning rate, as the log has them."""
    return {
        record["num_updates"]: (record["loss"], record["gnorm"], record["lr"])
        for record in logged(lines, "train_inner")
    }


def hypotheses(output: str) -> dict[int, tuple[float, str]]:
    """Sentence number -> score and words, from fairseq-generate's H lines."""
    found = re.findall(r"^H-(\d+)\t(\S+)\t(.*)$", output, flags=re.MULTILINE)
    return {int(number): (float(score), words) for number, score, words in found}


def weights(path: Path) -> dict[str, torch.Tensor]:
    """A checkpoint's floating-point weights."""
    model = checkpoints.read(path)["model"]
    return {name: value for name, value in model.items() if value.is_floating_point()}


def sentence(done: Any, command: str = "fairseq-train") -> str:
    """The one line of stderr with which a command ended; only log lines may stand before it."""
    assert done.returncode not in (0, 120), done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    line: str = done.stderr.splitlines()[-1]
    assert line.startswith(f"{command}: error: "), done.stderr
    return line


def validate(run_cli: Callable[..., Any], data: Path, path: Path, *flags: str) -> dict[str, str]:
    """What fairseq-validate logs of a tagger."""
    done = run_cli(["-m", "fairseq_cli.validate", data, *TAGGER[:4], "--path", path, "--cpu",
                    "--no-progress-bar", "--log-format", "json", "--max-tokens", "500",
                    *flags]).ok()  # fmt: skip
    return logged(done.lines, "valid")[-1]


def run_ranks(run_cli: Callable[..., Any], command: list[Any], *more: str) -> list[str]:
    """fairseq-train by hand, once for each of two ranks; what each printed. Both must succeed."""
    group = ["--distributed-world-size", "2", "--distributed-no-spawn"]
    address = f"--distributed-init-method=tcp://127.0.0.1:{free_port()}"
    train = ["-m", "fairseq_cli.train", *command, *group, address, *more]
    with ThreadPoolExecutor() as pool:
        ranks = [pool.submit(run_cli, [*train, "--distributed-rank", rank]) for rank in "01"]
    outputs = []
    for done in (rank.result() for rank in ranks):
        assert done.returncode == 0, done.stderr[-5000:]
        outputs.append(done.stdout + done.stderr)
    return outputs
