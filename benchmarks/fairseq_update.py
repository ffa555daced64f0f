"""Methods of bench_training.py's level fairseq: whole updates by fairseq's own trainer.

The file is loaded by its path, as one of a user is, so that its imports are absolute.
"""

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.checks import BOUNDS, CheckFailed
from benchmarks.method import Case, Method, Setup
from benchmarks.testing import error_ratio
from selfattn.block_length import block_length
from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS

ROOT = Path(__file__).resolve().parents[1]
WORDS = 8000
# Batches differ, and a step takes them in turns, as training does.
BATCHES = 4
FLAGS = """
    --arch transformer_mtsa --source-lang src --target-lang tgt --share-all-embeddings
    --dropout 0.1 --optimizer adam --adam-betas (0.9,0.98) --lr 0.0005 --lr-scheduler inverse_sqrt
    --warmup-updates 4000 --criterion label_smoothed_cross_entropy --label-smoothing 0.1
    --max-tokens 1000000 --seed 1 --num-workers 0
""".split()
PRECISION = {"float32": [], "bfloat16": ["--bf16"], "float16": ["--fp16"]}


class FairseqMethod(Method):
    """A Transformer for translation with one encoder attention, on random sentences."""

    level = "fairseq"

    def __init__(self, attention: str, preset: str | None) -> None:
        shown = {"mtsa": "MTSA", "multihead": "multi-head, fairseq"}.get(attention, attention)
        if preset is None:
            super().__init__(attention, shown)
        else:
            super().__init__(f"{attention}:{preset}", f"{shown} ({preset})")
        self.attention = attention
        self.preset = preset

    def build(self, setup: Setup) -> nn.Module:
        """The model alone, without its trainer."""
        model: nn.Module = self._trainer(setup, 64).model
        return model

    def case(self, setup: Setup, batch: int, length: int) -> Case:
        """A step is an update: forward, backward, Adam, with dropout."""
        trainer = self._trainer(setup, length)
        batches = [
            _batch(trainer.task, batch, length, seed, trainer.device) for seed in range(BATCHES)
        ]
        turn = 0

        def step() -> None:
            nonlocal turn
            trainer.train_step([batches[turn % len(batches)]])
            trainer.zero_grad()
            turn += 1

        return Case(step, sum(p.numel() for p in trainer.model.parameters()), stateful=True)

    def check(self, setup: Setup, length: int, *, against_reference: bool = True) -> None:
        """The encoder's output for a sentence beside longer ones and alone; finite weights."""
        trainer = self._trainer(setup, length)
        batch = _batch(trainer.task, 3, length, 1, trainer.device)
        trainer.train_step([batch])
        for name, weight in trainer.model.named_parameters():
            if not torch.isfinite(weight).all():
                raise CheckFailed(f"{name} is not finite after an update")
        encoder = trainer.model.eval().encoder
        tokens, lengths = (batch["net_input"][name] for name in ("src_tokens", "src_lengths"))
        real = int(lengths[-1])  # the shortest sentence; fairseq pads sources on the left
        with torch.no_grad():
            beside = encoder(tokens, lengths)["encoder_out"][0][-real:, -1]
            alone = encoder(tokens[-1:, -real:], lengths[-1:])["encoder_out"][0][:, 0]
        error = error_ratio(alone.cpu(), beside.cpu())
        if not error <= BOUNDS[setup.dtype]:
            raise CheckFailed(f"a sentence beside others, against it alone: error {error:.1e}")

    def _trainer(self, setup: Setup, length: int) -> Any:
        """fairseq's trainer around a fresh model."""
        import fairseq.utils
        from fairseq import options, tasks
        from fairseq.dataclass.utils import convert_namespace_to_omegaconf
        from fairseq.trainer import Trainer

        fairseq.utils.import_user_module(argparse.Namespace(user_dir=str(ROOT / "plugin")))
        with tempfile.TemporaryDirectory() as folder:
            for language in ("src", "tgt"):
                lines = "".join(f"w{number} 1\n" for number in range(WORDS))
                (Path(folder) / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
            (Path(folder) / "train.src-tgt.src.idx").touch()  # how the task finds its languages
            flags = [folder, *FLAGS, *self._flags(setup, length)]
            args = options.parse_args_and_arch(options.get_training_parser(), flags)
            cfg = convert_namespace_to_omegaconf(args)
            task = tasks.setup_task(cfg.task)
        torch.manual_seed(1)
        model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
        trainer = Trainer(cfg, task, model, criterion)
        trainer.begin_epoch(1)
        return trainer

    def _flags(self, setup: Setup, length: int) -> list[str]:
        flags = ["--encoder-attention", self.attention, *PRECISION[setup.dtype]]
        prefix = "--" + self.attention.replace("_", "-")
        if self.preset is not None:
            flags += [f"{prefix}-preset", self.preset]
        if setup.backend != "auto" and self.attention != "multihead":
            flags += [f"{prefix}-backend", setup.backend]
        if self.attention == "biblosa":  # there is no training data to choose it from
            flags += [f"{prefix}-block-length", str(block_length(length))]
        if setup.device == "cpu":
            flags.append("--cpu")
        for side in ("encoder", "decoder"):
            flags += [f"--{side}-layers", str(setup.layers)]
            flags += [f"--{side}-embed-dim", str(setup.embed_dim)]
            flags += [f"--{side}-ffn-embed-dim", str(setup.ffn_dim)]
            flags += [f"--{side}-attention-heads", str(setup.heads)]
        return flags


def _batch(task: Any, batch: int, length: int, seed: int, device: torch.device) -> Any:
    """Random sentences of 3/4 of the length to the length, as fairseq groups and pads them."""
    import fairseq.utils
    from fairseq.data import LanguagePairDataset

    generator = random.Random(seed)
    dictionary = task.source_dictionary
    sizes = sorted(
        (generator.randint(-(-3 * length // 4), length) for _ in range(batch)), reverse=True
    )
    sizes[0] = length

    def sentences() -> list[torch.Tensor]:
        first, last = dictionary.nspecial, len(dictionary) - 1
        return [
            torch.tensor(
                [*(generator.randint(first, last) for _ in range(size - 1)), dictionary.eos()]
            )
            for size in sizes
        ]

    pairs = LanguagePairDataset(
        sentences(), sizes, dictionary, sentences(), sizes, task.target_dictionary, shuffle=False
    )
    sample = pairs.collater([pairs[index] for index in range(batch)])
    return fairseq.utils.move_to_cuda(sample) if device.type == "cuda" else sample


METHODS: list[Method] = [
    FairseqMethod(name, preset)
    for name in ATTENTIONS
    for preset in (tuple(CONFIGS[name].presets) or (None,))
]
