"""Translation by transformers' generate() beside fairseq's: the same model, beam and batches.

  OMP_NUM_THREADS=1 python -m benchmarks.generation CHECKPOINT SOURCE

prints how many translations are equal, and how many sentences generate() translates in the CPU time
in which fairseq translates one, in turns. --batch 1 shows translations that no batch limits.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from plugin.models.transformer import AttentionTransformerModel
from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run
from selfattn_tasks.hf import translation
from selfattn_tasks.text import read_lines

from .table import origin
from .timing import Effort, Step, compare

Batches = list[list[torch.Tensor]]


def main() -> None:
    """Print the two numbers, and the decoder's share of generate()'s time."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("source", type=Path, help="sentences, one per line")
    parser.add_argument("--batch", type=int, default=64, help="sentences of similar length")
    parser.add_argument("--sentences", type=int, default=256, help="to time; 0: none")
    parser.add_argument("--seconds", type=float, default=60.0, help="of timing")
    parser.add_argument("--max-len-a", type=float, default=1.2)
    parser.add_argument("--max-len-b", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    hub = AttentionTransformerModel.from_pretrained(
        str(args.checkpoint.parent), args.checkpoint.name
    )
    model, tokenizer, _ = translation.read_model(args.checkpoint)
    search = translation.Search(max_len_a=args.max_len_a, max_len_b=args.max_len_b)
    translation.set_search(model.eval().generation_config, search)
    limits = {"max_len_a": args.max_len_a, "max_len_b": args.max_len_b}

    def theirs(batches: Batches) -> list[list[int]]:
        found = [hypotheses for batch in batches for hypotheses in hub.generate(batch, **limits)]
        return [best[0]["tokens"].tolist() for best in found]

    def ours(batches: Batches) -> list[list[int]]:
        padded = (pad_sequence(batch, True, padding_value=1) for batch in batches)
        return [_until_end(row) for batch in padded for row in model.generate(batch)]

    ids = sorted(map(torch.tensor, tokenizer(read_lines(args.source))["input_ids"]), key=len)
    pairs = list(zip(theirs(_cut(ids, args.batch)), ours(_cut(ids, args.batch)), strict=True))
    equal = sum(a == b for a, b in pairs)
    print(f"- equal translations: {equal} of {len(ids)}", flush=True)
    if args.sentences:
        some = _cut(ids[:: max(1, len(ids) // args.sentences)], args.batch)
        step = partial(ours, some)
        timing = compare(step, partial(theirs, some), "cpu", Effort(args.seconds, 0.0, 3, 50))
        low, high = 1 / timing.ratio_high, 1 / timing.ratio_low
        print(f"- sentences a second beside fairseq: {1 / timing.ratio:.2f} ({low:.2f}-{high:.2f})")
        print(f"- of its time, in the decoder: {_share(model, step):.2f}")
    print("\n" + origin(facts("cpu")))


def _cut(ids: list[torch.Tensor], size: int) -> Batches:
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def _until_end(row: torch.Tensor) -> list[int]:
    """Without the start, up to the end of the sentence."""
    tokens: list[int] = row[1:].tolist()
    return tokens[: tokens.index(2) + 1]


def _share(model: Any, step: Step) -> float:
    """The part of a step's time that the model's forward takes: the encoder runs before it."""
    inside, forward = [0.0], model.forward

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        found = forward(*args, **kwargs)
        inside[0] += time.process_time() - start
        return found

    model.forward = timed
    start = time.process_time()
    step()
    model.forward = forward
    return inside[0] / (time.process_time() - start)


if __name__ == "__main__":
    run(main, "benchmarks.generation")
