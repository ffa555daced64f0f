"""What fairseq-generate allows a translation to be."""

import torch
from torch import Tensor
from transformers import LogitsProcessor


class Limits(LogitsProcessor):  # type: ignore[misc]
    """Never padding, at least one token, and an end after a number of tokens of each source's own.

    transformers' ``forced_eos_token_id`` gives the end the probability 1; here, as in fairseq, it
    keeps its own, so that a translation that was cut is not preferred. For the rest it has
    processors, too, each of which copies all scores.

    Args:
        limits: tokens ``(B,)`` before the end of sentence.
        pad: the padding token.
        eos: the end of sentence, or several.
    """

    def __init__(self, limits: Tensor, pad: int, eos: int | list[int]) -> None:
        self.limits, self.pad, self.eos = limits, pad, eos

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Log-probabilities ``(B * beams, vocab_size)`` -> the same, -inf where it is forbidden."""
        made = input_ids.shape[1] - 1  # without the decoder's start
        scores, never = scores.clone(), float("-inf")
        scores[:, self.pad] = never
        if not made:
            scores[:, self.eos] = never
        late = made >= self.limits.repeat_interleave(len(scores) // len(self.limits))
        if late.any():
            other = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
            other[self.eos] = False
            scores.masked_fill_(late[:, None] & other, never)
        return scores
